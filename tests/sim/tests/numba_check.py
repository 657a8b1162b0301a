"""An ordinary numba program on the simulated driver; prints what it found, exits non-zero on a
difference. Exit 77: numba is not installed."""
import sys

try:
    import numpy as np
    from numba import cuda
    from numba.cuda.cudadrv import driver
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
// sim.duration_ns=30000000
.visible .entry scale(.param .u64 data)
{
  ret;
}
"""


def main():
    device = cuda.get_current_device()
    assert device.compute_capability == (8, 0), device.compute_capability
    stream = cuda.stream()
    host = np.arange(1000, dtype=np.float32)
    on_device = cuda.to_device(host, stream=stream)
    assert (on_device.copy_to_host(stream=stream) == host).all()

    module = cuda.current_context().create_module_ptx(PTX)
    kernel = module.get_function("scale")
    begin, end = cuda.event(), cuda.event()
    begin.record(stream)
    arguments = [on_device.device_ctypes_pointer]
    driver.launch_kernel(kernel.handle, 1, 1, 1, 32, 1, 1, 0, stream.handle, arguments)
    end.record(stream)
    end.synchronize()
    elapsed_ms = cuda.event_elapsed_time(begin, end)
    assert 29.9 < elapsed_ms < 3000, elapsed_ms

    pinned = cuda.pinned_array(100, dtype=np.float32)
    assert pinned.shape == (100,)
    free, total = cuda.current_context().get_memory_info()
    assert 0 < free < total
    print("numba on", device.name.decode(), f"{elapsed_ms:.2f} ms")


main()
