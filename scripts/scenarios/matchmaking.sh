#!/usr/bin/env bash
# Two jobs on one node: which jobs were co-located, and why; and the effect of a belief in a pair that was too optimistic.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
cat >"$scratch/scenario.toml" <<'TOML'
seed = 1

[cluster]
nodes = 32
preset = "lomarc-ht"

[workload]
lublin = 300
aarr = 8.83
characteristics = "M1"

[truth]
contention = "lomarc"

[belief]
usage_noise = 0.6 # the use of nodes by jobs is known inaccurately

[monitoring] # a job's slowdown is measured a minute after its neighbours have changed, and reported above this
after_s = 60
above = 1.6
TOML

say "The same jobs, with one job per node and with shared nodes:"
for policy in pss lomarc-r; do
    cosched-emulator simulate "$scratch/scenario.toml" --policy "$policy" --out "$scratch/$policy" \
        --trace "$scratch/$policy.jsonl" >/dev/null 2>"$scratch/simulate.err" || fail "$policy: $(cat "$scratch/simulate.err")"
done
cosched-emulator compare "$scratch/pss" "$scratch/lomarc-r"

# The first job that joined a running one, the first that brought a partner, and the first that had to be stopped.
first() {
    "$python" - "$scratch/lomarc-r.jsonl" "$1" <<'PYTHON'
import json, sys
wanted = {
    "guest": lambda record: record["kind"] == "start" and "hosts" in record,
    "pair": lambda record: record["kind"] == "start" and "partner" in record.get("partners", {}),
    "stopped": lambda record: record["kind"] == "suspend",
}[sys.argv[2]]
with open(sys.argv[1]) as stream:
    print(next((record["job"] for record in map(json.loads, stream) if wanted(record)), ""))
PYTHON
}
for kind in pair guest stopped; do
    job=$(first "$kind")
    [[ -n $job ]] || fail "no job of this kind: $kind"
    say ""
    say "$kind:"
    cosched-emulator explain "$job" --trace "$scratch/lomarc-r.jsonl" | sed 's/^/    /'
done
say ""
say "matchmaking: paired, joined, and separated again"
