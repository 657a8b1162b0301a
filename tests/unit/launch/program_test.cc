// What the launcher sees in a file before it starts it.
#include "collector/launch/program.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/unit/launch/temp_folder.h"

namespace stepagent::launch {
namespace {

// The smallest file with a loader of this name ("" none).
std::string Elf(const std::string& loader, unsigned char elf_class = ELFCLASS64) {
  ElfW(Ehdr) header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = elf_class;
#if defined(__aarch64__)
  header.e_machine = EM_AARCH64;
#else
  header.e_machine = EM_X86_64;
#endif
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(ElfW(Phdr));
  header.e_phnum = loader.empty() ? 0 : 1;
  ElfW(Phdr) segment{};
  segment.p_type = PT_INTERP;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = loader.size() + 1;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  if (!loader.empty())
    bytes += std::string(reinterpret_cast<const char*>(&segment), sizeof segment) + loader + '\0';
  return bytes;
}

class ProgramTest : public testing::Test {
 protected:
  std::string Executable(const std::string& name, const std::string& bytes, mode_t mode = 0755) {
    const std::string path = folder_.Write(name, bytes);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  TempFolder folder_;
};

TEST_F(ProgramTest, OrdinaryProgramsPass) {
  const Program program = InspectProgram(Executable("x", Elf("/lib64/ld-linux-x86-64.so.2")), "");
  EXPECT_EQ(program.found, Found::kYes);
  EXPECT_FALSE(program.RefusesPreload());
  EXPECT_EQ(ProgramWarning(program), "");
}

TEST_F(ProgramTest, SeesStaticMuslAndForeign) {
  EXPECT_TRUE(InspectProgram(Executable("s", Elf("")), "").is_static);
  EXPECT_TRUE(InspectProgram(Executable("m", Elf("/lib/ld-musl-x86_64.so.1")), "").is_musl);
  const Program foreign =
      InspectProgram(Executable("f", Elf("/lib/ld-linux.so.2", ELFCLASS32)), "");
  EXPECT_TRUE(foreign.is_foreign);
  EXPECT_FALSE(foreign.is_static);
  EXPECT_TRUE(foreign.RefusesPreload());
  EXPECT_NE(ProgramWarning(foreign), "");
}

TEST_F(ProgramTest, FollowsScriptsToTheirInterpreter) {
  const std::string musl = Executable("m", Elf("/lib/ld-musl-x86_64.so.1"));
  EXPECT_TRUE(InspectProgram(Executable("a", "#! " + musl + " -x\n"), "").is_musl);
  const std::string script = Executable("b", "#!" + folder_.path() + "/a\n");
  EXPECT_EQ(InspectProgram(script, "").checked, musl);
  EXPECT_EQ(ProgramWarning(InspectProgram(Executable("loop", "#!" + folder_.path() + "/loop"), "")),
            "");
}

TEST_F(ProgramTest, CutAndHostileFilesAreOrdinary) {
  for (const std::string& bytes : {std::string(), std::string("#"), std::string("#!"),
                                   std::string("\x7f"
                                               "ELF"),
                                   Elf("x").substr(0, 40), Elf("/ld").substr(0, 70)})
    EXPECT_EQ(InspectProgram(Executable("x", bytes), "").found, Found::kYes);
}

TEST_F(ProgramTest, SearchesAsExecDoes) {
  Executable("one/cmd", "x", 0644);
  const std::string second = Executable("two/cmd", Elf("/ld"));
  const std::string path =
      folder_.path() + "/none:" + folder_.path() + "/one:" + folder_.path() + "/two";
  EXPECT_EQ(InspectProgram("cmd", path).path, second);
  EXPECT_EQ(InspectProgram("cmd", folder_.path() + "/one").found, Found::kNotExecutable);
  EXPECT_EQ(InspectProgram("cmd", folder_.path() + "/none").found, Found::kMissing);
  EXPECT_EQ(InspectProgram(folder_.path(), "").found, Found::kNotExecutable);
  EXPECT_EQ(InspectProgram(folder_.path() + "/none/x", "").found, Found::kMissing);
  EXPECT_EQ(InspectProgram("", path).found, Found::kMissing);
}

TEST_F(ProgramTest, SeesSecureMode) {
  const std::string path = Executable("x", Elf("/ld"));
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a file away";
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_TRUE(InspectProgram(path, "").is_secure);
  ASSERT_EQ(chmod(path.c_str(), 02755), 0);
  EXPECT_TRUE(InspectProgram(path, "").is_secure);
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  EXPECT_FALSE(InspectProgram(path, "").is_secure);
  ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_FALSE(InspectProgram(path, "").is_secure) << "set-user-ID to ourselves changes nothing";
}

}  // namespace
}  // namespace stepagent::launch
