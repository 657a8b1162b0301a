"""A small PyTorch training loop with NVTX ranges; status 77 without torch or a device.

The last line is a JSON object: what torch.profiler saw, where it was asked to run.
"""
import argparse
import json
import sys
import time

try:
    import torch
    import torch.profiler
    import torch.utils.data  # not every release's `import torch` brings it
except ImportError:
    print('torch is not installed')
    sys.exit(77)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        return torch.full((256,), float(index % 7))


def batches(options):
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=32, num_workers=options.workers,
                                         multiprocessing_context='fork' if options.workers else None)
    while True:
        yield from loader


def train_step(model, optimizer, data):
    with torch.cuda.nvtx.range('forward'):
        loss = model(data).square().mean()
    with torch.cuda.nvtx.range('backward'):
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
    with torch.cuda.nvtx.range('optimizer'):
        optimizer.step()


def captured(model, optimizer, data):
    """The whole step as one CUDA graph over `data`, warmed up on a side stream as torch asks for."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            train_step(model, optimizer, data)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train_step(model, optimizer, data)
    return graph


def kernels_of(profiler):
    """Device events that the profiler saw."""
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in profiler.events())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=14)
    parser.add_argument('--step-ms', type=float, default=0)
    parser.add_argument('--graph', action='store_true')
    parser.add_argument('--workers', type=int, default=0)
    parser.add_argument('--profile-at', type=int, default=-1)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print('torch has no device here')
        return 77
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(),
                                torch.nn.Linear(512, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    static = torch.zeros(32, 256, device='cuda')
    graph = captured(model, optimizer, static) if options.graph else None
    source = batches(options)
    profiler_kernels = None
    for step in range(options.steps):
        with torch.cuda.nvtx.range('train_step'):
            static.copy_(next(source))
            run = graph.replay if graph else lambda: train_step(model, optimizer, static)
            if step == options.profile_at:
                activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
                with torch.profiler.profile(activities=activities) as profiler:
                    run()
                    torch.cuda.synchronize()
                profiler_kernels = kernels_of(profiler)
            else:
                run()
            torch.cuda.synchronize()
            time.sleep(options.step_ms / 1e3)
    print(json.dumps({'steps': options.steps, 'profiler_kernels': profiler_kernels}))
    return 0


if __name__ == '__main__':
    sys.exit(main())
