#!/usr/bin/env bash
# Tries the packages by hand in the root of another system, such as debootstrap makes:
#   try_in_chroot.sh ROOT PACKAGES [PROGRAMS]
# PROGRAMS: a folder with train_loop, libcuda.so.1 and libcupti.so.13 (the simulated device) that run there;
# without it the traced program is /bin/true. Needs root. What it mounts is gone with its mount namespace.
set -euo pipefail
[[ ${IN_NAMESPACE:-} ]] || IN_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
root=$1 packages=$2 programs=${3:-}
for name in proc sys dev; do mount --rbind "/$name" "$root/$name"; done
scratch=$root/tmp/stepagent-try
rm -rf "$scratch"
mkdir -p "$scratch/programs"
cp "$packages"/stepagent*.{tar.gz,deb,whl} "$scratch/"
[[ -z $programs ]] || cp "$programs"/* "$scratch/programs/"
cat >"$scratch/inside.sh" <<'INSIDE'
set -euo pipefail
cd /tmp/stepagent-try
. /etc/os-release
say() { printf '%s: %s\n' "$PRETTY_NAME" "$*"; }
demo() {  # demo COMMAND…: one run, and whether its trace is there
  rm -rf traces
  if [[ -x programs/train_loop ]]; then
    LD_LIBRARY_PATH=$PWD/programs "$@" run -o traces --step nvtx:train_step \
      --schedule warmup=1,active=2,repeat=1 -- programs/train_loop --steps 6 >/dev/null 2>log ||
      { cat log; exit 1; }
    ls traces/latest/traces/cycle-0000/*.pt.trace.json.gz >/dev/null
    "$@" report traces/latest | sed -n 1,2p
  else
    "$@" run -- /bin/true
  fi
}
glibc=$(ldd --version | sed -n '1s/.* //p')
for archive in stepagent-*-linux-*.tar.gz; do [[ $archive == *-debug.tar.gz ]] || tar -xzf "$archive"; done
mv stepagent-*-linux-*[!z] moved
moved/bin/stepagent --version
demo moved/bin/stepagent
say "archive runs (glibc $glibc)"
dpkg -i stepagent_*.deb >/dev/null
stepagent --version
demo stepagent
dpkg -r stepagent >/dev/null
[[ ! -e /usr/bin/stepagent ]]
say 'deb installs, runs, is removed'
if python3 -m venv venv >/dev/null 2>&1; then
  venv/bin/pip install -q --no-index --no-deps stepagent-*.whl
  venv/bin/stepagent --version
  demo venv/bin/python -m stepagent
  say "wheel runs ($(venv/bin/python --version), $(venv/bin/pip --version | cut -d' ' -f1-2))"
else
  say 'no python3-venv: the wheel was not tried'
fi
INSIDE
chroot "$root" /bin/bash /tmp/stepagent-try/inside.sh
rm -rf "$scratch"
