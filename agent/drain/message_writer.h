#pragma once
// Small functions over protozero's builders.
//
// Purpose: fields that hold their default are left out, as proto3 writers do, so that libprotobuf
// writes back the very same bytes; text is made valid UTF-8, because proto3 readers refuse a
// message for one bad byte and file names, arguments and titles may hold any.
// Thread rule: pure.
// Failure rule: cannot fail.
#include <cstdint>
#include <protozero/pbf_builder.hpp>
#include <string>
#include <string_view>

#include "proto/limits.h"

namespace stepagent::drain {

// Bytes that are no UTF-8 become U+FFFD; longer than `max_bytes` is cut between characters.
[[nodiscard]] std::string ValidUtf8(std::string_view text, size_t max_bytes);

template <typename Message>
void PutUint(protozero::pbf_builder<Message>* message, Message field, uint64_t value) {
  if (value != 0) message->add_uint64(field, value);
}
template <typename Message>
void PutSigned(protozero::pbf_builder<Message>* message, Message field, int64_t value) {
  if (value != 0) message->add_sint64(field, value);
}
// int64 fields (not zigzag).
template <typename Message>
void PutInt(protozero::pbf_builder<Message>* message, Message field, int64_t value) {
  if (value != 0) message->add_int64(field, value);
}
template <typename Message>
void PutBool(protozero::pbf_builder<Message>* message, Message field, bool value) {
  if (value) message->add_bool(field, true);
}
template <typename Message>
void PutText(protozero::pbf_builder<Message>* message, Message field, std::string_view text,
             size_t max_bytes = proto::kMaxNameBytes) {
  if (!text.empty()) message->add_string(field, ValidUtf8(text, max_bytes));
}
template <typename Message>
void PutBytes(protozero::pbf_builder<Message>* message, Message field, std::string_view bytes) {
  if (!bytes.empty()) message->add_bytes(field, bytes.data(), bytes.size());
}

}  // namespace stepagent::drain
