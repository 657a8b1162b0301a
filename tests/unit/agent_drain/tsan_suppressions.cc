// ThreadSanitizer believes that a process has one descriptor table. The io thread has its own, so
// the same numbers mean different files: what it reports between these functions of the test, which
// touch nothing but descriptors, and the io thread is a race of numbers.
#if defined(__SANITIZE_THREAD__)
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:drain::io::Peer::\nrace:drain::io::FakeCollector::\nrace:OpenFiles\n"
         "race:ThreadNamed\nrace:SwitchesOf\n";
}
#endif
