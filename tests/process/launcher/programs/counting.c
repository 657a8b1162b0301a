/* A user's own preload: says so when it is asked to. */
#include <stdlib.h>

__attribute__((constructor)) static void Count(void) { setenv("COUNTING_IS_IN", "yes", 1); }
