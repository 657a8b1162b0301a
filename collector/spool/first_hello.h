#pragma once
// Who a raw file is of, also where its first frame is damaged.
//
// Purpose: the Hello at a file's head names the session; without one its batches would be nobody's.
// Looked for in this order: the first frame; the same where only its header is damaged; a later
// Hello, as `start` and a new connection send; session.json beside the file; the batches, which
// carry session, run, host and rank.
// Thread rule: one call, one thread. Failure rule: an error only where the file holds neither a
// Hello nor a batch; what is not known for want of the Hello is said in `problem`.
#include <string>

#include "session.pb.h"

namespace stepagent::spool {

struct FirstHello {
  v1::Hello hello;
  std::string payload;     // of the frame it is from; "" where it is from no frame
  bool is_mended = false;  // the first frame, but for its header whole
  std::string problem;     // one sentence with the path; "" where the file begins as it should
};
// "" or why nothing in the file can be read.
[[nodiscard]] std::string FindHello(const std::string& raw_path, FirstHello* found);

}  // namespace stepagent::spool
