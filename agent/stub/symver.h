/* Binds to symbol versions that old glibc has. glibc 2.34 moved libdl and libpthread into libc and
 * gave their symbols a new default version; the old ones are still there. */
#ifndef STEPAGENT_AGENT_STUB_SYMVER_H_
#define STEPAGENT_AGENT_STUB_SYMVER_H_
#if defined(__GLIBC__)
#if defined(__x86_64__)
#define STEPAGENT_OLD "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define STEPAGENT_OLD "GLIBC_2.17"
#endif
#ifdef STEPAGENT_OLD
__asm__(".symver dlopen,dlopen@" STEPAGENT_OLD);
__asm__(".symver dlsym,dlsym@" STEPAGENT_OLD);
__asm__(".symver dlerror,dlerror@" STEPAGENT_OLD);
#endif
#endif
#endif
