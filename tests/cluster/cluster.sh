#!/usr/bin/env bash
# A cluster of N hosts on one Linux machine, for tests and benchmarks of distributed training.
#
# A host is a set of namespaces: network (a cable eth0 to a switch), host name, processes, shared memory (a /dev/shm of
# its own) and mounts (an /etc/hosts of its own). MPI sees N nodes; what they tell each other crosses a network device
# that can be counted, capped, delayed and cut; a host can hang or vanish. Files and cores belong to all hosts.
# h0 is the login node, where `run` starts mpirun; ranks live on h1..hN.
#
#   cluster.sh up N [RATE] [DELAY]  N hosts, e.g. `up 4 1gbit`, `up 4 100mbit 5ms`; RATE "-": no cap. RATE caps what a
#                                   host sends and what it receives; DELAY is that of its cable, one way: from host to
#                                   host it counts twice, there and back four times
#   cluster.sh hosts                name, address and state of every host
#   cluster.sh run ARGS...          mpirun ARGS... over h1..hN, CLUSTER_SLOTS ranks a host (default 1)
#   cluster.sh hostfile             h1..hN as a host file, one per line
#   cluster.sh exec I COMMAND...    a command on host I (0: the login node)
#   cluster.sh reach I J            milliseconds from host I to host J and back; fails if there is no way
#   cluster.sh cut I, heal I        pull the cable of host I, put it back: frames are lost, nobody is told
#   cluster.sh slow I RATE          another rate for host I
#   cluster.sh delay I TIME [JITTER [LOSS%]]   another delay for host I, after `up` with a delay (0ms will do)
#   cluster.sh pause I, resume I    stop every process on host I (it hangs), let them go on
#   cluster.sh crash I              kill every process on host I, and the host
#   cluster.sh stats [I]            bytes and packets that hosts have received and sent
#   cluster.sh down                 kill every process on the hosts and remove the cluster
#   cluster.sh selftest             all of this on a cluster of its own; prints "N passed, N failed"
#
# Environment: CLUSTER_NAME (default carafe: several clusters may be up at once), CLUSTER_SLOTS, CLUSTER_MPI (openmpi,
# the default, or mpich), CLUSTER_MPI_ARGS (more arguments for mpirun), CLUSTER_RUN_DIR (default /run/cluster-NAME),
# CLUSTER_SUBNET (default 10.77.0).
#
# Needs root, iproute2, util-linux and a kernel with veth, bridge and tbf; delays need g++ and /dev/net/tun
# (netdelay.cpp stands in for netem, which not every kernel has). The machine's own network is not touched, and no
# named namespace is made: a namespace lives as long as the process that `up` started in it, and only processes noted
# in the run directory, by id and start time, and those inside their namespaces are ever signalled.
set -euo pipefail

name=${CLUSTER_NAME:-carafe}
run_dir=${CLUSTER_RUN_DIR:-/run/cluster-$name}
subnet=${CLUSTER_SUBNET:-10.77.0}
self=$(readlink -f "$0")
namespaces=(--net --uts --ipc --mount)

die() {
  printf 'error: %s\n  fix: %s\n' "$1" "${2:-see $0 help}" >&2
  exit 1
}

# ---- Holders: the processes that keep namespaces alive ----

# start_time PID: in kernel ticks. With the id it names a process for good.
start_time() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  # shellcheck disable=SC2086
  set -- ${stat##*) }
  echo "${20}"
}

note_pid() { echo "$2 $(start_time "$2")" >"$run_dir/$1.pid"; } # HOLDER PID

# pid_of HOLDER: fails if the process is no longer the one that we started.
pid_of() {
  local pid start
  [ -r "$run_dir/$1.pid" ] || return 1
  read -r pid start <"$run_dir/$1.pid"
  [ "$(start_time "$pid")" = "$start" ] || return 1
  echo "$pid"
}

wait_for_file() {
  local turn
  for ((turn = 0; turn < 200; turn++)); do
    [ ! -e "$1" ] || return 0
    sleep 0.05
  done
  return 1
}

