#!/usr/bin/env bash
# The schedule is the same, byte for byte, for every coupling of scheduler and manager.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
for policy in sjbf conservative rua lomarc-r; do
    case $policy in
        lomarc-r) workload=(--nodes 32 --node lomarc-ht --contention lomarc --characteristics M1 --aarr 8.83) ;;
        *) workload=(--nodes 8 --node rua-4way --mix high) ;;
    esac
    workload+=(--lublin "${1:-300}" --estimates f-model --limits estimate)
    for link in direct loopback zmq; do
        cosched-emulator simulate "${workload[@]}" --policy "$policy" --link "$link" --out "$scratch/$policy/$link" \
            >/dev/null 2>"$scratch/simulate.err" || fail "$policy, $link: $(cat "$scratch/simulate.err")"
        same_schedule "$scratch/$policy/direct" "$scratch/$policy/$link"
        # The description of the run is the same, too; the coupling is recorded in timing.json.
        cmp "$scratch/$policy/direct/run.json" "$scratch/$policy/$link/run.json" || fail "$policy, $link: run.json differs"
    done
    run_pair "$policy" "" "$scratch/$policy/serve" 60 "${workload[@]}"
    same_schedule "$scratch/$policy/direct" "$scratch/$policy/serve"
    say "$policy: direct = loopback = zmq = serve"
done
cosched-emulator compare "$scratch/rua/direct" "$scratch/rua/loopback" "$scratch/rua/zmq" "$scratch/rua/serve"
say "same-schedule: byte for byte"
