#!/usr/bin/env bash
# The scheduler's process is killed in the middle of a run and a new one takes over: the schedule is the same.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
policy=${1:-rua}
case $policy in
    pss | ac | am | lomarc-*) workload=(--nodes 64 --node lomarc-ht --contention lomarc --characteristics M1 --aarr 8.83) ;;
    *) workload=(--nodes 32 --node rua-4way --mix med) ;;
esac
workload+=(--lublin "${2:-1500}" --estimates f-model --limits estimate)

say "An undisturbed run ($policy)."
run_pair "$policy" "" "$scratch/undisturbed" 120 "${workload[@]}"
duration_s() { "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["wall_s"] * float(sys.argv[2]))' "$scratch/undisturbed/timing.json" "$1"; }

endpoint=ipc://$scratch/socket
start manager cosched-emulator serve --bind "$endpoint" --out "$scratch/disturbed" "${workload[@]}"
manager=$started
for number in first second; do
    start "$number" cosched-plugin serve --connect "$endpoint" --policy "$policy"
    until_said "$number" "welcomed by the manager" 30
    sleep "$(duration_s 0.15)"
    kill -0 "$manager" 2>/dev/null || fail "the run was over before the $number scheduler could be killed"
    kill_9 "$started"
    say "The $number scheduler was killed; its output:"
    sed 's/^/    /' "$scratch/$number.err"
done
start third cosched-plugin serve --connect "$endpoint" --policy "$policy"
expect 0 manager "$manager" 120
expect 0 third "$started" 30
say "The third one has served until the end; its output:"
sed 's/^/    /' "$scratch/third.err"
for number in second third; do
    grep -q -E 'batch [1-9]' "$scratch/$number.err" || fail "the $number scheduler did not take over in the middle of the run"
done
same_schedule "$scratch/undisturbed" "$scratch/disturbed"
cosched-emulator compare "$scratch/undisturbed" "$scratch/disturbed"
say "plugin-restart: the same schedule, byte for byte"
