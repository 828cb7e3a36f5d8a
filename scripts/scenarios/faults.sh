#!/usr/bin/env bash
# Nodes fail or are slow, messages are lost, doubled or late, the scheduler is killed or stopped: only node faults change the schedule.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
cd "$scratch"
cat >nodes.toml <<'TOML'
seed = 3

[nodes]
mean_up_s = 300000
mean_down_s = 7200

[slow]
mean_normal_s = 86400
mean_slow_s = 7200
slowdown = 1.5
share = 0.3

[[at]]
at_s = 20000
do = "fail"
node = 0
TOML
cat nodes.toml - >all.toml <<'TOML'

[messages]
drop = 0.002
duplicate = 0.05
delay = 0.05
delay_s = 0.01
reorder = 0.02

[plugin]
kills = 3
stalls = 2
stall_s = 0.3
TOML
printf 'requeue = true # jobs of a node that fails run again\n' >scenario.toml
workload=(scenario.toml --lublin "${1:-150}" --nodes 16 --node rua-4way --mix high --estimates f-model --limits estimate --policy rua)
simulate() { # DIR ARGUMENT...
    local dir=$1
    shift
    cosched-emulator simulate "${workload[@]}" --out "$dir" "$@" >/dev/null 2>"$scratch/simulate.err" ||
        fail "$dir: $(cat "$scratch/simulate.err")"
}
simulate none
simulate nodes --faults nodes.toml
simulate all --faults all.toml --link zmq
cosched-emulator compare none nodes all 2>&1 # with its notes
if cmp -s none/jobs.csv nodes/jobs.csv; then
    fail "failing nodes have changed nothing"
fi
say "Lost messages and dead schedulers change nothing: same failing nodes, same schedule."
same_schedule nodes all

say "Faults that are impossible in a run are refused."
code=0
cosched-emulator simulate "${workload[@]}" --faults all.toml 2>refusal || code=$?
sed 's/^/    /' refusal
((code == 2)) || fail "exit code $code, not 2"
say "faults: the same schedule, byte for byte"
