#include "carafe/train/signals.h"

#include <array>
#include <atomic>
#include <csignal>

namespace carafe {
namespace {

constexpr std::array kSignals = {SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGTERM};

// Lock-free atomics are what a handler may touch.
std::atomic<int> interrupts{0}, hangups{0}, stops{0}, terminations{0};
std::atomic<bool> wants_stop_on_interrupt{true};
std::atomic<bool> end_asked{false};
SignalEffect interrupt_effect = SignalEffect::kStop, hangup_effect = SignalEffect::kSnapshot;
std::array<struct sigaction, kSignals.size()> old_actions;

void Handle(int signal) {
  if (signal == SIGINT) {
    if (interrupts.fetch_add(1) > 0 && wants_stop_on_interrupt) {  // asked twice: at once
      std::signal(SIGINT, SIG_DFL);
      std::raise(SIGINT);
    }
  } else if (signal == SIGUSR2) {
    stops = 1;
  } else if (signal == SIGTERM) {
    terminations = 1;
    end_asked = true;
  } else {
    hangups = 1;
  }
}

}  // namespace

SignalWatch::SignalWatch(SignalEffect on_sigint, SignalEffect on_sighup) {
  interrupts = hangups = stops = terminations = 0;
  end_asked = false;
  interrupt_effect = on_sigint;
  hangup_effect = on_sighup;
  wants_stop_on_interrupt = on_sigint == SignalEffect::kStop;
  struct sigaction action = {};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &old_actions[i]);
}

SignalWatch::~SignalWatch() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_actions[i], nullptr);
}

const std::atomic<bool>& SignalWatch::asked_to_end() { return end_asked; }

SignalRequests SignalWatch::Take() {
  SignalRequests requests;
  requests.terminate = terminations.exchange(0) > 0;
  requests.stop = stops.load() > 0;
  const auto apply = [&](SignalEffect effect) {
    requests.stop = requests.stop || effect == SignalEffect::kStop;
    requests.snapshot = requests.snapshot || effect == SignalEffect::kSnapshot;
  };
  // A stop stays requested (the count is kept), so that a second SIGINT is known as such.
  if (interrupts.load() > 0) apply(interrupt_effect);
  if (interrupt_effect != SignalEffect::kStop) interrupts = 0;
  if (hangups.exchange(0) > 0) apply(hangup_effect);
  return requests;
}

}  // namespace carafe
