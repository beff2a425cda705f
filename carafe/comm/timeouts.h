// How long ranks wait for each other, in seconds. Tests shorten them.
#pragma once

namespace carafe {

struct CommTimeouts {
  double heartbeat = 1;     // between signs of life
  double silence = 10;      // without one: the peer is lost
  double warning = 30;      // a wait this long is told once in the log
  double wait = 300;        // and this long is an error (--comm_timeout)
  double last_words = 0.3;  // in a wait, after SIGTERM: tell what is awaited
  double farewell = 3;      // for peers to notice a failure, or to finish at the end
};

}  // namespace carafe
