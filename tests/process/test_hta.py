"""On recorded files the report's figures are those of Holistic Trace Analysis."""
import os
import unittest

import harness
from harness import AgentTest

READERS = os.path.join(harness.BUILD, 'readers', 'bin', 'python')
RECORDED = os.environ.get('STEPAGENT_RECORDED') or os.path.join(harness.SHARED, 'data', 'recorded')
SCRIPT = os.path.join(harness.SOURCE, 'tests', 'support', 'hta_equality.py')
FILES = ['resnet_1gpu_5steps.json.gz', 'recsys_128gpu_2steps.json.gz']


@unittest.skipUnless(os.path.exists(READERS), 'Holistic Trace Analysis is not installed')
class HolisticTraceAnalysis(AgentTest):
    def test_recorded_files_give_equal_figures(self):
        paths = [os.path.join(RECORDED, name) for name in FILES]
        for path in paths:
            if not os.path.exists(path):
                self.skipTest('the recording %s is not there' % path)
        self.run_app([READERS, SCRIPT, harness.STEPAGENT, *paths],
                     dict(harness.clean_environment(), PYTHONPATH=''), timeout=harness.PATIENCE * 10)


if __name__ == '__main__':
    harness.main()