# hold HOLDER HOSTNAME [pid]: starts a process in namespaces of its own; as the first process of a pid namespace it
# also reaps orphans.
hold() {
  local holder=$1 host=$2 parent pid flags=("${namespaces[@]}")
  local body='
    set -e
    mount --make-rprivate /
    hostname "$1"
    mount -t tmpfs -o size=50% tmpfs /dev/shm
    [ ! -e "$2" ] || mount --bind "$2" /etc/hosts
    ip link set lo up
    echo up >"$3"
    trap : CHLD
    while :; do sleep 86400 & wait $! || :; done'
  rm -f "$run_dir/$holder.up"
  [ "${3:-}" != pid ] || flags+=(--pid --fork --kill-child --mount-proc)
  setsid unshare "${flags[@]}" bash -c "$body" holder "$host" "$run_dir/hosts.etc" "$run_dir/$holder.up" \
    </dev/null >"$run_dir/$holder.log" 2>&1 &
  parent=$!
  wait_for_file "$run_dir/$holder.up" ||
    die "host $host did not start: $(cat "$run_dir/$holder.log")" 'namespaces need root and CAP_SYS_ADMIN'
  pid=$parent
  if [ "${3:-}" = pid ]; then
    pid=$(cat "/proc/$parent/task/$parent/children")
    pid=${pid%% *}
  fi
  note_pid "$holder" "$pid"
}

# inside HOLDER COMMAND...: in its namespaces, with the same working directory.
inside() {
  local pid flags=("${namespaces[@]}") holder=$1
  shift
  pid=$(pid_of "$holder") || die "$holder is not running"
  case $holder in sw | h0) ;; *) flags+=(--pid) ;; esac
  # shellcheck disable=SC2016
  nsenter --target "$pid" "${flags[@]}" -- sh -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" "$@"
}

# ---- Cables ----

size() { cat "$run_dir/size" 2>/dev/null || die "no cluster \"$name\" is up" "$0 up N"; }

check_host() { [[ ${1:-} =~ ^[0-9]+$ ]] && [ "$1" -le "$(size)" ] || die "there is no host \"${1:-}\"" "$0 hosts"; }

address() { echo "$subnet.$(($1 + 10))"; }

to_microseconds() {
  case $1 in
  *us) echo "${1%us}" ;;
  *ms) awk "BEGIN { print ${1%ms} * 1000 }" ;;
  *s) awk "BEGIN { print ${1%s} * 1000000 }" ;;
  *) die "\"$1\" is no time" 'write 200us, 5ms or 1s' ;;
  esac
}

# set_rate I RATE: what the host sends is capped at its eth0, what it receives at its port of the switch. The bucket
# holds 2 ms, at least 64 KB (one offloaded segment): with less, traffic both ways stays below the rate.
set_rate() {
  local i=$1 rate=$2 burst
  if [ "$rate" = - ]; then
    inside "h$i" tc qdisc del dev eth0 root 2>/dev/null || :
    inside sw tc qdisc del dev "p$i" root 2>/dev/null || :
  else
    burst=$(awk -v r="$rate" 'BEGIN {
      unit = r; sub(/^[0-9.]+/, "", unit)
      bits = unit == "kbit" ? 1e3 : unit == "mbit" ? 1e6 : unit == "gbit" ? 1e9 : 0
      if (!bits) exit 1
      bytes = r * bits / 8 * 0.002
      printf "%d", bytes < 65536 ? 65536 : bytes }') || die "\"$rate\" is no rate" 'write 500kbit, 100mbit, 10gbit or -'
    inside "h$i" tc qdisc replace dev eth0 root tbf rate "$rate" burst "$burst" latency 20ms
    inside sw tc qdisc replace dev "p$i" root tbf rate "$rate" burst "$burst" latency 20ms
  fi
  echo "$rate" >"$run_dir/h$i.rate"
}

# plug I [DELAY]: a cable from host I to the switch, through a relay if it shall delay.
plug() {
  local i=$1 delay=${2:-} host
  host=$(pid_of "h$i")
  if [ -z "$delay" ]; then
    inside sw ip link add "p$i" type veth peer name eth0 netns "$host"
  else
    echo "$(to_microseconds "$delay") 0 0" >"$run_dir/h$i.delay"
    rm -f "$run_dir/relay$i.up"
    nsenter --target "$(pid_of sw)" "${namespaces[@]}" -- \
      setsid "$run_dir/netdelay" "a$i" "p$i" "$run_dir/h$i.delay" "$run_dir/relay$i.up" \
      </dev/null >"$run_dir/relay$i.log" 2>&1 &
    wait_for_file "$run_dir/relay$i.up" ||
      die "the relay of h$i did not start: $(cat "$run_dir/relay$i.log")" 'delays need /dev/net/tun; go without'
    note_pid "relay$i" $!
    inside sw ip link set "a$i" name eth0 netns "$host"
  fi
  inside sw ip link set "p$i" master br0 up
  inside "h$i" ip addr add "$(address "$i")/24" dev eth0
  inside "h$i" ip link set eth0 up
}

