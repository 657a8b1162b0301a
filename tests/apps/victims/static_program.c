// static_program: no dynamic loader, so nothing can be preloaded into it.
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--help") == 0) return puts("static_program: exits with 7"), 0;
  puts("static_program");
  return 7;
}
