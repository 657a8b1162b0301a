/* Lets what we link run on glibc 2.31, though it is built against a newer one.
 *
 * Purpose: a newer glibc gives moved symbols (libpthread and libdl into libc at 2.34) a new default
 * version and adds functions that libstdc++ and libgcc then use. This object is linked into the core
 * and the programs: hidden thunks of the same names jump to the old versions, which every glibc
 * still has, and the few new functions are given here.
 * Thread rule: as the functions themselves. Failure rule: as the functions themselves.
 * Only x86-64 needs it today; elsewhere it is empty. Decision 0005 has the options that were tried.
 */
#include <features.h>

#if defined(__x86_64__) && defined(__GLIBC__)

#include <errno.h>
#include <fcntl.h>
/* Newer headers declare it with their own struct, older ones not at all. */
#define _dl_find_object _dl_find_object_of_the_header
#include <link.h>
#undef _dl_find_object
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* A jump, not a call: dlsym(RTLD_NEXT) and dlopen look at who called. */
#define OLD(name, version)                                     \
  __asm__(".symver stepagent_old_" #name "," #name "@" version \
          "\n\t.text\n\t.globl " #name "\n\t.hidden " #name     \
          "\n\t.type " #name ",@function\n" #name ":\n\t"       \
          "jmp *stepagent_old_" #name "@GOTPCREL(%rip)\n\t"     \
          ".size " #name ",.-" #name "\n")

OLD(__pthread_key_create, "GLIBC_2.2.5");
OLD(dladdr, "GLIBC_2.2.5");
OLD(dlclose, "GLIBC_2.2.5");
OLD(dlerror, "GLIBC_2.2.5");
OLD(dlinfo, "GLIBC_2.3.3");
OLD(dlopen, "GLIBC_2.2.5");
OLD(dlsym, "GLIBC_2.2.5");
OLD(pthread_attr_setstacksize, "GLIBC_2.2.5");
OLD(pthread_condattr_setclock, "GLIBC_2.3.3");
OLD(pthread_create, "GLIBC_2.2.5");
OLD(pthread_detach, "GLIBC_2.2.5");
OLD(pthread_getspecific, "GLIBC_2.2.5");
OLD(pthread_join, "GLIBC_2.2.5");
OLD(pthread_key_create, "GLIBC_2.2.5");
OLD(pthread_key_delete, "GLIBC_2.2.5");
OLD(pthread_kill, "GLIBC_2.2.5");
OLD(pthread_mutexattr_destroy, "GLIBC_2.2.5");
OLD(pthread_mutexattr_init, "GLIBC_2.2.5");
OLD(pthread_mutexattr_settype, "GLIBC_2.2.5");
OLD(pthread_once, "GLIBC_2.2.5");
OLD(pthread_rwlock_destroy, "GLIBC_2.2.5");
OLD(pthread_rwlock_init, "GLIBC_2.2.5");
OLD(pthread_rwlock_rdlock, "GLIBC_2.2.5");
OLD(pthread_rwlock_tryrdlock, "GLIBC_2.2.5");
OLD(pthread_rwlock_unlock, "GLIBC_2.2.5");
OLD(pthread_rwlock_wrlock, "GLIBC_2.2.5");
OLD(pthread_setname_np, "GLIBC_2.12");
OLD(pthread_setspecific, "GLIBC_2.2.5");
OLD(pthread_sigmask, "GLIBC_2.2.5");
OLD(pthread_mutex_trylock, "GLIBC_2.2.5");

/* libstdc++ skips atomics while this is not 0. There are always threads of ours: 0. */
HIDDEN char __libc_single_threaded = 0;

/* stat became a symbol at 2.33; before, headers called __xstat. The kernel's struct is libc's here. */
static int stat_at(int fd, const char* path, void* out, int flags) {
  return (int)syscall(SYS_newfstatat, fd, path, out, flags);
}
HIDDEN int stat(const char* restrict path, struct stat* restrict out) {
  return stat_at(AT_FDCWD, path, out, 0);
}
HIDDEN int lstat(const char* restrict path, struct stat* restrict out) {
  return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
HIDDEN int fstat(int fd, struct stat* out) { return (int)syscall(SYS_fstat, fd, out); }
HIDDEN int stat64(const char* restrict path, struct stat64* restrict out) {
  return stat_at(AT_FDCWD, path, out, 0);
}
HIDDEN int lstat64(const char* restrict path, struct stat64* restrict out) {
  return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
HIDDEN int fstat64(int fd, struct stat64* out) { return (int)syscall(SYS_fstat, fd, out); }
HIDDEN int fstatat(int fd, const char* restrict path, struct stat* restrict out, int flags) {
  return stat_at(fd, path, out, flags);
}
HIDDEN int fstatat64(int fd, const char* restrict path, struct stat64* restrict out, int flags) {
  return stat_at(fd, path, out, flags);
}

/* std::random_device's source since 2.36. */
HIDDEN uint32_t arc4random(void) {
  uint32_t value = 0;
  const int saved = errno;
  while (syscall(SYS_getrandom, &value, sizeof value, 0) != (long)sizeof value && errno == EINTR) {
  }
  errno = saved;
  return value;
}

/* libgcc's unwinder asks this (2.35) where an address's unwind table is. */
struct found_object {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  struct link_map* link_map;
  void* eh_frame;
  unsigned long long reserved[7];
};
struct search {
  uintptr_t address;
  struct found_object* result;
};
static int look_at(struct dl_phdr_info* info, size_t size, void* argument) {
  (void)size;
  struct search* search = argument;
  const ElfW(Phdr)* table = NULL;
  uintptr_t begin = UINTPTR_MAX, end = 0;
  int is_here = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
    if (segment->p_type == PT_GNU_EH_FRAME) table = segment;
    if (segment->p_type != PT_LOAD) continue;
    const uintptr_t low = info->dlpi_addr + segment->p_vaddr;
    const uintptr_t high = low + segment->p_memsz;
    if (low < begin) begin = low;
    if (high > end) end = high;
    is_here |= search->address >= low && search->address < high;
  }
  if (!is_here || table == NULL) return is_here;
  search->result->map_start = (void*)begin;
  search->result->map_end = (void*)end;
  search->result->eh_frame = (void*)(info->dlpi_addr + table->p_vaddr);
  return 1;
}
HIDDEN int _dl_find_object(void* address, struct found_object* result) {
  struct search search = {(uintptr_t)address, result};
  memset(result, 0, offsetof(struct found_object, reserved));
  dl_iterate_phdr(look_at, &search);
  return result->eh_frame == NULL ? -1 : 0;
}

#ifdef STEPAGENT_PROGRAM
/* Start files of 2.34 and later leave the program's constructors to libc; libc before that expects
 * to be given them. Given them, both run them. */
typedef void (*constructor)(int, char**, char**);
extern const constructor __preinit_array_start[] HIDDEN, __preinit_array_end[] HIDDEN;
extern const constructor __init_array_start[] HIDDEN, __init_array_end[] HIDDEN;

static void run_constructors(int argc, char** argv, char** envp) {
  for (const constructor* f = __preinit_array_start; f < __preinit_array_end; ++f) {
    (*f)(argc, argv, envp);
  }
  for (const constructor* f = __init_array_start; f < __init_array_end; ++f) {
    (*f)(argc, argv, envp);
  }
}

typedef int (*main_function)(int, char**, char**);
__asm__(".symver stepagent_old_start,__libc_start_main@GLIBC_2.2.5");
extern int stepagent_old_start(main_function, int, char**, constructor, void (*)(void),
                               void (*)(void), void*);
HIDDEN int __libc_start_main(main_function entry, int argc, char** argv, constructor init,
                             void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  return stepagent_old_start(entry, argc, argv, init != NULL ? init : run_constructors, fini,
                             rtld_fini, stack_end);
}
#endif

#else
typedef int stepagent_nothing_to_do_here;
#endif
