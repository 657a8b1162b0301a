#!/usr/bin/env python3
"""Perfetto files by the official schema of the package `perfetto`, as JSON. read_perfetto.py FILE…

For each file: packets, render stages, slices begun, launches with a stack, and every field, at any
depth, that the schema does not know or whose number the schema gives another wire type.
"""
import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def unknown(message, path, found):
    for field in UnknownFieldSet(message):
        found.add(f'{path}.{field.field_number}')
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        below = f'{path}.{field.name}'
        for one in value if field.is_repeated else [value]:
            unknown(one, below, found)


def read(path):
    with open(path, 'rb') as file:
        trace = schema.Trace.FromString(file.read())
    found = set()
    unknown(trace, 'Trace', found)
    events = [p.track_event for p in trace.packet if p.HasField('track_event')]
    begun = [e for e in events if e.type == schema.TrackEvent.TYPE_SLICE_BEGIN]
    return {'packets': len(trace.packet), 'unknown': sorted(found), 'slices': len(begun),
            'stages': sum(p.HasField('gpu_render_stage_event') for p in trace.packet),
            'stacks': sum(e.HasField('callstack_iid') for e in begun)}


print(json.dumps({path: read(path) for path in sys.argv[1:]}))
