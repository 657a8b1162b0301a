"""Stands in for torch where there is none: what torch_train.py uses, on the driver API.

It proves the script, not torch: every operation launches one empty kernel and computes nothing. Its
profiler takes CUPTI as Kineto does, once in a process and never again, through cupti-python.
"""
import contextlib
import ctypes
import multiprocessing
import sys
import types

import nvtx as nvtx_package

PTX = (b'.version 5.0\n.target sm_52\n.address_size 64\n'
       b'.visible .entry stub_kernel() { ret; }\n')
PROFILED_BYTES = 65536


class _Driver:
    """The device, opened at the first use, as torch does."""

    def __init__(self):
        self.library = self.function = None
        self.memory = ctypes.c_uint64()
        self.streams = [None]

    def open(self):
        if self.library is not None:
            return
        self.library = ctypes.CDLL('libcuda.so.1')
        context, module, self.function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self('cuInit', 0)
        self('cuDevicePrimaryCtxRetain', ctypes.byref(context), 0)
        self('cuCtxSetCurrent', context)
        self('cuModuleLoadData', ctypes.byref(module), PTX)
        self('cuModuleGetFunction', ctypes.byref(self.function), module, b'stub_kernel')
        self('cuMemAlloc_v2', ctypes.byref(self.memory), ctypes.c_size_t(1 << 20))

    def __call__(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise RuntimeError('%s: %d' % (name, result))

    def launch(self):
        self.open()
        self('cuLaunchKernel', self.function, 1, 1, 1, 32, 1, 1, 0, self.streams[-1], None, None)


_driver = _Driver()


class Tensor:
    def __init__(self, elements=1):
        self.elements = elements
        self.host = ctypes.create_string_buffer(4 * elements)

    def square(self):
        _driver.launch()
        return self

    mean = square

    def backward(self):
        for _ in range(4):
            _driver.launch()

    def copy_(self, other):
        _driver.open()
        _driver('cuMemcpyHtoDAsync_v2', _driver.memory, other.host,
                ctypes.c_size_t(4 * other.elements), _driver.streams[-1])


def full(shape, _value):
    return Tensor(shape[0])


def zeros(*shape, device=None):
    assert device == 'cuda'
    return Tensor(shape[0] * shape[1])


def _module(name, **members):
    module = types.ModuleType('torch.' + name)
    vars(module).update(members)
    sys.modules['torch.' + name] = module
    return module


class _Layers:
    def __init__(self, *layers):
        self.layers = layers

    def cuda(self):
        _driver.open()
        return self

    def parameters(self):
        return [Tensor() for layer in self.layers if isinstance(layer, tuple)]

    def __call__(self, data):
        for _ in self.layers:
            _driver.launch()
        return data


class _SGD:
    def __init__(self, parameters, lr):
        assert parameters and lr > 0

    def zero_grad(self, set_to_none=True):
        if not set_to_none:
            _driver.launch()

    def step(self):
        _driver.launch()


class _Stream:
    def __init__(self, handle=None):
        self.handle = handle
        if handle is None:
            _driver.open()
            self.handle = ctypes.c_void_p()
            _driver('cuStreamCreate', ctypes.byref(self.handle), 1)

    def wait_stream(self, other):
        _driver('cuStreamSynchronize', other.handle)


class _Graph:
    def __init__(self):
        self.instance = ctypes.c_void_p()

    def replay(self):
        _driver('cuGraphLaunch', self.instance, _driver.streams[-1])


@contextlib.contextmanager
def _stream(stream):
    _driver.streams.append(stream.handle)
    yield
    _driver.streams.pop()


@contextlib.contextmanager
def _graph(graph):
    capturing, made = _Stream(), ctypes.c_void_p()
    with _stream(capturing):
        _driver('cuStreamBeginCapture_v2', capturing.handle, 0)
        yield
        _driver('cuStreamEndCapture', capturing.handle, ctypes.byref(made))
    _driver('cuGraphInstantiateWithFlags', ctypes.byref(graph.instance), made, ctypes.c_uint64(0))


def _synchronize():
    _driver.open()
    _driver('cuCtxSynchronize')


def _is_available():
    try:
        _driver.open()
    except (OSError, RuntimeError):
        return False
    return True


class _Loader:
    def __init__(self, dataset, batch_size, num_workers, multiprocessing_context):
        assert (num_workers > 0) == (multiprocessing_context is not None)
        self.dataset, self.batch_size, self.workers = dataset, batch_size, num_workers
        self.context = multiprocessing.get_context(multiprocessing_context)

    def batch(self, begin):
        elements = sum(self.dataset[i].elements for i in range(begin, begin + self.batch_size))
        return elements

    def __iter__(self):
        begins = range(0, len(self.dataset), self.batch_size)
        if self.workers == 0:
            yield from (Tensor(self.batch(begin)) for begin in begins)
            return
        with self.context.Pool(self.workers) as pool:
            yield from (Tensor(elements) for elements in pool.imap(self.batch, begins))


class _Profiler:
    """Subscribes at the first use in the process and keeps what it got, as Kineto did for years."""
    was_used = has_slot = False

    def __init__(self, activities):
        assert len(activities) == 2
        self.records = []

    def __enter__(self):
        from cupti import cupti  # pylint: disable=import-outside-toplevel
        self.cupti = cupti
        if not _Profiler.was_used:
            _Profiler.was_used = True
            with contextlib.suppress(cupti.cuptiError):
                cupti.subscribe(lambda *_: None, None)
                _Profiler.has_slot = True
        if _Profiler.has_slot:
            cupti.activity_register_callbacks(lambda: (PROFILED_BYTES, 0), self.records.extend)
            cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)
        return self

    def __exit__(self, *_):
        if _Profiler.has_slot:
            self.cupti.activity_flush_all(1)
            self.cupti.activity_disable(self.cupti.ActivityKind.CONCURRENT_KERNEL)

    def events(self):
        return [types.SimpleNamespace(device_type=autograd.DeviceType.CUDA) for _ in self.records]


autograd = _module('autograd', DeviceType=types.SimpleNamespace(CPU=0, CUDA=1))
profiler = _module('profiler', profile=_Profiler,
                   ProfilerActivity=types.SimpleNamespace(CPU=0, CUDA=1))
nn = _module('nn', Sequential=_Layers, Linear=lambda a, b: (a, b), ReLU=lambda: 'relu')
optim = _module('optim', SGD=_SGD)
utils = _module('utils', data=_module('utils.data', Dataset=object, DataLoader=_Loader))
cuda = _module('cuda', is_available=_is_available, synchronize=_synchronize, Stream=_Stream,
               current_stream=lambda: types.SimpleNamespace(
                   handle=_driver.streams[-1],
                   wait_stream=lambda other: _driver('cuStreamSynchronize', other.handle)),
               stream=_stream, CUDAGraph=_Graph, graph=_graph,
               nvtx=types.SimpleNamespace(range=nvtx_package.annotate))
