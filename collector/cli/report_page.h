#pragma once
// `stepagent report PATH --html OUT`: the report as a page, for whatever PATH names.
//
// Purpose: as `convert --to html`, but PATH may be OUT or a run too while it holds one session.
// Thread rule: one call, one thread. Failure rule: one line on stderr and the readers' exit status;
// nothing is ever replaced.
#include <string>

namespace stepagent::cli {

[[nodiscard]] int WriteReportPage(const std::string& path, const std::string& out);

}  // namespace stepagent::cli
