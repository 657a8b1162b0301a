"""Each seeded fault raises its own reading and no other; the healthy loop raises none."""
import json
import os

import harness
from harness import AgentTest, app

SEEDED = app('seeded')
# What is measured beside the fault would be readings too: too few steps for those rules to speak.
SCHEDULE = 'skip_first=2,warmup=1,active=5,repeat=1'
READINGS = {
    'healthy': [],
    'loader': ['device_idle_in_range'],
    'constant': ['same_copy_each_step'],
    'tiny': ['many_small_launches'],
    'long': ['one_kernel_dominates'],
    'sync': ['waits_drain_the_queue'],
    'alloc': ['allocation_calls_in_steps'],
    'border': ['device_idle_at_step_borders'],
    'streams': ['streams_without_overlap'],
    'name': ['private_looking_names'],
    'unsteady': ['steps_not_steady'],
}


class Readings(AgentTest):
    def trace(self, fault, wanted, steps=9, schedule=SCHEDULE):
        """A machine that held the program up for longer than its queue lasts is a true reading too,
        so a workload gets three tries; a rule that is wrong fails all of them."""
        for attempt in range(3):
            out = os.path.join(self.scratch, '%s-%d' % (fault, attempt))
            env = harness.agent_environment(out, schedule=schedule, step='nvtx:train_step',
                                            activities='+memory')
            self.run_app([SEEDED, '--fault', fault, '--steps', str(steps)], env)
            cycle, = self.traced(1, out)
            if [r['id'] for r in cycle.summary['readings']] == wanted:
                break
        return cycle

    def check(self, cycle, wanted):
        summary = cycle.summary
        found = summary['readings']
        self.assertEqual([r['id'] for r in found], wanted, json.dumps(found, indent=1))
        self.assertEqual([r['rank'] for r in found], list(range(1, len(found) + 1)))
        for reading in found:
            for key in ('observation', 'hypothesis', 'next_check'):
                self.assertTrue(reading[key].endswith('.'), reading)
            self.check_evidence(reading['evidence'], summary)
        return found

    def check_evidence(self, evidence, summary):
        """Numbers, and a place in the trace that is there: step, time and row."""
        self.assertTrue(evidence['text'])
        where = evidence['where']
        if where is None:
            return
        self.assertIn(where['step'], [None] + [s['index'] for s in summary['steps']['each']])
        self.assertLessEqual(where['begin_ns'], where['end_ns'])
        self.assertGreaterEqual(where['end_ns'], summary['window']['begin_ns'])
        self.assertTrue(where['row'])

    def test_nothing_stands_out_is_said(self):
        cycle = self.trace('healthy', [])
        self.check(cycle, [])
        with open(os.path.join(cycle.folder, 'summary.txt'), encoding='utf-8') as text:
            self.assertIn('nothing stands out', text.read())

    def test_pageable_batch(self):
        # The same copy is also one that every step repeats: both are true of it.
        # A CUPTI of the future says memory kinds that have no name yet: none of them is pageable.
        wanted = ['pageable_copies', 'same_copy_each_step'][harness.PERSONALITY == 'future':]
        self.check(self.trace('pageable', wanted), wanted)

    def test_drift(self):
        cycle = self.trace('drift', ['step_times_drift'], steps=14,
                           schedule='skip_first=2,warmup=1,active=10,repeat=1')
        found = self.check(cycle, ['step_times_drift'])
        self.assertGreater(found[0]['evidence']['last_third_ns'],
                           found[0]['evidence']['first_third_ns'])

    def test_allocations_are_not_looked_at_without_memory(self):
        env = self.environment(schedule=SCHEDULE, step='nvtx:train_step')
        self.run_app([SEEDED, '--fault', 'alloc', '--steps', '9'], env)
        summary = self.traced(1)[0].summary
        self.assertNotIn('allocation_calls_in_steps', [r['id'] for r in summary['readings']])
        self.assertIn('allocation_calls_in_steps',
                      [r['id'] for r in summary['readings_without_input']])


def add(fault, wanted):
    def test(self):
        found = self.check(self.trace(fault, wanted), wanted)
        if fault == 'loader':
            self.assertIn('`load_batch`', found[0]['observation'])
        if fault == 'name':  # the name itself is not repeated
            self.assertNotIn('jane', json.dumps(found))
    setattr(Readings, 'test_%s_raises_its_own_and_no_other' % fault, test)


for _fault, _wanted in READINGS.items():
    if _fault != 'healthy':
        add(_fault, _wanted)

if __name__ == '__main__':
    harness.main()
