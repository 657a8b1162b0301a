"""An ordinary PyTorch training script: DDP over gloo, a DataLoader with two workers, NVTX ranges.

    torchrun --nproc-per-node 4 torch_ranks.py       --spawn N: torch.multiprocessing starts the ranks
    --device: each step also copies to a device, through the driver library (no kernels of torch's)
"""
import argparse
import ctypes
import os
import sys

import torch
import torch.distributed
import torch.multiprocessing
from torch.cuda import nvtx
from torch.utils.data import DataLoader, Dataset

BATCH, WIDTH = 4, 8


class Examples(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        with nvtx.range('fetch'):  # in a worker process, which uses NVTX but never the step
            return torch.full((WIDTH,), float(index % 7))


class Device:
    """Memory of a CUDA device, through the driver library alone."""

    def __init__(self):
        self.driver = ctypes.CDLL('libcuda.so.1')
        device, context, self.memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        self.call('cuInit', 0)
        self.call('cuDeviceGet', ctypes.byref(device), 0)
        self.call('cuDevicePrimaryCtxRetain', ctypes.byref(context), device)
        self.call('cuCtxSetCurrent', context)
        self.call('cuMemAlloc_v2', ctypes.byref(self.memory), ctypes.c_size_t(4096))

    def call(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result != 0:
            sys.exit('%s: %d' % (name, result))

    def upload(self, tensor):
        self.call('cuMemcpyHtoD_v2', self.memory, ctypes.c_void_p(tensor.data_ptr()),
                  ctypes.c_size_t(tensor.nbytes))


def train(options):
    device = Device() if options.device else None
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loader = DataLoader(Examples(options.steps * BATCH), batch_size=BATCH, num_workers=2)
    for batch in loader:
        nvtx.range_push('train_step')
        if device:
            device.upload(batch)
        with nvtx.range('forward'):
            loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        nvtx.range_pop()
    total = torch.tensor([float(torch.distributed.get_rank())])
    torch.distributed.all_reduce(total)
    torch.distributed.destroy_process_group()
    return total.item()


def spawned(rank, options):
    torch.distributed.init_process_group('gloo', rank=rank, world_size=options.spawn,
                                         init_method='file://' + options.store)
    train(options)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=8)
    parser.add_argument('--device', action='store_true')
    parser.add_argument('--spawn', type=int, default=0)
    parser.add_argument('--store', default='')
    parser.add_argument('--exit', type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.spawn:
        torch.multiprocessing.spawn(spawned, (options,), nprocs=options.spawn)
        return options.exit
    torch.distributed.init_process_group('gloo')
    rank, total = torch.distributed.get_rank(), train(options)
    if rank == 0:
        print('sum of ranks %d' % total, 'pid of launcher %d' % os.getppid())
    return options.exit


if __name__ == '__main__':
    sys.exit(main())
