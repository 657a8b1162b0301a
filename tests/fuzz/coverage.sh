#!/usr/bin/env bash
# Lines of the parsers that the kept corpus reaches: coverage.sh [BUILD]
#
# BUILD (default: build-fuzz) is made with clang, libFuzzer and coverage. Prints a row for each parser and
# ends with 1 when all together are below 90 %.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build-fuzz}
least=90
targets=(fuzz_batch fuzz_raw_file fuzz_kineto fuzz_settings fuzz_activity_buffer)
parsers=(collector/ingest/frame_reader.cc collector/model/batch_head.cc collector/model/batch_decoder.cc
  collector/spool/raw_file.cc collector/spool/first_hello.cc
  collector/spool/read_cycles.cc collector/analysis/kineto_reader.cc collector/analysis/kineto_cycle.cc
  collector/analysis/kineto_header.cc collector/analysis/kineto_joins.cc collector/analysis/kineto_values.cc
  proto/settings.cc proto/settings_parse.cc proto/settings_lists.cc
  agent/cupti/decoder.cc agent/cupti/decode_work.cc agent/cupti/decode_rest.cc)

cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DSTEPAGENT_FUZZ=ON -DSTEPAGENT_FUZZ_COVERAGE=ON -DSTEPAGENT_BENCH=OFF >/dev/null
cmake --build "$build" --target "${targets[@]}" >"$build/coverage-build.log" ||
  { grep -E -A5 'error|FAILED' "$build/coverage-build.log" | head -n 40; exit 1; }

counts=$build/coverage
rm -rf "$counts"
mkdir "$counts"
objects=()  # the first without -object: llvm-cov takes its first plain argument for a program
for target in "${targets[@]}"; do
  program=$build/tests/bin/$target
  ((${#objects[@]})) && objects+=(-object)
  objects+=("$program")
  LLVM_PROFILE_FILE=$counts/$target.profraw "$program" -runs=0 "tests/fuzz/corpus/$target" \
    >"$counts/$target.log" 2>&1 || { tail -n 20 "$counts/$target.log"; exit 1; }
done
llvm-profdata merge -o "$counts/all" "$counts"/*.profraw
llvm-cov export -summary-only -instr-profile "$counts/all" "${objects[@]}" |
  python3 -c '
import json, sys
least, parsers = int(sys.argv[1]), sys.argv[2:]
rows, others = {}, []
for file in json.load(sys.stdin)["data"][0]["files"]:
    # By the end of its path: a checkout behind a symbolic link, or an object that a compiler cache made
    # in another one, carries another beginning.
    name = next((one for one in parsers if ("/" + file["filename"]).endswith("/" + one)), None)
    if name:
        rows[name] = (file["summary"]["lines"]["covered"], file["summary"]["lines"]["count"])
    else:
        others.append(file["filename"])
missing = [name for name in parsers if name not in rows]
if missing:
    sys.exit("not compiled into any target: %s; among %d other files are %s" %
             (" ".join(missing), len(others), " ".join(others[:5])))
rows["together"] = tuple(map(sum, zip(*rows.values())))
for name, (covered, count) in rows.items():
    print("%-40s %5d of %5d lines  %5.1f %%" % (name, covered, count, 100 * covered / count))
covered, count = rows["together"]
sys.exit(100 * covered < least * count)' "$least" "${parsers[@]}"
