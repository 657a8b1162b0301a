#include "collector/model/session_info.h"

#include "session.pb.h"

namespace stepagent::model {

SessionInfo SessionFromHello(const v1::Hello& hello) {
  SessionInfo s;
  s.id = hello.identity().session();
  s.run = hello.identity().run();
  s.host = hello.identity().host();
  s.rank = hello.identity().rank();
  s.pid = hello.pid();
  s.exe = hello.exe();
  s.exe_path = hello.exe_path();
  s.title = hello.title();
  s.argv.assign(hello.argv().begin(), hello.argv().end());
  s.rank_source = hello.rank_source();
  s.world_size = hello.world_size();
  s.local_rank = hello.local_rank();
  s.agent_version = hello.agent_version();
  if (hello.has_cuda_visible_devices()) s.cuda_visible_devices = hello.cuda_visible_devices();
  s.base_unix_ns = hello.clock().base_unix_ns();
  s.clock_host = hello.clock().host();
  s.labels.insert(hello.labels().begin(), hello.labels().end());
  s.settings.insert(hello.settings().begin(), hello.settings().end());
  if (hello.has_schedule()) {
    const auto& w = hello.schedule();
    s.schedule = ScheduleSpec{.skip_first = w.skip_first(),
                              .wait = w.wait(),
                              .warmup = w.warmup(),
                              .active = w.active(),
                              .repeat = w.repeat(),
                              .skip_first_wait = w.skip_first_wait()};
  }
  s.step_source = hello.step_source();
  s.step_extent = hello.step_extent();
  s.formats.assign(hello.formats().begin(), hello.formats().end());
  s.redact.assign(hello.redact().begin(), hello.redact().end());
  s.activities.assign(hello.activities().begin(), hello.activities().end());
  s.require.assign(hello.require().begin(), hello.require().end());
  return s;
}

}  // namespace stepagent::model
