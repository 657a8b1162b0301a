# Shared by demo.sh and test.sh: installs what is missing, finds or fetches the vendor's headers,
# configures and builds. Source it from the project's root.
#
# Packages are installed by name with the system's own apt; nothing is pinned to a mirror.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${STEPAGENT_BUILD:-$ROOT/build}

BUILD_PACKAGES=(
  build-essential cmake ninja-build pkg-config ca-certificates
  libprotobuf-dev protobuf-compiler libprotozero-dev libasio-dev libcli11-dev
  nlohmann-json3-dev libfmt-dev libspdlog-dev libunwind-dev libsqlite3-dev libzstd-dev
  libdeflate-dev zlib1g-dev libssl-dev libdw-dev libelf-dev liblzma-dev libbz2-dev
  libgtest-dev libgmock-dev libbenchmark-dev python3
)

say() { printf 'stepagent: %s\n' "$*" >&2; }

# install PACKAGE…: those not yet there; root or sudo. Fails with one line when it cannot.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || { say "missing packages: ${missing[*]} (no apt-get here: install their equivalents)"; return 1; }
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { say "missing packages: ${missing[*]} (need root or sudo to install them)"; return 1; }
    as_root=(sudo)
  fi
  say "installing: ${missing[*]}"
  local log=$BUILD/install.log
  mkdir -p "$BUILD"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update >"$log" 2>&1 ||
    { say "apt-get update failed: $(tail -n1 "$log")"; return 1; }
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    "${missing[@]}" >>"$log" 2>&1 || { say "apt-get install failed: $(tail -n1 "$log")"; return 1; }
}

# As install_packages, but goes on without: for programs that only widen the tests.
try_packages() {
  local package
  for package in "$@"; do
    install_packages "$package" 2>/dev/null || say "going on without $package (tests that need it skip by name)"
  done
}

# True when a toolkit or distribution package on this machine has all three header sets.
have_headers() {
  local root dirs=() name dir
  for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-* /opt/cuda; do
    [[ -n $root ]] && dirs+=("$root/include" "$root/extras/CUPTI/include")
  done
  dirs+=(/usr/include "$BUILD"/vendor/nvidia/*/include)
  for name in cuda.h cupti.h nvtx3/nvToolsExt.h; do
    for dir in "${dirs[@]}"; do [[ -e $dir/$name ]] && continue 2; done
    return 1
  done
}

# The smallest wheels that carry cuda.h, cupti.h and NVTX, unpacked below the build folder.
fetch_headers() {
  local wheels=('nvidia-cuda-cupti==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvtx==13.0.*')
  install_packages python3-pip
  say "no CUDA, CUPTI and NVTX headers on this machine; fetching them as Python wheels into the build folder: ${wheels[*]}"
  local tmp wheel
  tmp=$(mktemp -d)
  if ! /usr/bin/python3 -m pip download -q --no-deps -d "$tmp" "${wheels[@]}" >"$tmp/log" 2>&1; then
    say "the header wheels could not be fetched: $(tail -n1 "$tmp/log")"
    say "install a CUDA toolkit and set CUDA_HOME, then run this again"
    return 1
  fi
  mkdir -p "$BUILD/vendor"
  for wheel in "$tmp"/*.whl; do /usr/bin/python3 -m zipfile -e "$wheel" "$BUILD/vendor"; done
  rm -rf "$tmp"
}

# build [target…]: all targets when none is named
build() {
  install_packages "${BUILD_PACKAGES[@]}"
  mkdir -p "$BUILD"
  have_headers || fetch_headers
  local log=$BUILD/build.log
  say "building into ${BUILD#"$PWD"/}"
  local targets=()
  (($#)) && targets=(--target "$@")
  cmake -S "$ROOT" -B "$BUILD" -G Ninja >"$log" 2>&1 ||
    { grep -A12 -E 'CMake Error|stepagent:' "$log" >&2 || tail -n 20 "$log" >&2; say "configuring failed, see $log"; return 1; }
  cmake --build "$BUILD" ${targets[@]+"${targets[@]}"} >>"$log" 2>&1 || { grep -E -A5 'error|FAILED' "$log" | head -n 40 >&2; say "the build failed, see $log"; return 1; }
}
