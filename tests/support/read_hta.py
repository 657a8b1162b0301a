#!/usr/bin/env python3
"""What Holistic Trace Analysis finds in a folder of traces, as JSON. read_hta.py FOLDER"""
import json
import logging
import sys
import warnings

logging.disable(logging.CRITICAL)
warnings.filterwarnings('ignore')
from hta.trace_analysis import TraceAnalysis  # noqa: E402  pylint: disable=wrong-import-position

analysis = TraceAnalysis(trace_dir=sys.argv[1])
traces = analysis.t.traces
breakdown = analysis.get_temporal_breakdown(visualize=False)
kernels, _ = analysis.get_gpu_kernel_breakdown(visualize=False)[:2]
print(json.dumps({
    'ranks': sorted(int(rank) for rank in traces),
    'gpu_rows': {int(rank): int((frame['stream'] >= 0).sum()) for rank, frame in traces.items()},
    'breakdown': json.loads(breakdown.to_json(orient='records')),
    'kernel_classes': json.loads(kernels.to_json(orient='records')),
}))
