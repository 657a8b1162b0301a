/* Shows what a program sees: whether libstepagent.so is in it, and the variables named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  char line[8192];
  int is_in = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) is_in |= strstr(line, "/libstepagent.so") != NULL;
  if (maps) fclose(maps);
  printf("loaded %d\n", is_in);
  for (int i = 2; i < argc; ++i) {
    const char* value = getenv(argv[i]);
    printf("%s=%s\n", argv[i], value ? value : "(unset)");
  }
  return argc > 1 ? atoi(argv[1]) : 0;
}
