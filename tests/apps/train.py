#!/usr/bin/env python3
"""train.py: a training loop as a user would write it, on numba's CUDA driver bindings and nvtx.

It fits y = w * x element by element. The kernels are PTX text, so no compiler but the driver's own
is needed. NVTX ranges come from the nvtx package, whose default domain is named "NVTX": the step is
the range `train_step` of that domain. Without a usable device it trains on the host and says so.
Exit status 77 when numba or nvtx is not installed.
"""
import argparse
import ctypes
import json
import sys
import time

try:
    import nvtx
except ImportError:
    print("train.py: skipped: the Python package nvtx is not installed")
    sys.exit(77)
try:
    import numpy
    from numba import cuda
    from numba.cuda.cudadrv import driver, drvapi
    from numba.cuda.cudadrv.error import CudaSupportError
except ImportError as error:
    print(f"train.py: skipped: {error.name} is not installed")
    sys.exit(77)

BLOCK = 256
LEARNING_RATE = 0.125
KERNELS = ("forward", "loss_gradient", "sgd")

HEADER = ".version 5.0\n.target sm_52\n.address_size 64\n"
ENTRY = """
.visible .entry {name}(.param .u64 a, .param .u64 b, .param .u64 c, .param .f32 k, .param .u32 n)
{{
  .reg .pred %p; .reg .f32 %f<6>; .reg .b32 %r<6>; .reg .b64 %d<8>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [n]; setp.ge.u32 %p, %r4, %r5; @%p bra DONE;
  ld.param.f32 %f0, [k]; mul.wide.u32 %d0, %r4, 4;
  ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];
  cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2; cvta.to.global.u64 %d3, %d3;
  add.u64 %d4, %d1, %d0; add.u64 %d5, %d2, %d0; add.u64 %d6, %d3, %d0;
  ld.global.f32 %f1, [%d4]; ld.global.f32 %f2, [%d5]; ld.global.f32 %f3, [%d6];
  {body}
DONE:
  ret;
}}
"""
BODIES = {
    # c = a * b: prediction of weight a on batch b
    "forward": "mul.rn.f32 %f4, %f1, %f2; st.global.f32 [%d6], %f4;",
    # c = (c - a) * b: gradient from label a, input b and prediction c
    "loss_gradient": "sub.rn.f32 %f4, %f3, %f1; mul.rn.f32 %f4, %f4, %f2;"
                     " st.global.f32 [%d6], %f4;",
    # a = a + k * c
    "sgd": "fma.rn.f32 %f4, %f0, %f3, %f1; st.global.f32 [%d4], %f4;",
}
PTX = HEADER + "".join(ENTRY.format(name=name, body=BODIES[name]) for name in KERNELS)


def batch(step, count):
    """The inputs and labels of a step; the true weight is 3."""
    inputs = ((numpy.arange(count) + step) % 97 / 97 + 0.5).astype(numpy.float32)
    return inputs, inputs * numpy.float32(3)


class HostTrainer:
    """The arithmetic of the kernels, for a machine without a device and as a check."""

    def __init__(self, count):
        self.weights = numpy.ones(count, numpy.float32)

    def copy_in(self, inputs, labels):
        self.inputs, self.labels = inputs, labels

    def forward(self):
        self.output = self.weights * self.inputs

    def backward(self):
        self.output = (self.output - self.labels) * self.inputs

    def optimizer(self):
        self.weights += numpy.float32(-LEARNING_RATE) * self.output

    def finish(self):
        return self.weights


