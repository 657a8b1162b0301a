#!/usr/bin/env python3
"""The layering rule: who may include whom. check_layers.py SOURCE_ROOT

Arrows point down only: injection, agent -> drain -> cupti, nvtx, unwind, trigger -> guard, proto ->
core. `collector` never includes `agent`, `agent` never `collector`, `tests/sim` neither. Vendor
headers stay in the folder that is made for them.
"""
import os
import re
import sys

# A folder of agent/ -> the folders of agent/ it may include.
ALLOWED = {
    'core': {'core'},
    'guard': {'guard', 'core'},
    'cupti': {'cupti', 'guard', 'core', 'unwind'},
    'nvtx': {'nvtx', 'guard', 'core'},
    'unwind': {'unwind', 'guard', 'core'},
    'trigger': {'trigger', 'guard', 'core'},
    'drain': {'drain', 'cupti', 'nvtx', 'unwind', 'trigger', 'guard', 'core'},
    'stub': {'stub'},
    '': {'', 'stub', 'drain', 'cupti', 'nvtx', 'unwind', 'trigger', 'guard', 'core'},
}
VENDOR = [
    (re.compile(r'^(cuda|cupti|cuda_\w+|cupti_\w+|generated_\w+)\.h$'), ('agent/cupti', 'tests/')),
    (re.compile(r'^(nvtx3/|nvToolsExt)'), ('agent/nvtx', 'tests/')),
    (re.compile(r'^libunwind'), ('agent/unwind', 'tests/')),
    # A batch's head is read without making its records: collector/model/batch_head.h.
    (re.compile(r'^protozero/'), ('agent/drain', 'collector/model/batch_head.cc', 'tests/')),
    (re.compile(r'^(google/protobuf/|\w+\.pb\.h$)'), ('collector/', 'tests/')),
    (re.compile(r'^sys/socket\.h$|^sys/un\.h$'),
     ('agent/drain/io', 'proto/', 'collector/', 'tests/')),
    (re.compile(r'^(asio|spdlog/|fmt/|CLI/|nlohmann/|sqlite3\.h|simdjson)'), ('collector/', 'tests/')),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def sources(root):
    for top in ('agent', 'proto', 'collector', 'tests'):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith(('.h', '.cc', '.c', '.cpp', '.hpp')):
                    yield os.path.relpath(os.path.join(folder, name), root)


def agent_folder(path):
    parts = path.split('/')
    return parts[1] if len(parts) > 2 else ''


def problems_of(path, included):
    top = path.split('/')[0]
    target = included.split('/')[0]
    if top == 'agent' and target == 'collector' or top == 'collector' and target == 'agent':
        yield 'agent and collector never include each other'
    if top == 'proto' and target in ('agent', 'collector', 'tests'):
        yield 'proto is the ground: it includes nothing of ours'
    if path.startswith('tests/sim/') and target in ('agent', 'collector'):
        yield 'the simulator includes neither agent nor collector'
    if top == 'agent' and target == 'agent':
        here, there = agent_folder(path), agent_folder(included)
        if there not in ALLOWED.get(here, set()):
            yield f'agent/{here} may not include agent/{there}'
    if top == 'agent' and target == 'proto' and agent_folder(path) == 'core':
        if included not in ('proto/limits.h',):
            yield 'core is standard library only'
    for pattern, places in VENDOR:
        if pattern.search(included) and not path.startswith(places):
            yield f'only {places[0]} includes {included}'


def main():
    root = sys.argv[1]
    bad = count = 0
    for path in sources(root):
        count += 1
        with open(os.path.join(root, path), encoding='utf-8', errors='replace') as source:
            for number, line in enumerate(source, 1):
                found = INCLUDE.match(line)
                if not found:
                    continue
                for problem in problems_of(path, found.group(1)):
                    bad += 1
                    print(f'{path}:{number}: {problem}')
    print(f'{count} files, {bad} arrows that point up')
    return 1 if bad or count == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