# ---- The commands ----

up() {
  local n=${1:-} rate=${2:--} delay=${3:-} i
  [[ $n =~ ^[0-9]+$ ]] && [ "$n" -ge 1 ] && [ "$n" -le 200 ] || die 'up: how many hosts?' 'give 1 to 200'
  [ "$(id -u)" = 0 ] || die 'namespaces need root' "as root: $0 up $*"
  command -v ip >/dev/null || die 'there is no ip' 'install iproute2'
  [ ! -e "$run_dir" ] || die "cluster \"$name\" is up already ($run_dir)" "$0 down, or another CLUSTER_NAME"
  mkdir -p "$run_dir"
  # shellcheck disable=SC2154
  trap 'status=$?; [ $status = 0 ] || down; exit $status' EXIT
  echo "$n" >"$run_dir/size"
  {
    echo '127.0.0.1 localhost'
    for ((i = 0; i <= n; i++)); do echo "$(address "$i") h$i"; done
  } >"$run_dir/hosts.etc"
  # What mpirun calls in place of ssh: agent HOST COMMAND...
  printf '#!/bin/sh\nCLUSTER_NAME=%q CLUSTER_RUN_DIR=%q CLUSTER_SUBNET=%q exec %q agent "$@"\n' \
    "$name" "$run_dir" "$subnet" "$self" >"$run_dir/agent"
  chmod +x "$run_dir/agent"
  if [ -n "$delay" ]; then
    to_microseconds "$delay" >/dev/null
    "${CXX:-g++}" -std=c++20 -O2 -o "$run_dir/netdelay" "$(dirname "$self")/netdelay.cpp"
  fi
  hold sw "$name-switch"
  inside sw ip link add br0 type bridge
  inside sw ip link set br0 up
  hold h0 h0
  for ((i = 1; i <= n; i++)); do hold "h$i" "h$i" pid; done
  plug 0 # the login node is neither slow nor far
  for ((i = 1; i <= n; i++)); do
    plug "$i" "$delay"
    [ "$rate" = - ] || set_rate "$i" "$rate"
  done
  trap - EXIT
  hosts
}

hosts() {
  local n i state
  n=$(size)
  for ((i = 0; i <= n; i++)); do
    state=lost
    if pid_of "h$i" >/dev/null; then
      state=up
      [ ! -e "$run_dir/h$i.cut" ] || state='cut'
      [ ! -e "$run_dir/h$i.paused" ] || state=$state,paused
    fi
    echo "h$i $(address "$i") $state rate=$(cat "$run_dir/h$i.rate" 2>/dev/null || echo -)" \
      "delay_us=$(cut -d' ' -f1 "$run_dir/h$i.delay" 2>/dev/null || echo 0)"
  done
}

hostfile() {
  local n i
  n=$(size)
  for ((i = 1; i <= n; i++)); do ! pid_of "h$i" >/dev/null || echo "h$i:${CLUSTER_SLOTS:-1}"; done
}

# Settings go in as environment, so that those of the command line, or of the caller's environment, win.
run() {
  local list program key variable
  list=$(hostfile | paste -sd,)
  program=mpirun.${CLUSTER_MPI:-openmpi}
  command -v "$program" >/dev/null || die "there is no $program" 'install it, or set CLUSTER_MPI to openmpi or mpich'
  if [ "${CLUSTER_MPI:-openmpi}" = mpich ]; then
    export UCX_NET_DEVICES=${UCX_NET_DEVICES:-eth0} UCX_TLS=${UCX_TLS:-tcp,self,sysv,posix}
    # shellcheck disable=SC2086
    inside h0 "$program" -launcher ssh -launcher-exec "$run_dir/agent" -hosts "$list" ${CLUSTER_MPI_ARGS:-} "$@"
    return
  fi
  local -A settings=([plm]=rsh [plm_rsh_agent]=$run_dir/agent [plm_rsh_no_tree_spawn]=1 [oob_tcp_if_include]=eth0
    [pml]=ob1 [btl]='self,vader,tcp' [btl_tcp_if_include]=eth0 [mpi_yield_when_idle]=1
    [hwloc_base_binding_policy]=none)
  for key in "${!settings[@]}"; do
    variable=OMPI_MCA_$key
    export "$variable=${!variable-${settings[$key]}}"
  done
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # shellcheck disable=SC2086
  inside h0 "$program" --host "$list" --oversubscribe ${CLUSTER_MPI_ARGS:-} "$@"
}