class DeviceTrainer:
    def __init__(self, count):
        self.count = count
        self.stream = cuda.stream()
        module = cuda.current_context().create_module_ptx(PTX)
        self.functions = {name: module.get_function(name) for name in KERNELS}
        self.module = module
        self.weights = cuda.to_device(numpy.ones(count, numpy.float32), stream=self.stream)
        self.inputs = cuda.device_array(count, numpy.float32)
        self.labels = cuda.device_array(count, numpy.float32)
        self.output = cuda.device_array(count, numpy.float32)
        self.pinned = cuda.pinned_array(count, numpy.float32)
        self.stream.synchronize()

    def launch(self, name, *arrays):
        arguments = [ctypes.c_uint64(array.device_ctypes_pointer.value) for array in arrays]
        arguments += [ctypes.c_float(-LEARNING_RATE), ctypes.c_uint32(self.count)]
        blocks = (self.count + BLOCK - 1) // BLOCK
        driver.launch_kernel(self.functions[name].handle, blocks, 1, 1, BLOCK, 1, 1, 0,
                             self.stream.handle, arguments)

    def copy_in(self, inputs, labels):
        self.pinned[:] = inputs
        self.inputs.copy_to_device(self.pinned, stream=self.stream)
        self.labels.copy_to_device(labels, stream=self.stream)

    def forward(self):
        driver.device_memset(self.output, 0, self.output.nbytes, stream=self.stream)
        self.launch("forward", self.weights, self.inputs, self.output)

    def backward(self):
        self.launch("loss_gradient", self.labels, self.inputs, self.output)

    def optimizer(self):
        self.launch("sgd", self.weights, self.weights, self.output)
        self.stream.synchronize()

    def finish(self):
        return self.weights.copy_to_host()


def train(trainer, options):
    for step in range(options.steps):
        with nvtx.annotate("train_step"):
            with nvtx.annotate("load_batch"):
                inputs, labels = batch(step, options.elements)
                time.sleep(options.sleep_us / 1e6)
            with nvtx.annotate("copy_in"):
                trainer.copy_in(inputs, labels)
            with nvtx.annotate("forward"):
                trainer.forward()
            with nvtx.annotate("backward"):
                trainer.backward()
            with nvtx.annotate("optimizer"):
                trainer.optimizer()
    return trainer.finish()


def check(weights, options):
    """What became of the weights: kernels run on a real device, not on a simulated one."""
    reference = HostTrainer(options.elements)
    if options.steps > 0 and numpy.array_equal(weights, reference.weights):
        return "as uploaded, this device runs no kernels"
    for step in range(options.steps):
        reference.copy_in(*batch(step, options.elements))
        reference.forward()
        reference.backward()
        reference.optimizer()
    return "equal to the host's" if numpy.allclose(weights, reference.weights) else None


def expected(options):
    """Per step, what the device is asked for."""
    size = 4 * options.elements
    return {"steps": options.steps, "per_step": {
        "launches": 3, "kernels_by_name": dict.fromkeys(KERNELS, 1),
        "copies_by_kind": {"HtoD_pinned": 1, "HtoD_pageable": 1},
        "copy_bytes_by_kind": {"HtoD_pinned": size, "HtoD_pageable": size},
        "sets": 1, "set_bytes": size,
        "ranges": dict.fromkeys(("train_step", "load_batch", "copy_in", "forward", "backward",
                                 "optimizer"), 1)}}


def keep_first_versions():
    """Numba takes the _v2 symbol of a call for the call itself; CUDA 13 gave two of them another
    signature, so for these the plain symbol is the right one."""
    for name in ("cuCtxGetDevice", "cuCtxSynchronize"):
        function = getattr(driver.driver.lib, name)
        function.restype, *function.argtypes = drvapi.API_PROTOTYPES[name]
        setattr(driver.driver, name, driver.driver._ctypes_wrap_fn(name, function))


def device_exists():
    """cuda.is_available() also asks for a compiler, which PTX text does not need."""
    try:
        if not driver.driver.is_available:
            return False
        keep_first_versions()
        return len(cuda.gpus) > 0
    except CudaSupportError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--elements", type=int, default=16384)
    parser.add_argument("--sleep-us", type=int, default=5000, help="host sleep per step")
    parser.add_argument("--host-only", action="store_true")
    parser.add_argument("--print-expected", action="store_true",
                        help="print what a step asks of the device as JSON, and end")
    options = parser.parse_args()
    if options.print_expected:
        print(json.dumps(expected(options)))
        return 0
    has_device = not options.host_only and device_exists()
    if has_device:
        name = cuda.get_current_device().name
        print(f"device: {name.decode() if isinstance(name, bytes) else name}")
    else:
        print("device: none, host only")
    trainer = DeviceTrainer(options.elements) if has_device else HostTrainer(options.elements)
    weights = train(trainer, options)
    verdict = check(weights, options)
    print(f"weights: {verdict or 'WRONG'}")
    print(f"train.py: {options.steps} steps done")
    return 0 if verdict else 1


if __name__ == "__main__":
    sys.exit(main())
