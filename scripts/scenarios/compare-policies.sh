#!/usr/bin/env bash
# One workload under every preset that shares no CPU time: the same jobs for all, and a table of the results.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
read -r -a policies <<<"$(cosched-plugin policies --json | "$python" -c 'import json, sys; print(*(preset["name"] for preset in json.load(sys.stdin)["presets"] if preset["policy"]["backfill"]["name"] != "gang"))')"
folders=()
for policy in "${policies[@]}"; do
    folder=$scratch/$policy
    cosched-emulator simulate --lublin 400 --nodes 16 --node rua-4way --mix med --estimates f-model --limits estimate \
        --policy "$policy" --out "$folder" >/dev/null 2>"$scratch/simulate.err" || fail "$policy: $(cat "$scratch/simulate.err")"
    folders+=("$folder")
    cmp "${folders[0]}/workload.swf" "$folder/workload.swf" || fail "$policy was given other jobs than ${policies[0]}"
done
cosched-emulator compare "${folders[@]}" 2>&1 # with its notes
say "compare-policies: the same jobs under ${#policies[@]} policies"
