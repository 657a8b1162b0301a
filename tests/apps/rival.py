#!/usr/bin/env python3
"""rival.py: trains with launches of one kernel and profiles itself with PyPI's cupti-python.

The step is the range `train_step` of the nvtx package. Exit status 77 when a package is missing.
Prints what each attempt to subscribe answered, and how many kernel records came.
"""
import argparse
import ctypes
import sys
import time

try:
    import nvtx
    from cupti import cupti
except ImportError as error:
    print(f"rival.py: skipped: {error.name} is not installed")
    sys.exit(77)

PTX = b""".version 5.0
.target sm_52
.address_size 64
.visible .entry rival_kernel() { ret; }
"""
BUFFER_BYTES = 65536


class Device:
    """As much of the driver API as it takes to launch a kernel."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self.function = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", ctypes.byref(module), PTX)
        self.call("cuModuleGetFunction", ctypes.byref(self.function), module, b"rival_kernel")

    def call(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result != 0:
            sys.exit(f"rival.py: {name}: {result}")

    def work(self):
        self.call("cuLaunchKernel", self.function, 1, 1, 1, 32, 1, 1, 0, None, None, None)
        self.call("cuCtxSynchronize")


class Profiler:
    """cupti-python as its samples use it: subscribe, register, enable; and back."""

    def __init__(self):
        self.subscriber = None
        self.kernels = 0
        self.last = None

    def completed(self, records):
        self.kernels += sum(r.kind == cupti.ActivityKind.CONCURRENT_KERNEL for r in records)

    def attempt(self):
        try:
            self.subscriber = cupti.subscribe(lambda *_: None, None)
            answer = "subscribed"
        except cupti.cuptiError as error:
            answer = str(error)
        if answer != self.last:
            print("rival.py:", answer, flush=True)
        self.last = answer
        if self.subscriber is not None:
            cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), self.completed)
            cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)

    def stop(self, finalises):
        if self.subscriber is None:
            return
        cupti.activity_flush_all(1)
        cupti.activity_disable(cupti.ActivityKind.CONCURRENT_KERNEL)
        cupti.unsubscribe(self.subscriber)
        self.subscriber = None
        if finalises:
            cupti.finalize()
            print("rival.py: finalised", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--step-us", type=int, default=2000)
    parser.add_argument("--at", type=int, default=0, help="subscribes at the start of this step")
    parser.add_argument("--until", type=int, default=1 << 30, help="unsubscribes there")
    parser.add_argument("--retry", action="store_true", help="tries again at each step")
    parser.add_argument("--finalise", action="store_true", help="ends CUPTI when it unsubscribes")
    options = parser.parse_args()
    device, profiler = Device(), Profiler()
    for step in range(options.steps):
        is_due = step == options.at or (options.retry and options.at < step)
        if is_due and profiler.subscriber is None and step < options.until:
            profiler.attempt()
        if step == options.until:
            profiler.stop(options.finalise)
        with nvtx.annotate("train_step"):
            device.work()
            time.sleep(options.step_us / 1e6)
    profiler.stop(options.finalise)
    print(f"rival.py: {profiler.kernels} kernel records of {options.steps} steps")


if __name__ == "__main__":
    main()
