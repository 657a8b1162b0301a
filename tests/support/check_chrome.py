#!/usr/bin/env python3
"""Strict checker for Chrome traces in Kineto's shape.

    check_chrome.py FILE... [--steps 4,5] [--allow-orphans] [--manifest manifest.json]

Prints every problem found (the first 20 of a file) and exits 1, or one line a file and exits 0.
Each rule is something that a real consumer trips over; the reason stands beside the check.
Importable: check(path, ...) returns a list of strings.
"""
import argparse
import collections
import gzip
import json
import re
import sys
from decimal import Decimal

BASE_UNIT_NS = 7889238 * 10**9
WORK = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_graph"}
DEVICE = WORK | {"cuda_sync", "gpu_user_annotation"}
CALLS = {"cuda_runtime", "cuda_driver"}
HOST = CALLS | {"user_annotation"}
KNOWN = DEVICE | HOST | {"overhead"}
STEP = re.compile(r"ProfilerStep#(\d+)$")
MAX_ID = 2**31


def read_text(path):
    with open(path, "rb") as file:
        raw = file.read()
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")


def strict_json(text):
    def pairs(items):
        keys = [k for k, _ in items]
        if len(set(keys)) != len(keys):
            raise ValueError(f"duplicate key in {keys}")
        return dict(items)

    def constant(name):
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=Decimal)


