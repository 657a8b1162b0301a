#!/bin/bash
# launcher_test.sh CASE STEPAGENT LIBRARY PROGRAMS SERVER: one property of `stepagent run` each.
set -u
case_name=$1 S=$2 LIB=$3 P=$4
here=$(cd "$(dirname "$0")" && pwd)
T=$(mktemp -d "${TMPDIR:-/tmp}/launcher.XXXXXX") || exit 1
trap 'rm -rf "$T"' EXIT
cd "$T" || exit 1
mkdir -m 700 runtime
export STEPAGENT_RUNTIME_DIR=$T/runtime STEPAGENT_LIB=$LIB
unset LD_PRELOAD CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH ASAN_OPTIONS

fail() { echo "FAILED: $*"; [[ -f err ]] && sed 's/^/  err: /' err; exit 1; }
same() { [[ $1 == "$2" ]] || fail "${3:-} expected '$2', got '$1'"; }
has() { grep -q -- "$1" "$2" || fail "no '$1' in $2: $(cat "$2")"; }
until_line() { # until_line TEXT FILE: waits for a condition, bounded
  for ((i = 0; i < 2000; ++i)); do grep -qx -- "$1" "$2" 2>/dev/null && return; read -rt 0.01 <> <(:); done
  fail "no line '$1' in $2"
}
run() { "$S" run "$@" 2>err; }

case_status() {
  for code in 0 1 7 124 125 126 127 255; do
    run -- sh -c "exit $code"; same $? $code "exit $code:"
  done
  for name in TERM KILL SEGV ABRT USR1 PIPE; do
    # The shell reports the death of its child by a signal; `if` hides its line.
    "$S" run -- sh -c "kill -$name \$\$" 2>err; same $? $((128 + $(kill -l $name))) "$name:"
  done
  python3 - "$S" <<'PY' || fail "no death by the same signal"
import signal, subprocess, sys
got = subprocess.run([sys.argv[1], 'run', '--', 'sh', '-c', 'kill -TERM $$'], stderr=subprocess.DEVNULL)
sys.exit(got.returncode != -signal.SIGTERM)
PY
}

case_own_failures() {
  run -- ./none; same $? 127 missing; has none err
  run -- none-such-command; same $? 127 missing
  run -- "$T"; same $? 126 folder
  echo x >plain; run -- ./plain; same $? 126 "not executable"
  printf '\177ELFxxx' >bad; chmod +x bad; run -- ./bad; [[ $? == 126 || $? == 127 ]] || fail "bad ELF: $?"
  echo 'exit 9' >script; chmod +x script; run -- ./script; same $? 9 "script without #!"
  STEPAGENT_LIB=$T/none.so run -- true; same $? 125 "no library"; same "$(wc -l <err)" 1 lines
}

case_bad_options() {
  for bad in --schedule=active=0 '--schedule active=1' --step=x --formats=json --graph=x --log=loud \
             --signal=KILL --max-bytes=-1 --ranks=a --activities=x --nonsense --arm=now --label=x; do
    # shellcheck disable=SC2086
    run $bad -- touch ran; same $? 2 "$bad:"
    same "$(wc -l <err)" 1 "lines for $bad:"; has "${bad%%[= ]*}" err
    [[ ! -e ran ]] || fail "$bad: the command ran"
  done
  STEPAGENT_SCHEDULE=active=0 run -- true; same $? 2 variable; has STEPAGENT_SCHEDULE err
}

case_stdout() {
  run -- "$P/show" 3 >out; same $? 3; same "$(cat out)" "loaded 1" stdout
  run -- cat <"$P/show" >copy; cmp copy "$P/show" || fail "stdin to stdout is changed"
  run -- sh -c 'echo to-stderr >&2'; has '^to-stderr$' err
  [[ ! -e stepagent-traces ]] || fail "a folder without a warmup"
}