agent() {
  local host
  while [[ ${1:-} == -* ]]; do shift; done
  host=$1
  shift
  case $host in "$subnet".*) host=h$((${host##*.} - 10)) ;; esac
  check_host "${host#h}"
  inside "$host" sh -c "$*"
}

# A TCP connection to a closed port is refused after one round trip.
reach() {
  check_host "${1:-}"
  check_host "${2:-}"
  inside "h$1" python3 -c '
import socket, sys, time
begin = time.time()
try:
    socket.create_connection((sys.argv[1], 9), timeout=1.5)
except ConnectionRefusedError:
    print(round((time.time() - begin) * 1000))
except OSError:
    sys.exit(1)' "h$2"
}

# sharing KIND HOLDER: the processes, as the machine numbers them, in the holder's namespace of this kind (pid, net),
# without the holder.
sharing() {
  local holder pid space
  holder=$(pid_of "$2") || return 0
  space=$(readlink "/proc/$holder/ns/$1")
  [ "$space" != "$(readlink "/proc/self/ns/$1")" ] || die "$2 has no $1 namespace of its own"
  for pid in /proc/[0-9]*; do
    pid=${pid#/proc/}
    if [ "$pid" != "$holder" ] && [ "$(readlink "/proc/$pid/ns/$1" 2>/dev/null)" = "$space" ]; then echo "$pid"; fi
  done
}

members() { sharing pid "h$1"; }

# entrances I: the nsenter processes, outside, through which members of host I came in. One stops itself when its child
# is stopped, and must run to reap a child that is killed.
entrances() {
  local pid parent
  for pid in $(members "$1"); do
    parent=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status" 2>/dev/null) || continue
    if [ "$(cat "/proc/${parent:-0}/comm" 2>/dev/null)" = nsenter ]; then echo "$parent"; fi
  done
}

signal_host() { # SIGNAL I
  local pid list
  check_host "${2:-}"
  [ "$2" != 0 ] || die 'not the login node'
  list=$(members "$2" && if [ "$1" = CONT ]; then entrances "$2"; fi)
  for pid in $list; do kill "-$1" "$pid" 2>/dev/null || :; done
}

crash() {
  signal_host CONT "${1:-}"
  kill -KILL "$(pid_of "h$1")"
}

stats() {
  local i n
  n=$(size)
  for i in ${1:-$(seq 0 "$n")}; do
    pid_of "h$i" >/dev/null || continue
    inside "h$i" awk -v h="h$i" '/eth0:/ {
      sub(/.*eth0:/, "")
      print h, "rx_bytes=" $1, "rx_packets=" $2, "tx_bytes=" $9, "tx_packets=" $10 }' /proc/net/dev
  done
}

delay() {
  local relay
  check_host "${1:-}"
  relay=$(pid_of "relay$1") || die "the cable of h$1 has no relay" 'give `up` a delay; 0ms will do'
  echo "$(to_microseconds "${2:?time}") $(to_microseconds "${3:-0us}") ${4:-0}" >"$run_dir/h$1.delay"
  kill -HUP "$relay"
}

down() {
  local file holder pid
  [ -d "$run_dir" ] || return 0
  for file in "$run_dir"/*.pid; do
    [ -e "$file" ] || continue
    holder=$(basename "$file" .pid)
    pid=$(pid_of "$holder") || continue
    case $holder in
    sw | h0) for pid in $(sharing net "$holder") $pid; do kill -KILL "$pid" 2>/dev/null || :; done ;;
    *) kill -KILL "$pid" 2>/dev/null || : ;; # the first process of a pid namespace takes the others with it
    esac
  done
  rm -rf "$run_dir"
}

selftest() {
  export CLUSTER_NAME=selftest$$ CLUSTER_RUN_DIR=/run/cluster-selftest$$ CLUSTER_SUBNET=10.78.0 CLUSTER_SLOTS=1
  local passed=0 failed=0 before after t
  check() { # TITLE STATUS
    if [ "$2" = 0 ]; then passed=$((passed + 1)) && echo "ok    $1"; else failed=$((failed + 1)) && echo "FAIL  $1"; fi
  }
  quiet() { "$@" >/dev/null 2>&1; }
  network() {
    ip link | sed 's/ qlen .*//' | cksum
    ls /run/netns 2>/dev/null | cksum
  }
  before=$(network)
  trap '"$self" down' EXIT
  if [ -e /dev/net/tun ]; then
    quiet "$self" up 3 200mbit 0ms
  else
    quiet "$self" up 3 200mbit
  fi
  check 'up: three hosts' $?
  [ "$("$self" exec 2 hostname)" = h2 ]
  check 'a host has a name of its own' $?
  # shellcheck disable=SC2016
  [ "$("$self" exec 2 sh -c 'ls -d /proc/[0-9]* | wc -l')" -lt 12 ]
  check 'a host sees its own processes only' $?
  quiet "$self" reach 1 3
  check 'h1 reaches h3 by name' $?
  quiet "$self" cut 3
  ! quiet "$self" reach 1 3
  check 'cut: h1 does not reach h3' $?
  quiet "$self" reach 1 2
  check 'cut: h1 still reaches h2' $?
  quiet "$self" heal 3
  quiet "$self" reach 1 3 || quiet "$self" reach 1 3
  check 'heal: h1 reaches h3 again' $?
  if [ -e /dev/net/tun ]; then
    quiet "$self" delay 2 20ms
    "$self" reach 1 2 >/dev/null
    t=$("$self" reach 1 2)
    [ "${t:-0}" -ge 38 ] && [ "${t:-0}" -le 150 ]
    check "delay: ${t:-?} ms to a host that is 20 ms away, and back" $?
    quiet "$self" delay 2 0ms
  fi
  if command -v iperf3 >/dev/null; then
    quiet "$self" slow 3 20mbit
    "$self" exec 3 timeout 20 iperf3 -s -1 >/dev/null 2>&1 &
    sleep 0.7
    t=$("$self" exec 1 iperf3 -c h3 -t2 -f m | awk '/receiver/ { print int($7) }')
    [ "${t:-0}" -ge 12 ] && [ "${t:-0}" -le 25 ]
    check "slow: ${t:-?} Mbit/s to a host with 20" $?
    quiet "$self" slow 3 -
  fi
  for mpi in openmpi mpich; do
    command -v "mpirun.$mpi" >/dev/null || continue
    t=$(CLUSTER_MPI=$mpi "$self" run -n 3 hostname | sort | paste -sd' ')
    [ "$t" = 'h1 h2 h3' ]
    check "run: a rank on each host under $mpi: $t" $?
  done
  ("$self" exec 2 sleep "3000.$$" &) 2>/dev/null
  sleep 0.5
  quiet "$self" pause 2
  # shellcheck disable=SC2016
  [ "$("$self" exec 2 sh -c 'grep -l "^State:.T" /proc/[0-9]*/status' | wc -l)" -ge 1 ]
  check "pause stops a host's processes" $?
  quiet "$self" resume 2
  quiet "$self" crash 2
  sleep 0.3
  [[ $("$self" hosts) == *"h2 $CLUSTER_SUBNET.12 lost"* ]]
  check 'crash: h2 is lost' $?
  quiet "$self" reach 1 3
  check 'crash: the others still talk' $?
  ("$self" exec 0 sleep "3001.$$" &) 2>/dev/null
  ("$self" exec 1 sleep "3002.$$" &) 2>/dev/null
  sleep 0.3
  quiet "$self" down
  check 'down' $?
  trap - EXIT
  sleep 0.3
  after=$(network)
  [ "$before" = "$after" ]
  check "the machine's own network is untouched" $?
  [ ! -e "$CLUSTER_RUN_DIR" ] && ! pgrep -f "^sleep 300[0-2]\.$$\$" >/dev/null
  check 'nothing is left behind' $?
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}

command=${1:-help}
[ $# = 0 ] || shift
case $command in
up | hosts | hostfile | run | agent | reach | crash | stats | delay | down) "$command" "$@" ;;
exec)
  check_host "${1:-}"
  host=h$1
  shift
  inside "$host" "$@"
  ;;
cut)
  check_host "${1:-}"
  inside sw ip link set "p$1" nomaster
  touch "$run_dir/h$1.cut"
  ;;
heal)
  check_host "${1:-}"
  inside sw ip link set "p$1" master br0
  rm -f "$run_dir/h$1.cut"
  ;;
slow)
  check_host "${1:-}"
  set_rate "$1" "${2:?rate}"
  ;;
pause)
  signal_host STOP "${1:-}"
  touch "$run_dir/h$1.paused"
  ;;
resume)
  signal_host CONT "${1:-}"
  rm -f "$run_dir/h$1.paused"
  ;;
selftest)
  set +e
  selftest
  ;;
help | -h | --help) awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$self" ;;
*) die "there is no command \"$command\"" ;;
esac
