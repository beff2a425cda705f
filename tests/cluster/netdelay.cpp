// A cable with delay, jitter and loss: an Ethernet relay between two TAP devices, in user space. It
// stands in for the kernel's netem, which is not everywhere; cluster.sh puts one between a host and
// the switch.
//
//   netdelay TAP_A TAP_B CONTROL_FILE READY_FILE
//
// Makes both devices in the network namespace where it starts, then writes READY_FILE; after that
// either device may move to another namespace. CONTROL_FILE holds "delay_us jitter_us loss_percent"
// and is read again on SIGHUP. The delay counts in each direction. Frames keep their order, jitter
// or not. They carry virtio headers, so that large offloaded segments pass whole; loss is drawn per
// frame of that kind.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr size_t kMaxFrame = 128 * 1024;
constexpr size_t kMaxQueued = size_t{64} << 20;  // bytes; a direction drops what is beyond
constexpr int kBurst = 64;                       // frames taken from one device in a turn

volatile sig_atomic_t reload = 1;

struct Settings {
  int64_t delay = 0, jitter = 0;  // ns
  double loss = 0;                // 0 to 1
};

struct Frame {
  int64_t due;  // ns
  std::vector<char> bytes;
};

struct Direction {
  int in = -1, out = -1;
  std::deque<Frame> queue;
  size_t queued = 0;  // bytes
};

int64_t Now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "netdelay: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

int OpenTap(const char* name) {
  const int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tap < 0) Die("open /dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (ioctl(tap, TUNSETIFF, &request) < 0) Die(std::string("make ") + name);
  if (ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0) Die("set offload");
  return tap;
}

Settings ReadSettings(const char* path, const Settings& before) {
  std::ifstream file(path);
  double delay_us = 0, jitter_us = 0, percent = 0;
  if (!(file >> delay_us >> jitter_us >> percent)) return before;
  return {static_cast<int64_t>(delay_us * 1000), static_cast<int64_t>(jitter_us * 1000),
          percent / 100};
}

// Writes the frames that are due; says when the next one is, or -1.
int64_t Deliver(Direction& d, int64_t now) {
  while (!d.queue.empty() && d.queue.front().due <= now) {
    const Frame& frame = d.queue.front();
    // A device that is full or down loses the frame, as a network does.
    [[maybe_unused]] const ssize_t written = write(d.out, frame.bytes.data(), frame.bytes.size());
    d.queued -= frame.bytes.size();
    d.queue.pop_front();
  }
  return d.queue.empty() ? -1 : d.queue.front().due;
}

// Takes up to kBurst frames; false when the device is gone for good.
bool Take(Direction& d, const Settings& settings, std::mt19937_64& random) {
  static std::vector<char> buffer(kMaxFrame);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < kBurst; ++i) {
    const ssize_t bytes = read(d.in, buffer.data(), buffer.size());
    if (bytes < 0 && errno == EIO) {  // down, or on its way to another namespace
      usleep(1000);
      return true;
    }
    if (bytes < 0) return errno == EAGAIN || errno == EINTR;
    if (bytes == 0) return true;
    const size_t size = static_cast<size_t>(bytes);
    if (settings.loss > 0 && uniform(random) < settings.loss) continue;
    if (d.queued + size > kMaxQueued) continue;
    int64_t due = Now() + settings.delay;
    due += static_cast<int64_t>((2 * uniform(random) - 1) * static_cast<double>(settings.jitter));
    if (!d.queue.empty() && due < d.queue.back().due) due = d.queue.back().due;
    d.queue.push_back({due, std::vector<char>(buffer.data(), buffer.data() + size)});
    d.queued += size;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: netdelay TAP_A TAP_B CONTROL_FILE READY_FILE\n");
    return 2;
  }
  const int a = OpenTap(argv[1]), b = OpenTap(argv[2]);
  std::array<Direction, 2> directions;
  directions[0].in = directions[1].out = a;
  directions[0].out = directions[1].in = b;
  struct sigaction action {};
  action.sa_handler = [](int) { reload = 1; };
  sigaction(SIGHUP, &action, nullptr);
  Settings settings;
  std::mt19937_64 random(std::random_device{}());
  std::ofstream(argv[4]) << "ready\n";
  while (true) {
    if (reload) {
      reload = 0;
      settings = ReadSettings(argv[3], settings);
    }
    const int64_t now = Now();
    int64_t next = -1;
    for (Direction& d : directions) {
      const int64_t due = Deliver(d, now);
      if (due >= 0 && (next < 0 || due < next)) next = due;
    }
    std::array<pollfd, 2> devices{{{a, POLLIN, 0}, {b, POLLIN, 0}}};
    const int64_t left = next > now ? next - now : 0;
    timespec wait{};
    wait.tv_sec = left / 1'000'000'000;
    wait.tv_nsec = left % 1'000'000'000;
    if (ppoll(devices.data(), devices.size(), next >= 0 ? &wait : nullptr, nullptr) < 0) {
      if (errno == EINTR) continue;
      Die("poll");
    }
    for (Direction& d : directions)
      if (!Take(d, settings, random)) return 0;
  }
}