case_signals() {
  "$S" run -- "$P/signals" log 2>err & pid=$!
  until_line ready log
  # Not INT and QUIT: the shell ignores them in what it starts in the background, and so must we.
  for number in 1 10 28 35; do kill -$number $pid; until_line $number log; done
  kill -TERM $pid; wait $pid; same $? 5
  same "$(sort log | uniq -d)" "" "doubled:"
  (trap '' HUP INT; exec "$S" run -- sh -c 'grep SigIgn /proc/self/status') >out 2>err
  has 'SigIgn:.*[37bf]$' out
}

case_toggle_is_never_fatal() {
  "$S" run -- sh -c 'echo ready >log; exec sleep 1000' 2>err & pid=$!
  until_line ready log
  kill -USR2 $pid; until_line 'stepagent: toggle: no process of the run answers: none has used CUDA or NVTX yet' err
  kill -TERM $pid; wait $pid; same $? 143
  "$S" run --signal USR1 -- sh -c 'echo ready >log2; exec sleep 1000' 2>err & pid=$!
  until_line ready log2
  kill -USR2 $pid; wait $pid; same $? 140 "a signal that is not the toggle"
}

case_surroundings() {
  show='ls -l /proc/self/fd | sed "s/.*:.. //" | grep -v /proc | sed "s/pipe:.*/pipe/"; grep -E "^Sig(Blk|Ign)|NoNewPrivs|Seccomp:" /proc/self/status; ps -o pgid= -p $$ | tr -d " "; umask; pwd; nice; ulimit -a'
  sh -c "$show" >bare 2>err 7<"$here/terminal.py"; run -- sh -c "$show" >with 7<"$here/terminal.py"
  [[ -s bare ]] || fail "nothing to compare"
  diff bare with || fail "the target sees another world"
}

case_terminal() { python3 "$here/terminal.py" "$S" "$P/signals" "$T/log" || fail terminal; }

case_preload() {
  LD_PRELOAD=$P/libcounting.so LD_LIBRARY_PATH=/x:/y run -- \
    "$P/show" 0 LD_PRELOAD COUNTING_IS_IN LD_LIBRARY_PATH CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH >out
  same "$(cat out)" "loaded 1
LD_PRELOAD=$LIB:$P/libcounting.so
COUNTING_IS_IN=yes
LD_LIBRARY_PATH=/x:/y
CUDA_INJECTION64_PATH=$LIB
NVTX_INJECTION64_PATH=$LIB"
  NVTX_INJECTION64_PATH=/other.so run -- "$P/show" 0 NVTX_INJECTION64_PATH >out
  has '^NVTX_INJECTION64_PATH=/other.so$' out; has "NVTX_INJECTION64_PATH is set to '/other.so'" err
}

case_sanitizer() {
  [[ -x $P/asan ]] || exit 77
  run -- "$P/asan" 4 >out; same $? 4 "ASan target"; same "$(head -n 1 out)" "loaded 1"
  run -- sh -c "'$P/asan' 6" >out; same $? 6 "ASan program of a shell"
  asan=$(gcc -print-file-name=libasan.so)
  LD_PRELOAD=$asan:$P/libcounting.so ASAN_OPTIONS=detect_leaks=0 run -- "$P/show" 0 LD_PRELOAD COUNTING_IS_IN >out
  same $? 0; has "^LD_PRELOAD=$asan:$LIB:$P/libcounting.so$" out; has COUNTING_IS_IN=yes out
}

case_odd_path() {
  for name in 'a b' 'a:b' 'a"b' 'ä' '$LIB'; do
    mkdir -p "$name/lib" "$name/bin"; cp "$LIB" "$name/lib/"; cp "$S" "$name/bin/stepagent"
    env -u STEPAGENT_LIB "$name/bin/stepagent" run -- "$P/show" 4 >out 2>err; same $? 4 "$name:"
    same "$(cat out)" "loaded 1" "$name:"
    grep -q 'ERROR: ld.so' err && fail "the loader complains"
  done
  return 0
}

case_moved_prefix() {
  mkdir -p one/lib one/bin; cp "$LIB" one/lib/; cp "$S" one/bin/; mv one two
  env -u STEPAGENT_LIB PATH="$T/two/bin:$PATH" stepagent run -- "$P/show" 0 LD_PRELOAD >out 2>err
  same $? 0; has "^LD_PRELOAD=$T/two/lib/libstepagent.so$" out
  ln -s two/bin/stepagent link; env -u STEPAGENT_LIB ./link run -- "$P/show" >out 2>err; same "$(cat out)" "loaded 1"
}

