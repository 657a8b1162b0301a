#include "collector/model/batch_head.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <string>

#include "proto/limits.h"

namespace stepagent::model {
namespace {

using Batch = v1::Batch;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

bool IsSection(uint32_t tag) {
  return (tag >= Batch::kCallsFieldNumber && tag <= Batch::kOverheadsFieldNumber) ||
         tag == Batch::kMemoriesFieldNumber;
}
bool IsWork(uint32_t tag) {
  return tag >= Batch::kCallsFieldNumber && tag <= Batch::kGraphLaunchesFieldNumber &&
         tag != Batch::kSyncsFieldNumber;
}

// Whether the column consists of whole varints of at most ten bytes, as libprotobuf asks. Ten
// bytes that go on hold four that lie on a multiple of four, so only such places are looked at.
bool AreVarints(protozero::data_view column) {
  constexpr uint32_t kGoesOn = 0x80808080;
  constexpr size_t kLongest = 10;
  const size_t size = column.size();
  const auto goes_on = [&](size_t at) {
    return (static_cast<unsigned char>(column.data()[at]) & 0x80) != 0;
  };
  if (size == 0) return true;
  if (goes_on(size - 1)) return false;
  for (size_t at = 0; at + sizeof(uint32_t) <= size; at += sizeof(uint32_t)) {
    uint32_t four;
    std::memcpy(&four, column.data() + at, sizeof four);
    if ((four & kGoesOn) != kGoesOn) continue;
    size_t begin = at, end = at + sizeof four;
    while (begin > 0 && goes_on(begin - 1)) --begin;
    while (goes_on(end)) ++end;  // the last byte does not
    if (end - begin >= kLongest) return false;
  }
  return true;
}

bool IsVarintColumn(const FieldDescriptor& field) {
  if (!field.is_packable()) return false;
  switch (field.type()) {
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED32:
    case FieldDescriptor::TYPE_SFIXED64:
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_DOUBLE:
      return false;
    default:
      return true;
  }
}

// Every section has its count in field 1.
constexpr uint32_t kCountTag = 1;
static_assert(v1::Calls::kCountFieldNumber == 1 && v1::Kernels::kCountFieldNumber == 1 &&
              v1::Memcpys::kCountFieldNumber == 1 && v1::Memsets::kCountFieldNumber == 1 &&
              v1::Syncs::kCountFieldNumber == 1 && v1::GraphLaunches::kCountFieldNumber == 1 &&
              v1::Ranges::kCountFieldNumber == 1 && v1::Overheads::kCountFieldNumber == 1 &&
              v1::Memories::kCountFieldNumber == 1);

// False where libprotobuf could not read the section. Fields that the schema does not have are
// passed, whatever they hold. The sections are no deeper than two messages.
bool CheckSection(protozero::data_view section, const Descriptor& type, uint64_t* count) {
  protozero::pbf_reader reader(section);
  while (reader.next()) {
    const uint32_t tag = reader.tag();
    if (tag == kCountTag && reader.wire_type() == protozero::pbf_wire_type::varint) {
      *count = reader.get_uint32();
      continue;
    }
    const FieldDescriptor* const field = type.FindFieldByNumber(static_cast<int>(tag));
    if (field == nullptr || reader.wire_type() != protozero::pbf_wire_type::length_delimited) {
      reader.skip();
      continue;
    }
    const protozero::data_view inside = reader.get_view();
    uint64_t ignored = 0;
    if (field->message_type() != nullptr) {
      if (!CheckSection(inside, *field->message_type(), &ignored)) return false;
    } else if (IsVarintColumn(*field) && !AreVarints(inside)) {
      return false;
    }
  }
  return true;
}

bool AddSection(uint32_t tag, protozero::data_view section, BatchHead* head) {
  const FieldDescriptor* const field =
      Batch::descriptor()->FindFieldByNumber(static_cast<int>(tag));
  uint64_t count = 0;
  if (!CheckSection(section, *field->message_type(), &count)) return false;
  count = std::min({count, uint64_t{section.size()}, uint64_t{proto::kMaxRecordsPerBatch}});
  head->records += count;
  if (tag == Batch::kCallsFieldNumber) head->calls += count;
  if (tag == Batch::kKernelsFieldNumber) head->kernels += count;
  if (tag == Batch::kRangesFieldNumber) head->range_ops += count;
  head->has_work = head->has_work || (count > 0 && IsWork(tag));
  head->has_sections = true;
  return true;
}

}  // namespace

bool ReadBatchHead(std::string_view payload, BatchHead* head) {
  *head = BatchHead();
  std::string rest;
  try {
    protozero::pbf_reader reader(payload.data(), payload.size());
    const char* begin = payload.data();
    while (reader.next()) {
      // Reading a value may reset the reader's tag: it is taken first.
      const uint32_t tag = reader.tag();
      const bool is_message = reader.wire_type() == protozero::pbf_wire_type::length_delimited;
      if (is_message && IsSection(tag)) {
        if (!AddSection(tag, reader.get_view(), head)) return false;
      } else {
        reader.skip();
        rest.append(begin, reader.data().data());
      }
      begin = reader.data().data();
    }
  } catch (const protozero::exception&) {
    return false;
  }
  return head->fields.ParseFromString(rest);
}

}  // namespace stepagent::model
