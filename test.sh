#!/usr/bin/env bash
# Installs what is missing, builds, runs every test this machine can run. Arguments go to ctest:
#   ./test.sh -L unit        ./test.sh -R schedule --output-on-failure
cd "$(dirname "${BASH_SOURCE[0]}")"
. .ci/setup.sh

# What widens the tests: without it the tests concerned skip by name.
try_packages python3-numba python3-protobuf musl-tools valgrind binutils gdb strace chromium
prepare_python() {  # a venv with the readers and clients from PyPI that tests use
  local venv=$BUILD/venv
  [[ -e $venv/.ready ]] && return 0
  install_packages python3-venv || return 0
  /usr/bin/python3 -m venv --system-site-packages "$venv" >/dev/null 2>&1 || return 0
  "$venv/bin/pip" install -q nvtx >"$BUILD/venv.log" 2>&1 ||
    say "PyPI's nvtx is not to be had here: tests that need it skip by name"
  touch "$venv/.ready"
}
# Other people's readers of our files; half a gigabyte, so kept apart and fetched once.
prepare_readers() {
  local venv=$BUILD/readers
  [[ -e $venv/.ready ]] && return 0
  /usr/bin/python3 -m venv "$venv" >/dev/null 2>&1 || return 0
  "$venv/bin/pip" install -q HolisticTraceAnalysis 'pandas<3' >"$BUILD/readers.log" 2>&1 || {
    say "Holistic Trace Analysis is not to be had here: its tests skip by name"
    rm -rf "$venv"
    return 0
  }
  touch "$venv/.ready"
}
# Another client of CUPTI: without what it depends on beside these, since libcupti is the simulator's.
prepare_rival() {
  local venv=$BUILD/rival
  [[ -e $venv/.ready ]] && return 0
  /usr/bin/python3 -m venv "$venv" >/dev/null 2>&1 || return 0
  "$venv/bin/pip" install -q --no-deps 'cupti-python==13.0.*' 'cuda-bindings==13.0.*' cuda-pathfinder numpy \
    nvtx >"$BUILD/rival.log" 2>&1 || {
    say "PyPI's cupti-python is not to be had here: its tests skip by name"
    rm -rf "$venv"
    return 0
  }
  touch "$venv/.ready"
}
# promtool, out of Debian's package of the server, which is not installed: it would start one.
prepare_promtool() {
  local folder=$BUILD/promtool
  [[ -e $folder/usr/bin/promtool ]] && return 0
  mkdir -p "$folder"
  (cd "$folder" && apt-get download -q prometheus >download.log 2>&1 && dpkg -x prometheus_*.deb . &&
    rm -f prometheus_*.deb) || say "promtool is not to be had here: /metrics is checked without it"
}
build
prepare_python
prepare_promtool
prepare_readers
prepare_rival
export STEPAGENT_TEST_PYTHON=$BUILD/venv/bin/python
[[ -x $STEPAGENT_TEST_PYTHON ]] || STEPAGENT_TEST_PYTHON=/usr/bin/python3
cd "$BUILD"
exec ctest --output-on-failure -j "$(nproc)" "$@"
