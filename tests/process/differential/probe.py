"""A Python program that runs steps through a plain C library, and shows what it sees of itself."""
import ctypes
import multiprocessing
import os
import subprocess
import sys
import time

STEPS = 5
LONG = 0.35


def step_function():
    build = os.environ.get('PROBE_APPS') or os.path.join(os.environ['STEPAGENT_BUILD_DIR'], 'apps')
    return ctypes.CDLL(os.path.join(build, 'librange_plugin.so')).PluginStep


def steps(count=STEPS, pause=0.0):
    function = step_function()
    for _ in range(count):
        function()
        time.sleep(pause)


def worker(number, queue):
    steps(100, LONG / 100)  # leaves by os._exit: has to outlive the flush interval
    queue.put((number, len(os.listdir('/proc/self/fd')) > 0))


def workers(method):
    context = multiprocessing.get_context(method)
    steps()
    queue = context.Queue()
    started = [context.Process(target=worker, args=(n, queue)) for n in range(2)]
    for process in started:
        process.start()
    print(sorted(queue.get(timeout=60) for _ in started))
    for process in started:
        process.join(60)
    print([process.exitcode for process in started])
    steps()


def has_children():
    try:
        os.waitpid(-1, os.WNOHANG)
        return True
    except ChildProcessError:
        return False


def state():
    steps()
    with open('/proc/self/status', encoding='ascii') as status:
        for line in status:
            if line.startswith(('SigBlk', 'SigIgn', 'ShdPnd', 'SigPnd', 'Umask', 'Groups', 'Uid')):
                print(line.strip())
    print(sorted(os.listdir('/proc/self/fd')), has_children(), os.getcwd() != '/')
    print([int(n) for n in os.getenv('LINES', '0').split()], os.nice(0), os.getsid(0) > 0)
    with open('/proc/self/comm', encoding='ascii') as comm:
        print(comm.read().strip())
    with open('/proc/self/oom_score_adj', encoding='ascii') as score:
        print(score.read().strip())


def subprocesses():
    steps()
    print(subprocess.run(['/bin/sh', '-c', 'ls /proc/self/fd; exit 5'], capture_output=True,
                         text=True, check=False))
    print(subprocess.run(['/bin/cat'], input='text', capture_output=True, text=True, check=False))
    with os.popen('echo popen') as pipe:
        print(os.system('exit 3'), pipe.read())
    print(has_children())


def fresh():
    """NVTX first used in a forked child; the parent never does."""
    child = os.fork()
    if child == 0:
        steps(100, LONG / 100)
        os._exit(0)
    print(os.waitpid(child, 0)[1])


def loader(count):
    """A data loader: forked workers that only use ranges of other names."""
    steps()
    build = os.environ['PROBE_APPS']
    other = ctypes.CDLL(os.path.join(build, 'librange_plugin.so'))
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            getattr(other, 'PluginMark', lambda: None)()
            os._exit(0)
        children.append(child)
    print([os.waitpid(child, 0)[1] for child in children])
    steps()


def main():
    sys.stdout.reconfigure(line_buffering=True)
    what = sys.argv[1]
    if what == 'workers':
        workers(sys.argv[2])
    elif what == 'state':
        state()
    elif what == 'subprocess':
        subprocesses()
    elif what == 'fresh':
        fresh()
    elif what == 'loader':
        loader(int(sys.argv[2]))
    else:
        steps(100, LONG / 100)
        print('leaving')
        os._exit(3)


if __name__ == '__main__':
    main()
