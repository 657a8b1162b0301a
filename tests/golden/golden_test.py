#!/usr/bin/env python3
"""Writes every golden cycle, checks the traces strictly and compares all text with what is kept.

    golden_test.py GOLDEN_WRITE EXPECTED_DIR [--update]

--update replaces what is kept; look at the difference before committing it.
"""
import difflib
import glob
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import check_chrome  # noqa: E402

# Cut: device work whose launch was lost. no_launch: calls were not asked for.
ORPHANS = {"cut", "no_launch"}
STEPS = {"train": [4, 5], "own_step_text": [2, 3], "no_launch": [], "empty": [], "host_only": [4]}


def scrubbed(manifest):
    """Without what another zlib would change."""
    for file in manifest["files"]:
        file["bytes"] = file["sha256"] = "-"
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


def texts(folder):
    traces = glob.glob(os.path.join(folder, "*.gz"))
    assert len(traces) == 1, traces
    with gzip.open(traces[0], "rb") as file:
        yield "trace.json", file.read().decode("utf-8")
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        yield "manifest.json", scrubbed(json.load(file))
    with open(os.path.join(folder, "summary.txt"), encoding="utf-8") as file:
        yield "summary.txt", file.read()
    with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
        json.load(file)


def compare(case, folder, expected):
    problems = []
    for name, text in texts(folder):
        path = os.path.join(expected, case, name)
        kept = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        if kept != text:
            lines = difflib.unified_diff(kept.splitlines(), text.splitlines(), path, "written", n=1,
                                         lineterm="")
            problems += [f"{case}/{name} differs:"] + list(lines)[:30]
    return problems


def update(case, folder, expected):
    target = os.path.join(expected, case)
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(target)
    for name, text in texts(folder):
        with open(os.path.join(target, name), "w", encoding="utf-8") as file:
            file.write(text)


def main():
    writer, expected = sys.argv[1], sys.argv[2]
    is_update = "--update" in sys.argv
    problems = []
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([writer, out], check=True)
        cases = sorted(os.listdir(out))
        for case in cases:
            folder = os.path.join(out, case)
            trace = glob.glob(os.path.join(folder, "*.gz"))[0]
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            problems += check_chrome.check(trace, STEPS.get(case), case in ORPHANS, manifest)
            if is_update:
                update(case, folder, expected)
            else:
                problems += compare(case, folder, expected)
    for problem in problems:
        print(problem)
    print(f"{len(cases)} cases, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
