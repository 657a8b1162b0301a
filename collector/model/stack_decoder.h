#pragma once
// Stacks of a batch into the dictionary.
//
// Purpose: frames are written once a batch and referred to; here they become lists again.
// Thread rule: pure but for the dictionary. Failure rule: an index that leads nowhere leaves its
// frame out, and the stack says that frames are missing; sizes are bounded.
#include "collector/model/store.h"

namespace stepagent::v1 {
class Stacks;
}

namespace stepagent::model {

void DeclareStacks(const v1::Stacks& stacks, Dictionary* dictionary);

}  // namespace stepagent::model