case_static() {
  [[ -x $P/static ]] || exit 77
  for name in static static_pie; do
    run -- "$P/$name" 4 >out; same $? 4 $name; same "$(cat out)" "loaded 0"; has "statically linked" err
  done
}

case_musl() {
  [[ -x $P/musl ]] || exit 77
  run -- "$P/musl" 4 LD_PRELOAD >out; same $? 4; has '^LD_PRELOAD=(unset)$' out; has "uses musl" err
}

case_secure() {
  [[ $(id -u) == 0 ]] || exit 77
  cp "$P/show" plain; cp "$P/show" suid; chmod 4755 suid; chmod 755 plain "$T"
  cp "$LIB" libstepagent.so; cp "$S" launcher; chmod 755 libstepagent.so launcher; chmod 777 "$T"
  as_other() { setpriv --reuid=65534 --regid=65534 --clear-groups env -u STEPAGENT_RUNTIME_DIR STEPAGENT_LIB="$T/libstepagent.so" "$@"; }
  as_other ./launcher run -- ./plain 4 >out 2>err; same $? 4; same "$(cat out)" "loaded 1"
  as_other ./launcher run -- ./suid 4 >out 2>err; same $? 4; same "$(cat out)" "loaded 0"; has "secure mode" err
  command -v setcap >/dev/null || return 0
  cp "$P/show" caps; chmod 755 caps; setcap cap_net_raw+ep caps || return 0
  as_other ./launcher run -- ./caps 4 >out 2>err; same $? 4; has "secure mode" err
}

case_orphan() {
  # The orphan holds our pipe: the end is the child's exit, not the pipe's.
  coproc "$S" run -- sh -c 'sleep 1000 & echo $!; exit 7' 2>err
  job=$COPROC_PID
  read -r orphan <&"${COPROC[0]}"
  wait "$job"; code=$?
  kill "$orphan" || fail "no orphan"
  same $code 7
}

case_runs() {
  run -- "$P/show" 0 STEPAGENT_RUN STEPAGENT_RUN_MODE STEPAGENT_SIGNAL STEPAGENT_ARM STEPAGENT_OUT >out
  grep -Eq '^STEPAGENT_RUN=[0-9]{8}T[0-9]{6}_[0-9a-f]{8}$' out || fail "$(cat out)"
  has '^STEPAGENT_RUN_MODE=whole$' out; has '^STEPAGENT_SIGNAL=USR2$' out; has '^STEPAGENT_ARM=start$' out
  has "^STEPAGENT_OUT=$T/stepagent-traces$" out; has 'nothing was recorded' err
  run -- "$S" run -- sh -c 'echo $STEPAGENT_RUN' >inner; run_id=$(cat inner)
  STEPAGENT_RUN=$run_id run -- sh -c 'echo $STEPAGENT_RUN' >out; same "$(cat out)" "$run_id" "a run in a run:"
  run --step nvtx:x -- true; has 'no schedule given: skip_first=10,wait=5,warmup=2,active=3,repeat=1' err
  run --require kernel -- true; same $? 125 require; has 'required and not collected: kernel' err
  run --require kernel -- false; same $? 1 "the application's own status"
}

case_environment() {
  run --schedule wait=1,active=2 --step 'nvtx:a b@*' --graph node --label batch=64 --label 'note=a\,b' -o sub/dir \
    -- "$P/show" 0 STEPAGENT_SCHEDULE STEPAGENT_STEP STEPAGENT_GRAPH STEPAGENT_LABELS STEPAGENT_OUT STEPAGENT_RUN_MODE >out
  same "$(tail -n +2 out)" "STEPAGENT_SCHEDULE=wait=1,active=2
STEPAGENT_STEP=nvtx:a b@*
STEPAGENT_GRAPH=node
STEPAGENT_LABELS=batch=64,note=a\\,b
STEPAGENT_OUT=$T/sub/dir
STEPAGENT_RUN_MODE=steps"
}

