// The field numbers that the agent encodes with are the schema's, and none of the schema's is
// missing.
#include "agent/drain/fields.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "batch.pb.h"
#include "control.pb.h"
#include "session.pb.h"

namespace stepagent::drain {
namespace {

using Numbers = std::map<std::string, int>;

std::map<std::string, Numbers> OfAgent() {
  std::map<std::string, Numbers> messages;
#define ENTRY(name, number) numbers[#name] = number;
#define MESSAGE(Message)                   \
  {                                        \
    Numbers& numbers = messages[#Message]; \
    STEPAGENT_FIELDS_##Message(ENTRY)      \
  }
  STEPAGENT_MESSAGES(MESSAGE)
#undef MESSAGE
#undef ENTRY
  return messages;
}

void AddSchema(const google::protobuf::FileDescriptor* file, std::map<std::string, Numbers>* out) {
  for (int m = 0; m < file->message_type_count(); ++m) {
    const google::protobuf::Descriptor* message = file->message_type(m);
    for (int f = 0; f < message->field_count(); ++f) {
      (*out)[message->name()][message->field(f)->name()] = message->field(f)->number();
    }
  }
}

TEST(Fields, AreThoseOfTheSchema) {
  std::map<std::string, Numbers> schema;
  AddSchema(v1::Batch::descriptor()->file(), &schema);
  AddSchema(v1::Hello::descriptor()->file(), &schema);
  AddSchema(v1::ControlRequest::descriptor()->file(), &schema);
  ASSERT_GT(schema.size(), 30U);
  schema.erase("TargetEnded");  // the launcher's
  EXPECT_EQ(OfAgent(), schema);
}

}  // namespace
}  // namespace stepagent::drain
