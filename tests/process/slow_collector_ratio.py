"""The application's step time beside a collector a hundred times slower and beside a free one.

Prints the ratio of each pair of runs and their median; what a machine's noise is worth can be seen from
the ratios themselves, so nothing is asserted of them. `--pairs N` (5).
"""
import argparse
import os
import shutil
import statistics
import subprocess
import tempfile

import harness
import slow_collector

SLOWNESS = 100
STEPS = 600


def median_step_ns(slowness):
    """Of one run that records nearly all of its steps."""
    scratch = tempfile.mkdtemp(prefix='stepagent-test-')
    slowed = slow_collector.SlowCollectors(scratch, slowness) if slowness else None
    try:
        out = os.path.join(scratch, 'out')
        env = harness.agent_environment(out, sim=False, step='nvtx:train_step', exit_wait='120s',
                                        schedule='warmup=1,active=%d,repeat=1' % (STEPS - 10))
        subprocess.run([harness.app('train_loop'), '--host-only', '--steps', str(STEPS), '--sleep-us',
                        '500'], env=env, stdout=subprocess.DEVNULL, check=True)
        harness.wait_written(out, 120)
        cycle, = harness.cycles(out)
        harness.check_balance(cycle)
        return statistics.median(s['end_ns'] - s['begin_ns'] for s in cycle.manifest['steps'])
    finally:
        if slowed:
            slowed.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--pairs', type=int, default=5)
    ratios = []
    for number in range(parser.parse_args().pairs):
        # Slow and free take turns in coming first.
        order = (SLOWNESS, 0) if number % 2 else (0, SLOWNESS)
        took = {slowness: median_step_ns(slowness) for slowness in order}
        ratios.append(took[SLOWNESS] / took[0])
        print('slow %.0f ns, free %.0f ns, ratio %.4f' % (took[SLOWNESS], took[0], ratios[-1]))
    print('step time with a collector %d times slower: %.4f of that with a free one (median of %d pairs, '
          '%.4f to %.4f)' % (SLOWNESS, statistics.median(ratios), len(ratios), min(ratios), max(ratios)))


if __name__ == '__main__':
    main()
