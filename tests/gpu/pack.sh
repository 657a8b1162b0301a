#!/bin/sh
# Puts together what a machine with a GPU needs to run check.py: no build, network or package there.
#
#   tests/gpu/pack.sh BUILD OUT [--sim]      then, there:  python3 OUT/tests/gpu/check.py
#
# The programs are linked statically against all but libc. --sim takes the simulated device along.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 BUILD OUT [--sim]" >&2; exit 2; }
source=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
[ ! -e "$2" ] || { echo "$0: $2 is there already" >&2; exit 2; }
mkdir -p "$2"
out=$(cd "$2" && pwd)
mkdir -p "$out/build/bin" "$out/build/lib" "$out/build/apps" "$out/tests"
cp "$build/bin/stepagent" "$build/bin/stepcollector" "$out/build/bin"
cp "$build/lib/libstepagent.so" "$build/lib/libstepagent_core.so" "$out/build/lib"
for app in train_loop graph_heavy cupti_ways rival_cupti never_ending_kernel train.py; do
  cp "$build/apps/$app" "$out/build/apps"
done
for folder in support process conformance gpu; do
  mkdir "$out/tests/$folder"
  cp "$source/tests/$folder"/*.py "$out/tests/$folder"
done
cp -r "$source/tests/gpu/stub" "$out/tests/gpu"
if [ "${3:-}" = --sim ]; then
  (cd "$build" && tar cf - sim/cuda sim/cupti-13.0) | (cd "$out/build" && tar xf -)
fi
find "$out/build" -type f \( -perm -100 -o -name '*.so*' \) ! -name '*.py' -exec strip --strip-debug {} +
du -sh "$out"
