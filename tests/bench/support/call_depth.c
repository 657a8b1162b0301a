#include "tests/bench/support/call_depth.h"

// Frames of a few sizes, as a program's are. Something is done after each call, so that none
// becomes a jump.
#define LEVEL(number, words)                                                         \
  __attribute__((noinline)) static int Level##number(int depth, void (*body)(void*), \
                                                     void* argument) {               \
    volatile long room[words];                                                       \
    room[0] = depth;                                                                 \
    const int below = Next(depth, body, argument);                                   \
    return below + (int)(room[0] > 0);                                               \
  }

static int Next(int depth, void (*body)(void*), void* argument);
LEVEL(0, 4)
LEVEL(1, 6)
LEVEL(2, 11)
LEVEL(3, 20)

__attribute__((noinline)) static int Next(int depth, void (*body)(void*), void* argument) {
  if (depth <= 0) {
    body(argument);
    return 1;
  }
  // Two frames a turn: this one and the level's.
  switch (depth & 3) {
    case 0:
      return Level0(depth - 2, body, argument) + 1;
    case 1:
      return Level1(depth - 2, body, argument) + 1;
    case 2:
      return Level2(depth - 2, body, argument) + 1;
    default:
      return Level3(depth - 2, body, argument) + 1;
  }
}

int StepagentCallDepth(int depth, void (*body)(void*), void* argument) {
  return Next(depth, body, argument) + 1;
}
