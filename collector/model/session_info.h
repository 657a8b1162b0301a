#pragma once
// Hello as the canonical session.
//
// Purpose: one translation, used by the builder and by the collector's folder names.
// Thread rule: pure. Failure rule: missing fields stay empty.
#include "collector/model/cycle.h"

namespace stepagent::v1 {
class Hello;
}

namespace stepagent::model {

[[nodiscard]] SessionInfo SessionFromHello(const v1::Hello& hello);

}  // namespace stepagent::model
