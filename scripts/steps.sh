# shellcheck shell=bash
# Sourced by quickstart.sh and test.sh: steps with a title, a log and elapsed time, and a remedy when one fails.
# Under a terminal the running step is one line that is redrawn; in a pipe it is a line at its start, one every
# minute, and one at its end.

shopt -s checkwinsize

is_terminal() { [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; }

# 75 -> "1 min 15 s"
format_seconds() {
  if [ "$1" -lt 60 ]; then printf '%d s' "$1"; else printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); fi
}

# complain WHAT FIX: an error in the form that the program itself uses.
complain() { printf 'error: %s\n  fix: %s\n' "$1" "$2" >&2; }

# Ninja's "[12/340]" of a log's last line, else nothing.
step_position() { tail -c 400 "$1" 2>/dev/null | tr '\r' '\n' | grep -oE '^\[[0-9]+/[0-9]+\]' | tail -n 1 || true; }

draw_step() {  # TITLE LOG SECONDS
  local line width
  line="$1  $(step_position "$2")  $(format_seconds "$3")"
  width=$(stty size <&1 2>/dev/null | cut -d' ' -f2)
  printf '\r\033[K%s' "${line:0:$((${width:-80} - 1))}"
}

step_pid=''
# A step runs in the background, where the shell makes it deaf to Ctrl-C: pass that on.
stop_step() {
  [ -z "$step_pid" ] || kill -TERM "$step_pid" 2>/dev/null || true
  ! is_terminal || printf '\n'
  exit "$1"
}
trap 'stop_step 130' INT
trap 'stop_step 143' TERM

# wait_for_step PID TITLE LOG START: shows that it lives; returns its exit code.
wait_for_step() {
  local pid=$1 title=$2 log=$3 start=$4 pause=0.05 minute=60
  while kill -0 "$pid" 2>/dev/null; do
    sleep "$pause"
    [ $((SECONDS - start)) -lt 1 ] || pause=0.5
    if is_terminal; then
      [ $((SECONDS - start)) -lt 1 ] || draw_step "$title" "$log" $((SECONDS - start))
    elif [ $((SECONDS - start)) -ge "$minute" ]; then
      printf '  ... %s %s\n' "$(format_seconds $((SECONDS - start)))" "$(step_position "$log")"
      minute=$((minute + 60))
    fi
  done
  wait "$pid"
}

# show_log_tail LOG: the end of a log, set in.
show_log_tail() {
  printf '  the last lines of %s:\n' "${1#"$PWD/"}" >&2
  tail -n 25 "$1" | sed 's/^/  | /' >&2
}

# run_logged TITLE LOG COMMAND...: runs it with its output in LOG, and returns its exit code.
run_logged() {
  local title=$1 log=$2 start=$SECONDS code=0
  shift 2
  mkdir -p "$(dirname "$log")"
  is_terminal || printf '%s ...\n' "$title"
  "$@" >"$log" 2>&1 </dev/null &
  step_pid=$!
  wait_for_step "$step_pid" "$title" "$log" "$start" || code=$?
  step_pid=''
  ! is_terminal || printf '\r\033[K'
  return "$code"
}

# run_step TITLE LOG FIX COMMAND...: the same; says how long it took, or shows the log's end and the remedy.
run_step() {
  local title=$1 log=$2 fix=$3 start=$SECONDS code=0
  shift 3
  run_logged "$title" "$log" "$@" || code=$?
  if [ "$code" != 0 ]; then
    show_log_tail "$log"
    complain "$title: failed with code $code after $(format_seconds $((SECONDS - start)))" "$fix"
    return "$code"
  fi
  printf '%s: done in %s\n' "$title" "$(format_seconds $((SECONDS - start)))"
}
