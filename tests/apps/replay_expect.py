#!/usr/bin/env python3
"""What a Kineto recording holds for given steps, as JSON: what a trace of its replay must hold.

Work belongs to the step in whose range [begin, end) it was launched; device work follows its launch
by correlation id, whenever it ran. Steps are the ProfilerStep#N annotations.

    replay_expect.py FILE [--steps 102,103 | --index 2,3] [--durations]

--steps takes recorded numbers, --index counts the recorded steps from 0. Per step:
    calls        {name: count}, every recorded call, without _v3020 and the like
    kernels      {stream: {name: count}}
    copies, copy_bytes   {direction: count or bytes}, direction HtoD, DtoH, DtoD, ...
    sets, set_bytes
    unrecorded   {name: count}, calls of a launch, copy or set without device work in the recording
    durations    with --durations: {name: [ns, ...]} of kernels in launch order
"""
import argparse
import bisect
import collections
import gzip
import json
import re
import sys

CALLS = {"cuda_runtime", "cuda_driver", "Runtime"}
KERNELS = {"kernel", "Kernel"}
COPIES = {"gpu_memcpy", "Memcpy"}
SETS = {"gpu_memset", "Memset"}
STEP = re.compile(r"ProfilerStep#(\d+)$")
VERSION = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")
ENQUEUES = re.compile(r"cu(da)?(Launch|Memcpy|Memset|GraphLaunch)")


class Micros(str):
    """A number of microseconds as it stands in the file; a double would round Unix times."""

    def ns(self):
        whole, _, fraction = self.partition(".")
        if "e" in self.lower():
            return round(float(self) * 1000)
        value = int((fraction + "000")[:3])
        return int(whole) * 1000 + (-value if whole.startswith("-") else value)


def ns(value):
    return value.ns() if isinstance(value, Micros) else value * 1000


def load(path):
    with open(path, "rb") as file:
        opener = gzip.open if file.read(2) == b"\x1f\x8b" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return json.load(file, parse_float=Micros)["traceEvents"]


def find_steps(events):
    steps = []
    for event in events:
        match = STEP.match(str(event.get("name", "")))
        if event.get("ph") == "X" and event.get("cat") == "user_annotation" and match:
            begin = ns(event["ts"])
            steps.append((begin, begin + ns(event["dur"]), int(match.group(1))))
    return sorted(steps)


def step_of(steps, begin):
    place = bisect.bisect_right(steps, begin, key=lambda step: step[0]) - 1
    return steps[place][2] if place >= 0 and begin < steps[place][1] else None


def empty():
    count = lambda: collections.defaultdict(int)
    return {"calls": count(), "kernels": collections.defaultdict(count), "copies": count(),
            "copy_bytes": count(), "sets": 0, "set_bytes": 0, "unrecorded": count(),
            "durations": collections.defaultdict(list)}


def add_work(step, event):
    args = event["args"]
    if event["cat"] in KERNELS:
        step["kernels"][str(args["stream"])][event["name"]] += 1
        step["durations"][event["name"]].append(ns(event["dur"]))
    elif event["cat"] in COPIES:
        direction = event["name"].split()[1]
        step["copies"][direction] += 1
        step["copy_bytes"][direction] += int(args["bytes"])
    else:
        step["sets"] += 1
        step["set_bytes"] += int(args["bytes"])


def collect(events, steps):
    work = collections.defaultdict(list)
    calls = []
    for event in events:
        if event.get("ph") != "X":
            continue
        if event.get("cat") in CALLS:
            calls.append(event)
        elif event.get("cat") in KERNELS | COPIES | SETS:
            work[event["args"]["correlation"]].append(event)
    result = collections.OrderedDict((step[2], empty()) for step in steps)
    for call in sorted(calls, key=lambda event: ns(event["ts"])):
        number = step_of(steps, ns(call["ts"]))
        if number is None:
            continue
        step = result[number]
        name = VERSION.sub("", call["name"])
        step["calls"][name] += 1
        items = work.get(call.get("args", {}).get("correlation"), [])
        for item in items:
            add_work(step, item)
        if not items and ENQUEUES.match(name):
            step["unrecorded"][name] += 1
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--steps", help="recorded step numbers, comma separated")
    parser.add_argument("--index", help="places among the recorded steps from 0, comma separated")
    parser.add_argument("--durations", action="store_true", help="kernel durations too")
    options = parser.parse_args()
    events = load(options.file)
    steps = find_steps(events)
    result = collect(events, steps)
    wanted = [step[2] for step in steps]
    if options.index:
        wanted = [wanted[int(i)] for i in options.index.split(",")]
    if options.steps:
        wanted = [int(number) for number in options.steps.split(",")]
    missing = [number for number in wanted if number not in result]
    if missing:
        sys.exit(f"replay_expect: no step {missing[0]} in {options.file}")
    for step in result.values():
        if not options.durations:
            del step["durations"]
    json.dump({"file": options.file, "steps": [{"step": n, **result[n]} for n in wanted]},
              sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