# Below: with agent and collector, in a program without a device.
SERVER=${5:-}
json() { python3 -c "import json, sys; print(eval('d' + sys.argv[1], {'d': json.load(sys.stdin)}))" "$1"; }
until_answers() { for ((i = 0; i < 2000; ++i)); do "$S" status "$1" >/dev/null 2>&1 && return; read -rt 0.01 <> <(:); done; fail "pid $1 never answers"; }
until_cycle() { # until_cycle PID N: N cycles have begun
  for ((i = 0; i < 2000; ++i)); do (($("$S" status "$1" --json | json "[0]['cycle']") >= $2)) && return; read -rt 0.01 <> <(:); done
  fail "cycle $2 never begins"
}
child_of() { pgrep -P "$1" server; }

case_toggled() {
  "$S" run --arm demand -- "$SERVER" --host-only --seconds 50 --rate 50 >out 2>err & pid=$!
  for ((i = 0; i < 2000; ++i)); do server=$(child_of $pid) && break; read -rt 0.01 <> <(:); done
  until_answers "$server"
  for round in 1 2; do
    kill -USR2 $pid; until_cycle "$server" $round
    # Toggles within 200 ms are one: the next must come later than that.
    read -rt 0.3 <> <(:)
    kill -USR2 $pid; "$S" wait "$server" --timeout 20 || fail "not written: $("$S" status "$server" --json)"
    read -rt 0.3 <> <(:)
  done
  kill -TERM $pid; wait $pid; same $? 0
  same "$(find stepagent-traces -name '*.gz' | wc -l)" 2 traces
  for manifest in stepagent-traces/2*/sessions/*/cycle-*/manifest.json; do
    same "$(json "['cycle']['ended']" <"$manifest")" signal "what a toggle by signal is called:"
  done
  has 'host only' err; has 'stepagent report' err
}

case_control() {
  LD_PRELOAD=$LIB STEPAGENT_OUT=$T/traces "$SERVER" --host-only --seconds 50 --rate 50 >out 2>err & pid=$!
  until_answers $pid
  "$S" status >line; has "^$pid .* idle " line; same "$(wc -l <line)" 1 lines
  "$S" start $pid --for 300ms >line || fail "start: $(cat line)"
  has "cycle-0000/.*gz" line; [[ -e $(grep -o '/.*gz' line) ]] || fail "no such trace"
  "$S" start --for 1m --no-wait >line || fail "bare start"
  until_cycle $pid 2
  "$S" start $pid >line && fail "a second start is taken"; has ' busy' line
  "$S" stop --name '*server*' >line || fail stop
  "$S" wait $pid --timeout 20 || fail wait
  "$S" wait traces --timeout 0.1 || fail "wait for a folder"
  for bad in 999999 '--rank 77' '--name nothing' '--session x' '--gpu 99'; do
    # shellcheck disable=SC2086
    "$S" start $bad 2>line && fail "start $bad looks like success"; [[ -s line ]] || fail "$bad: no reason"
  done
  "$S" start --steps 0 2>/dev/null; same $? 2; "$S" start --graph x 2>/dev/null; same $? 2
  kill $pid; wait $pid; "$S" status 2>line; same $? 1 "status of nobody:"
}

case_killed() {
  "$S" run --step nvtx:request --schedule active=100000 -- "$SERVER" --host-only --seconds 50 --rate 50 >out 2>err & pid=$!
  for ((i = 0; i < 2000; ++i)); do server=$(child_of $pid) && break; read -rt 0.01 <> <(:); done
  until_answers "$server"; until_cycle "$server" 1
  # What was not flushed is lost with the process: wait until some of the cycle is on disk.
  for ((i = 0; i < 3000; ++i)); do
    [[ $(cat stepagent-traces/*/sessions/*/raw.steps 2>/dev/null | wc -c) -gt 4000 ]] && break
    read -rt 0.01 <> <(:)
  done
  kill -KILL "$server"; wait $pid 2>/dev/null; same $? 137
  has 'ended by: killed' err; same "$(find stepagent-traces -name '*.gz' | wc -l)" 1 traces
}

"case_$case_name"
