#!/usr/bin/env python3
"""Writes tiny.json: a made-up Kineto recording with one of everything a replay must understand."""
import json
import os

EVENTS = []


def event(cat, name, tid, ts, dur, **args):
    EVENTS.append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
                   "args": args})


def call(name, tid, ts, correlation, dur=2.5):
    event("cuda_driver" if name.startswith("cuL") else "cuda_runtime", name, tid, ts, dur,
          correlation=correlation)


def kernel(name, stream, ts, dur, correlation):
    event("kernel", name, stream, ts, dur, device=0, stream=stream, context=1,
          correlation=correlation, grid=[8, 2, 1], block=[128, 1, 1], **{"shared memory": 64})


def copy(kind, stream, ts, dur, correlation, size):
    event("gpu_memcpy", f"Memcpy {kind}", stream, ts, dur, device=0, stream=stream, context=1,
          correlation=correlation, bytes=size)


def step(number, base):
    begin = base + 1
    event("user_annotation", f"ProfilerStep#{number}", 1, begin, 4000)
    event("user_annotation", "forward", 1, base + 10, 1000)
    event("user_annotation", "backward", 2, base + 1500, 900)
    event("user_annotation", "crossing", 2, base + 2000, 900)
    c = number * 100
    call("cudaMemcpyAsync", 1, base + 20, c)
    copy("HtoD (Pinned -> Device)", 20, base + 100, 30, c, 65536)
    call("cudaMemcpyAsync_v3020", 1, base + 60, c + 1)
    copy("HtoD (Pageable -> Device)", 20, base + 140, 30.5, c + 1, 4096)
    for i in range(3):
        call("cudaLaunchKernel", 1, base + 100 + 50 * i, c + 10 + i)
        kernel("void forward<float>(float*, int)", 7, base + 200 + 60 * i, 40.125 + i, c + 10 + i)
    call("cudaLaunchKernelExC", 2, base + 1600, c + 20)
    kernel("backward_kernel", 20, base + 1700, 90, c + 20)
    call("cuLaunchKernel", 2, base + 1700, c + 21)
    kernel("triton_fused", 20, base + 1800, 12.345, c + 21)
    call("cudaMemsetAsync", 1, base + 2500, c + 30)
    event("gpu_memset", "Memset (Device)", 7, base + 2600, 3, device=0, stream=7, context=1,
          correlation=c + 30, bytes=1024)
    call("cudaMemsetAsync", 1, base + 2550, c + 31)
    call("cudaEventRecord", 1, base + 2600, c + 32)
    call("cudaStreamIsCapturing", 1, base + 2650, c + 33)
    call("cudaMemcpyAsync", 1, base + 2700, c + 34)
    copy("DtoH (Device -> Pinned)", 7, base + 2800, 5, c + 34, 8)
    call("cudaStreamSynchronize", 1, base + 2900, c + 35, 100)
    call("cudaGraphLaunch", 1, base + 3100, c + 36)
    kernel("graph_first", 7, base + 3200, 20, c + 36)
    kernel("graph_second", 7, base + 3220, 21, c + 36)
    event("gpu_memset", "Memset (Device)", 7, base + 3250, 2, device=0, stream=7, context=1,
          correlation=c + 36, bytes=512)
    # Launched in this step, runs after its end.
    call("cudaLaunchKernel", 1, base + 3990, c + 40)
    kernel("late_kernel", 7, base + 4500, 300, c + 40)
    # At the very end of the step: belongs to none.
    call("cudaLaunchKernel", 1, begin + 4000, c + 41)
    kernel("outside_kernel", 7, base + 4900, 10, c + 41)


for index, first in ((7, 1700000000000000), (8, 1700000000006000)):
    step(index, first)
EVENTS.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
               "ts": 1700000000000300, "dur": 5,
               "args": {"External id": 3, "shape": [[1, 2], [3]]}})
EVENTS.append({"ph": "M", "name": "process_name", "pid": "Spans", "tid": "x",
               "args": {"name": "y"}})

with open(os.path.join(os.path.dirname(__file__), "tiny.json"), "w", encoding="utf-8") as file:
    json.dump({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "made up"}],
               "traceEvents": EVENTS}, file, indent=0)
    file.write("\n")
