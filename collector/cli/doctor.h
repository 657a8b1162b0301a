#pragma once
// `stepagent doctor [capture options] [--json] [-- CMD…]`.
//
// Purpose: checks the ground before a run: files, variables, driver, CUPTI, and with CMD a short
// trial of it; each check one line with what was found, why it matters and what to type.
// Thread rule: called once, from main, before any other thread exists.
// Failure rule: exit status 0 when a run would work, 1 when something would fail, 2 for usage.
#include <string>
#include <vector>

namespace stepagent::cli {

[[nodiscard]] int DoctorMain(const std::vector<std::string>& args, char* const* environment);

}  // namespace stepagent::cli
