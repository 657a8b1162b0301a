#pragma once
// Field numbers of proto/*.proto, as enums named after messages and fields.
//
// Purpose: protozero's typed builders and readers name a field, never a number. The lists are
// macros so that a test can walk them beside the schema's descriptors: a number that differs, or a
// field that is missing here, fails the build's tests.
// Thread rule: constants.
// Failure rule: none.
#include <protozero/types.hpp>

namespace stepagent::drain::wire {

// clang-format off: one list a message

#define STEPAGENT_FIELDS_Identity(X) X(run, 1) X(session, 2) X(host, 3) X(rank, 4) X(cycle, 5)
#define STEPAGENT_FIELDS_Batch(X) X(identity, 1) X(sequence, 2) X(host_ns, 3) X(strings, 4) \
    X(threads, 5) X(steps, 6) X(cycle_events, 7) X(calls, 8) X(kernels, 9) X(memcpys, 10) \
    X(memsets, 11) X(syncs, 12) X(graph_launches, 13) X(ranges, 14) X(overheads, 15) \
    X(clock_samples, 16) X(losses, 17) X(devices, 18) X(contexts, 19) X(streams, 20) X(notes, 21) \
    X(cycle_reports, 22) X(memories, 23) X(stacks, 24) X(gauges, 25)
#define STEPAGENT_FIELDS_Gauges(X) X(ring_bytes, 1) X(ring_bytes_waiting, 2) X(cupti_buffers, 3)
#define STEPAGENT_FIELDS_Strings(X) X(id, 1) X(text, 2)
#define STEPAGENT_FIELDS_Threads(X) X(index, 1) X(tid, 2) X(name, 3)
#define STEPAGENT_FIELDS_Steps(X) X(count, 1) X(index, 2) X(process_index, 3) X(phase, 4) \
    X(cycle, 5) X(begin_ns, 6) X(end_ns, 7) X(flags, 8) X(thread, 9)
#define STEPAGENT_FIELDS_CycleEvent(X) X(cycle, 1) X(kind, 2) X(host_ns, 3) X(ended, 4) \
    X(reason, 5)
#define STEPAGENT_FIELDS_Calls(X) X(count, 1) X(thread, 2) X(name, 3) X(cls, 4) X(domain, 5) \
    X(cbid, 6) X(begin_delta, 7) X(duration_ns, 8) X(correlation_delta, 9) X(return_value, 10) \
    X(flags, 11) X(stack, 12)
#define STEPAGENT_FIELDS_Shapes(X) X(count, 1) X(name, 2) X(grid_x, 3) X(grid_y, 4) X(grid_z, 5) \
    X(block_x, 6) X(block_y, 7) X(block_z, 8) X(registers_per_thread, 9) \
    X(static_shared_bytes, 10) X(dynamic_shared_bytes, 11) X(cluster_x, 12) X(cluster_y, 13) \
    X(cluster_z, 14) X(local_bytes_per_thread, 15)
#define STEPAGENT_FIELDS_Lanes(X) X(count, 1) X(device, 2) X(context, 3) X(stream, 4) \
    X(channel, 5) X(channel_type, 6)
#define STEPAGENT_FIELDS_Kernels(X) X(count, 1) X(shapes, 2) X(lanes, 3) X(shape, 4) X(lane, 5) \
    X(device_start_delta, 6) X(duration_ns, 7) X(correlation_delta, 8) X(graph_id, 9) \
    X(graph_node_id, 10) X(flags, 11)
#define STEPAGENT_FIELDS_Memcpys(X) X(count, 1) X(lanes, 2) X(lane, 3) X(device_start_delta, 4) \
    X(duration_ns, 5) X(correlation_delta, 6) X(bytes, 7) X(copy_kind, 8) X(source_kind, 9) \
    X(target_kind, 10) X(graph_id, 11) X(graph_node_id, 12) X(flags, 13) X(source_device, 14) \
    X(target_device, 15) X(is_async, 16) X(copy_count, 17)
#define STEPAGENT_FIELDS_Memsets(X) X(count, 1) X(lanes, 2) X(lane, 3) X(device_start_delta, 4) \
    X(duration_ns, 5) X(correlation_delta, 6) X(bytes, 7) X(value, 8) X(memory_kind, 9) \
    X(graph_id, 10) X(graph_node_id, 11) X(flags, 12)
#define STEPAGENT_FIELDS_Syncs(X) X(count, 1) X(type, 2) X(context, 3) X(stream, 4) X(event, 5) \
    X(device_start_delta, 6) X(duration_ns, 7) X(correlation_delta, 8) X(flags, 9)
#define STEPAGENT_FIELDS_GraphLaunches(X) X(count, 1) X(lanes, 2) X(lane, 3) \
    X(device_start_delta, 4) X(duration_ns, 5) X(correlation_delta, 6) X(graph_id, 7) X(flags, 8)
#define STEPAGENT_FIELDS_Ranges(X) X(count, 1) X(thread, 2) X(op, 3) X(name, 4) X(domain, 5) \
    X(category, 6) X(host_delta, 7) X(range_id, 8) X(color, 9)
#define STEPAGENT_FIELDS_Overheads(X) X(count, 1) X(kind, 2) X(thread_tid, 3) \
    X(device_start_delta, 4) X(duration_ns, 5)
#define STEPAGENT_FIELDS_Memories(X) X(count, 1) X(operation, 2) X(memory_kind, 3) X(address, 4) \
    X(bytes, 5) X(device_stamp_delta, 6) X(device, 7) X(correlation_delta, 8)
#define STEPAGENT_FIELDS_Stacks(X) X(id, 1) X(stack, 2) X(frames, 3) X(modules, 4)
#define STEPAGENT_FIELDS_Stack(X) X(frames, 1) X(frame, 2) X(truncated, 3)
#define STEPAGENT_FIELDS_Frame(X) X(kind, 1) X(address, 2) X(module, 3) X(name, 4) X(line, 5) \
    X(build_id, 6) X(file, 7)
#define STEPAGENT_FIELDS_Module(X) X(path, 1) X(build_id, 2)
#define STEPAGENT_FIELDS_ClockSamples(X) \
  X(host_ns, 1) X(real_ns, 2) X(bracket_ns, 3) X(suspended_ms, 4)
#define STEPAGENT_FIELDS_LossReport(X) X(kinds, 1)
#define STEPAGENT_FIELDS_KindLoss(X) X(activity, 1) X(produced, 2) X(sent, 3) \
    X(dropped_ring_full, 4) X(dropped_no_ring, 5) X(dropped_uplink, 6) X(dropped_cupti, 7) \
    X(dropped_limit, 8) X(invalid, 9) X(cupti_count_unknown, 10)
#define STEPAGENT_FIELDS_Device(X) X(ordinal, 1) X(name, 2) X(uuid, 3) X(memory_bytes, 4) \
    X(multiprocessors, 5) X(compute_major, 6) X(compute_minor, 7) X(clock_khz, 8) \
    X(memory_bandwidth_kbps, 9) X(warp_size, 10) X(max_threads_per_block, 11) \
    X(max_threads_per_multiprocessor, 12) X(registers_per_block, 13) \
    X(registers_per_multiprocessor, 14) X(shared_per_block, 15) X(shared_per_multiprocessor, 16) \
    X(shared_per_block_optin, 17)
#define STEPAGENT_FIELDS_Context(X) X(id, 1) X(device, 2) X(null_stream, 3)
#define STEPAGENT_FIELDS_Stream(X) X(context, 1) X(id, 2) X(priority, 3) X(flag, 4)
#define STEPAGENT_FIELDS_Note(X) X(cycle, 1) X(code, 2) X(text, 3)
#define STEPAGENT_FIELDS_CycleReport(X)                                                         \
  X(cycle, 1)                                                                                   \
  X(gpu, 2) X(kinds, 3) X(cost, 4) X(all_steps, 5) X(overlapping_steps, 6) X(unmatched_ends, 7) \
      X(truncated_names, 8) X(foreign_buffers, 9) X(top_ranges, 10) X(tail_wait_ns, 11)         \
          X(launches_awaited_in_vain, 12) X(wall_offset_ns, 13) X(wall_error_ns, 14)
#define STEPAGENT_FIELDS_GpuStatus(X) X(status, 1) X(reason, 2) X(reason_code, 3) \
    X(driver_version, 4) X(cupti_version, 5) X(cupti_path, 6) X(cupti_choice, 7) X(graph_level, 8) \
    X(holder, 9) X(newer_cupti, 10)
#define STEPAGENT_FIELDS_KindStatus(X) X(activity, 1) X(requested, 2) X(enabled, 3) X(error, 4)
#define STEPAGENT_FIELDS_Cost(X) X(callback_ns, 1) X(callbacks, 2) X(arm_wait_ns, 3) X(arm_ns, 4) \
    X(drain_cpu_ns, 5) X(host_bytes, 6) X(device_flush_age_ns, 7) X(callback_ns_measured, 8)
#define STEPAGENT_FIELDS_AllSteps(X) X(count, 1) X(index, 2) X(duration_ns, 3) X(collecting, 4)
#define STEPAGENT_FIELDS_NameCount(X) X(name, 1) X(domain, 2) X(count, 3) X(registered, 4)
#define STEPAGENT_FIELDS_Hello(X) X(protocol, 1) X(protocol_min, 2) X(agent_version, 3) \
    X(identity, 4) X(pid, 5) X(ppid, 6) X(exe, 7) X(exe_path, 8) X(title, 9) X(argv, 10) \
    X(rank_source, 11) X(world_size, 12) X(local_rank, 13) X(cuda_visible_devices, 14) \
    X(has_cuda_visible_devices, 15) X(clock, 16) X(schedule, 17) X(step_source, 18) \
    X(step_extent, 19) X(settings, 20) X(labels, 21) X(out, 22) X(run_dir, 23) X(formats, 24) \
    X(redact, 25) X(activities, 26) X(require, 27) X(process_start_ticks, 28) \
    X(rank_conflicts, 29) X(max_traces, 30) X(max_bytes, 31) X(launcher_watches, 32)
#define STEPAGENT_FIELDS_ClockInfo(X) X(host, 1) X(base_unix_ns, 2) X(base_mono_ns, 3)
#define STEPAGENT_FIELDS_Schedule(X) X(skip_first, 1) X(wait, 2) X(warmup, 3) X(active, 4) \
    X(repeat, 5) X(skip_first_wait, 6)
#define STEPAGENT_FIELDS_Welcome(X) X(accepted, 1) X(reason, 2) X(protocol, 3) X(session_dir, 4) \
    X(run_dir, 5) X(collector_version, 6)
#define STEPAGENT_FIELDS_Written(X) X(cycle, 1) X(complete, 2) X(files, 3) X(error, 4)
#define STEPAGENT_FIELDS_Throttle(X) X(stop, 1) X(reason, 2)
#define STEPAGENT_FIELDS_Goodbye(X) X(ended, 1) X(losses, 2) X(last_sequence, 3) X(all_steps, 4)
#define STEPAGENT_FIELDS_ControlRequest(X) X(protocol, 1) X(verb, 2) X(steps, 3) X(duration_ns, 4) \
    X(settings, 5) X(at_step, 6) X(by_signal, 7)
#define STEPAGENT_FIELDS_ControlAnswer(X) X(verdict, 1) X(reason, 2) X(status, 3)
#define STEPAGENT_FIELDS_AgentStatus(X) X(pid, 1) X(title, 2) X(exe, 3) X(rank, 4) X(session, 5) \
    X(run, 6) X(phase, 7) X(step, 8) X(cycle, 9) X(records, 10) X(last_error, 11) \
    X(session_dir, 12) X(gpus, 13) X(busy_count, 14) X(written, 15) X(step_source, 16) \
    X(top_ranges, 17) X(has_cuda, 18) X(cycles_written, 19) X(signal_off, 20) \
    X(awaits_files, 21) X(cycles_lost, 22)

#define STEPAGENT_MESSAGES(M) M(Identity) M(Batch) M(Strings) M(Threads) M(Steps) M(CycleEvent) \
    M(Calls) M(Shapes) M(Lanes) M(Kernels) M(Memcpys) M(Memsets) M(Syncs) M(GraphLaunches) \
    M(Ranges) M(Overheads) M(Memories) M(Stacks) M(Stack) M(Frame) M(Module) M(ClockSamples) \
    M(LossReport) M(KindLoss) M(Device) M(Context) M(Stream) M(Note) M(CycleReport) M(GpuStatus) M(KindStatus) \
    M(Cost) M(AllSteps) M(NameCount) M(Hello) M(ClockInfo) M(Schedule) M(Welcome) M(Written) \
    M(Throttle) M(Goodbye) M(ControlRequest) M(ControlAnswer) M(AgentStatus) M(Gauges)

// A map entry has no message of its own in the schema's text.
#define STEPAGENT_FIELDS_MapEntry(X) X(key, 1) X(value, 2)

// clang-format on
#define STEPAGENT_FIELD_ENTRY(name, number) name = number,
#define STEPAGENT_MESSAGE_ENUM(Message)               \
  enum class Message : protozero::pbf_tag_type {      \
    STEPAGENT_FIELDS_##Message(STEPAGENT_FIELD_ENTRY) \
  };
STEPAGENT_MESSAGES(STEPAGENT_MESSAGE_ENUM)
STEPAGENT_MESSAGE_ENUM(MapEntry)
#undef STEPAGENT_MESSAGE_ENUM
#undef STEPAGENT_FIELD_ENTRY

}  // namespace stepagent::drain::wire
