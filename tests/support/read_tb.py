#!/usr/bin/env python3
"""What TensorBoard's plugin for PyTorch traces finds in a file, as JSON. read_tb.py FILE"""
import json
import logging
import sys
import tempfile

warnings = []


class Keep(logging.Handler):
    def emit(self, record):
        warnings.append(record.getMessage())


logging.getLogger('pytorch_profiler').addHandler(Keep(logging.WARNING))
from torch_tb_profiler import consts  # noqa: E402
from torch_tb_profiler.profiler.data import RunProfileData  # noqa: E402
from torch_tb_profiler.run import RunProfile  # noqa: E402,F401

name = sys.argv[1].rsplit('/', 1)[-1]
with tempfile.TemporaryDirectory() as cache:
    found = RunProfileData.parse('worker', '1', sys.argv[1], cache)
kernels = {} if found.kernel_stat is None else {
    str(kernel): [int(row['count']), round(float(row['sum']) * 1000)]
    for kernel, row in found.kernel_stat.iterrows()}
print(json.dumps({
    'is_named_right': consts.WORKER_PATTERN.match(name) is not None,
    'steps': list(found.steps_names), 'has_runtime': found.has_runtime,
    'has_kernel': found.has_kernel, 'has_copies': found.has_memcpy_or_memset,
    'kernels': kernels, 'warnings': warnings}))