class Checker:
    def __init__(self, path, allow_orphans=False):
        self.path = path
        self.allow_orphans = allow_orphans
        self.problems = []
        self.text = read_text(path)
        self.doc = strict_json(self.text)
        self.events = self.doc["traceEvents"]
        self.rows = [e for e in self.events if e.get("ph") == "X"]

    def bad(self, text):
        self.problems.append(text)

    def run(self):
        self.header()
        for event in self.events:
            self.event(event)
        self.metadata()
        self.joins()
        self.nesting()
        self.flows()
        self.steps()
        self.annotations()
        return self.problems

    def header(self):
        doc, keys = self.doc, list(self.doc)
        if "rank" in doc.get("distributedInfo", {}):
            # HTA reads line by line and takes the first match.
            match = re.search(r'"rank":\s+(\d+)', self.text[:4096])
            if not match or int(match.group(1)) != doc["distributedInfo"]["rank"]:
                self.bad('no `"rank": N` within the first 4 KB')
            if "\n" not in self.text[max(0, match.start() - 6):match.start()] if match else True:
                self.bad("the rank is not on a line of its own")
            if keys.index("distributedInfo") > keys.index("deviceProperties"):
                self.bad("distributedInfo stands after deviceProperties")
        for key in ("schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds"):
            if key not in doc:
                self.bad(f"no {key}")
            elif keys.index(key) > keys.index("traceEvents"):
                self.bad(f"{key} stands after traceEvents")  # HTA's metadata reader stops there
        if doc.get("displayTimeUnit") not in ("ms", "ns"):
            self.bad("displayTimeUnit")
        base = doc.get("baseTimeNanoseconds")
        if not isinstance(base, int) or base % BASE_UNIT_NS:
            self.bad(f"base {base} is no multiple of three months")  # ranks would not line up
        # HTA's ijson reader knows maps of scalars and arrays of maps.
        for key, value in doc.items():
            if isinstance(value, dict) and any(isinstance(v, (dict, list)) for v in value.values()):
                self.bad(f"{key} is nested")

    def micros(self, event, key):
        value = event.get(key)
        if not isinstance(value, Decimal) or value.as_tuple().exponent != -3:
            self.bad(f"{key} {value} has not three decimals: {event.get('name')!r}")
            return Decimal(0)
        if value < 0:
            self.bad(f"{key} {value} is negative: {event.get('name')!r}")
        return value

    def event(self, event):
        ph = event.get("ph")
        if ph not in ("X", "M", "i", "s", "f"):
            return self.bad(f"phase {ph}")
        pid, tid = event.get("pid"), event.get("tid")
        if not isinstance(pid, int) or pid >= MAX_ID or pid < (-1 if ph == "M" or
                                                               event.get("cat") == "overhead" else 0):
            self.bad(f"pid {pid} in {event}")
        if ph != "M" or "tid" in event:
            if not isinstance(tid, int) or not 0 <= tid < MAX_ID:
                self.bad(f"tid {tid} in {event}")
        if ph == "M":
            if "ts" in event or "dur" in event:
                self.bad(f"metadata with a time: {event}")
            return None
        self.micros(event, "ts")
        if ph == "X":
            self.row(event)
        if ph == "i" and event.get("s") not in ("t", "p", "g"):
            self.bad(f"instant without scope: {event}")
        return None

    def row(self, event):
        self.micros(event, "dur")
        cat, args = event.get("cat"), event.get("args")
        if cat not in KNOWN or not isinstance(event.get("name"), str) or not isinstance(args, dict):
            return self.bad(f"row without cat, name or args: {event}")
        if cat in WORK or cat == "cuda_sync":
            for key in ("device", "stream", "correlation", "context"):
                if not isinstance(args.get(key), int):
                    self.bad(f"{cat} without {key}: {event}")
            if args.get("device") != event["pid"]:
                self.bad(f"pid is not the device: {event}")  # torch-tb-profiler warns for each row
        elif "stream" in args:
            self.bad(f"{cat} row carries stream: {event}")  # HTA would take it for device work
        if cat in CALLS and not isinstance(args.get("correlation"), int):
            self.bad(f"call without correlation: {event}")
        if cat == "kernel" and not (len(args.get("grid", [])) == len(args.get("block", [])) == 3):
            self.bad(f"kernel without grid and block: {event}")
        if cat in ("gpu_memcpy", "gpu_memset") and not isinstance(args.get("bytes"), int):
            self.bad(f"{cat} without bytes: {event}")
        return None

    def metadata(self):
        seen_event = False
        names, labels, threads = set(), set(), set()
        for event in self.events:
            if event.get("ph") != "M":
                seen_event = True
                continue
            if seen_event:
                self.bad(f"metadata after the first event: {event}")
            if event["name"] == "process_name":
                names.add(event["pid"])
            if event["name"] == "process_labels":
                labels.add(event["pid"])
            if event["name"] == "thread_name":
                threads.add((event["pid"], event["tid"]))
        for event in self.events:
            if event.get("ph") == "M":
                continue
            if event["pid"] not in names or (event["pid"] >= 0 and event["pid"] not in labels):
                self.bad(f"pid {event['pid']} has no name or no label")
                break
            if (event["pid"], event["tid"]) not in threads:
                self.bad(f"row {event['pid']}/{event['tid']} has no name")
                break

    def joins(self):
        calls = collections.Counter(e["args"]["correlation"] for e in self.rows if e["cat"] in CALLS)
        for correlation, count in calls.items():
            if count > 1:
                self.bad(f"correlation {correlation} has {count} call rows")  # Chakra raises
        if self.allow_orphans:
            return
        for event in self.rows:
            if event["cat"] in WORK and calls[event["args"]["correlation"]] != 1:
                self.bad(f"device row without its call row: {event}")  # HTA drops it

    def nesting(self):
        rows = collections.defaultdict(list)
        for event in self.rows:
            rows[event["pid"], event["tid"]].append(event)
        for place, events in rows.items():
            last_begin, stack, work_end = None, [], None
            for event in events:
                begin, end = event["ts"], event["ts"] + event["dur"]
                if last_begin is not None and begin < last_begin:
                    self.bad(f"row {place} is not in time order at {begin}")
                last_begin = begin
                while stack and stack[-1] <= begin:
                    stack.pop()
                if stack and end > stack[-1]:
                    self.bad(f"row {place}: {event['name']!r} at {begin} overlaps partly")
                stack.append(end)
                if event["cat"] in WORK:
                    if work_end is not None and begin < work_end:
                        self.bad(f"row {place}: device work overlaps at {begin}")
                    work_end = end

    def flows(self):
        starts, ends = {}, {}
        for event in self.events:
            if event.get("ph") not in ("s", "f"):
                continue
            if event.get("cat") != "ac2g" or event.get("name") != "ac2g":
                self.bad(f"flow of another kind: {event}")
            side = starts if event["ph"] == "s" else ends
            if event["id"] in side:
                self.bad(f"flow id {event['id']} is used twice")
            side[event["id"]] = event
        if set(starts) != set(ends):
            self.bad(f"flows with one end: {sorted(set(starts) ^ set(ends))[:5]}")
        begins = collections.Counter((e["pid"], e["tid"], e["ts"]) for e in self.rows
                                     if e["cat"] in CALLS)
        work = collections.defaultdict(list)
        for event in self.rows:
            if event["cat"] in WORK:
                work[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        for flow in starts.values():
            if not begins[flow["pid"], flow["tid"], flow["ts"]]:
                self.bad(f"flow starts on no call: {flow}")
        for number, flow in ends.items():
            if flow.get("bp") != "e":
                self.bad(f"flow end without bp e: {flow}")
            if number in starts and flow["ts"] < starts[number]["ts"]:
                self.bad(f"flow {number} points back in time")
            if not any(b <= flow["ts"] <= e for b, e in work[flow["pid"], flow["tid"]]):
                self.bad(f"flow ends on no device row: {flow}")

    def steps(self):
        steps = sorted((int(m.group(1)), e) for e in self.rows
                       if (m := STEP.match(e["name"])) and e["cat"] == "user_annotation")
        for (_, a), (n, b) in zip(steps, steps[1:]):
            if b["ts"] < a["ts"] + a["dur"]:
                self.bad(f"step {n} begins before the one before it ends")
        if len({n for n, _ in steps}) != len(steps):
            self.bad("a step number appears twice")
        for event in self.rows:
            if event["cat"] == "gpu_user_annotation" and STEP.match(event["name"]):
                self.bad("gpu_user_annotation of a step")  # torch-tb-profiler counts it again
        self.step_numbers = [n for n, _ in steps]

    def annotations(self):
        begins, ends = collections.defaultdict(set), collections.defaultdict(set)
        stream_of = {}
        for event in self.rows:
            if event["cat"] in WORK:
                key = (event["pid"], event["args"]["stream"])
                stream_of[event["pid"], event["tid"]] = key
                begins[key].add(event["ts"])
                ends[key].add(event["ts"] + event["dur"])
        for event in self.rows:
            if event["cat"] != "gpu_user_annotation":
                continue
            key = stream_of.get((event["pid"], event["tid"]),
                                (event["pid"], event["tid"] % 2000000))
            if event["ts"] not in begins[key] or event["ts"] + event["dur"] not in ends[key]:
                self.bad(f"annotation does not cover its work exactly: {event}")


def against_manifest(checker, manifest):
    """The same work in the trace and in the balance, per kind."""
    rows = collections.Counter(e["cat"] for e in checker.rows)
    written = {k: b["written"] for k, b in manifest["balance"].items()}
    for kind, cats in (("kernel", ["kernel"]), ("memcpy", ["gpu_memcpy"]), ("memset", ["gpu_memset"])):
        count = sum(rows[c] for c in cats)
        if written.get(kind) is not None and written[kind] != count:
            checker.bad(f"{count} {kind} rows, the balance says {written[kind]}")


def check(path, steps=None, allow_orphans=False, manifest=None):
    try:
        checker = Checker(path, allow_orphans)
    except (ValueError, KeyError, OSError, EOFError) as error:
        return [f"{path}: not readable: {error}"]
    checker.run()
    if steps is not None and checker.step_numbers != list(steps):
        checker.bad(f"steps {checker.step_numbers}, expected {list(steps)}")
    if manifest is not None:
        against_manifest(checker, manifest)
    return [f"{path}: {p}" for p in checker.problems]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--steps", help="the step numbers expected, as 4,5")
    parser.add_argument("--allow-orphans", action="store_true",
                        help="device work may lack its call row (a cut cycle)")
    parser.add_argument("--manifest")
    options = parser.parse_args()
    steps = None if options.steps is None else [int(s) for s in options.steps.split(",") if s]
    manifest = json.load(open(options.manifest)) if options.manifest else None
    status = 0
    for path in options.files:
        problems = check(path, steps, options.allow_orphans, manifest)
        for problem in problems[:20]:
            print(problem)
        if problems:
            status = 1
            print(f"{path}: {len(problems)} problems")
        else:
            print(f"{path}: good")
    return status


if __name__ == "__main__":
    sys.exit(main())
