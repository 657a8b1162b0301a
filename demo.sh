#!/usr/bin/env bash
# The main job on this machine: installs what is missing, builds, traces a small training loop for two
# cycles and shows what came out. On a real GPU where there is one, else on the simulated device.
cd "$(dirname "${BASH_SOURCE[0]}")"
. .ci/setup.sh

# A driver that knows a device: the node appears only once the kernel module is loaded.
has_gpu() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null &&
    { ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' || compgen -G '/usr/lib*/*/libcuda.so.1' >/dev/null; }
}
if has_gpu; then
  device='the NVIDIA GPU of this machine'
  libraries=${LD_LIBRARY_PATH:-}
else
  device='the simulated device (no NVIDIA driver with a device here)'
  libraries=$BUILD/sim/cuda:$BUILD/sim/cupti-13.0
fi
echo "stepagent demo: on $device"
build stepagent stepagent_core stepagent_command stepcollector stepagent_sim train_loop server replay
out=${STEPAGENT_OUT:-$PWD/stepagent-traces}
echo "running: stepagent run --step nvtx:train_step --schedule skip_first=2,wait=1,warmup=1,active=2,repeat=2 -- build/apps/train_loop"
LD_LIBRARY_PATH=$libraries "$BUILD/bin/stepagent" run --out "$out" --step nvtx:train_step \
  --schedule skip_first=2,wait=1,warmup=1,active=2,repeat=2 \
  --label program=train_loop -- "$BUILD/apps/train_loop" --steps 14
"$BUILD/bin/stepagent" wait "$out/latest" --timeout 30
echo
"$BUILD/bin/stepagent" report "$out/latest"
echo
echo "traces:"
find -L "$out/latest/traces" -type f | sort | sed 's/^/  /'
echo "stepagent demo: done on $device"
echo "next: build/bin/stepagent report ${out#"$PWD"/}/latest --by kernel   (or open a trace above in ui.perfetto.dev)"
