"""Asks the driver and CUPTI of this machine, simulated or not, one question; the answer is JSON.

    driver_ways.py before_init | fork | proc_address | threads_of_buffers

Run by expectations.py in a process of its own, since each question wants a fresh one.
"""
import ctypes
import json
import os
import sys

PER_THREAD_BUFFERS = 9  # CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, from 12.3 on
CUPTI_NAMES = ('libcupti.so', 'libcupti.so.13', 'libcupti.so.12', 'libcupti.so.11.8')


def driver():
    return ctypes.CDLL('libcuda.so.1')


def before_init():
    """Calls before cuInit, then the version, which needs none, then what is there."""
    cuda, count, version = driver(), ctypes.c_int(-1), ctypes.c_int()
    early = cuda.cuDeviceGetCount(ctypes.byref(count))
    versioned = cuda.cuDriverGetVersion(ctypes.byref(version))
    result = cuda.cuInit(0)
    cuda.cuDeviceGetCount(ctypes.byref(count))
    name = ctypes.c_char_p()
    cuda.cuGetErrorName(early, ctypes.byref(name))
    return {'early': early, 'name': name.value.decode(), 'version_result': versioned,
            'version': version.value, 'init': result, 'devices': count.value}


def fork():
    """What a forked child of a process with CUDA is told."""
    cuda = driver()
    cuda.cuInit(0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        count = ctypes.c_int()
        os.write(writer, b'%d' % cuda.cuDeviceGetCount(ctypes.byref(count)))
        os._exit(0)
    os.waitpid(child, 0)
    return {'child': int(os.read(reader, 16))}


def proc_address():
    """The status for a name that is there, one that is not, and a version that is too low."""
    cuda = driver()
    cuda.cuInit(0)

    def ask(name, version):
        found, status = ctypes.c_void_p(), ctypes.c_int(-1)
        result = cuda.cuGetProcAddress_v2(name, ctypes.byref(found), version, ctypes.c_uint64(0),
                                          ctypes.byref(status))
        return {'result': result, 'status': status.value, 'found': bool(found.value)}

    return {'there': ask(b'cuMemAlloc', 3020), 'unknown': ask(b'cuNoSuchFunction', 12000),
            'too_low': ask(b'cuLaunchKernelEx', 11000)}


def cupti():
    for name in CUPTI_NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit(77)


def threads_of_buffers():
    """Whether CUPTI keeps a buffer for each thread."""
    cuda, library, context = driver(), cupti(), ctypes.c_void_p()
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    version, size, value = ctypes.c_uint32(), ctypes.c_size_t(1), ctypes.c_uint8(255)
    library.cuptiGetVersion(ctypes.byref(version))
    result = library.cuptiActivityGetAttribute(PER_THREAD_BUFFERS, ctypes.byref(size),
                                               ctypes.byref(value))
    return {'api': version.value, 'result': result, 'per_thread': value.value}


QUESTIONS = {f.__name__: f for f in (before_init, fork, proc_address, threads_of_buffers)}

if __name__ == '__main__':
    print(json.dumps(QUESTIONS[sys.argv[1]]()))
