#!/usr/bin/env bash
# Short, medium and long jobs take turns via disk; groups share nodes. No job is lost, and a killed scheduler changes nothing.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
cat >"$scratch/scenario.toml" <<'TOML'
[cluster]
nodes = 16
preset = "g-lomarc-2x2"

[workload]
lublin = 200
aarr = 9.83
self_slowdowns = "table4" # every job slows itself down on nodes of several cores
grow = true

[truth]
contention = "statistical"

[preemption]
resume_s = 60 # a job that returns from disk makes no progress for a minute
TOML

say "The same jobs in time slices: with one job per node (ssp), and with nodes shared by groups (glts)."
for policy in ssp glts; do
    run_pair "$policy" "--trace $scratch/$policy.jsonl" "$scratch/$policy" 30 "$scratch/scenario.toml"
    "$python" - "$scratch/$policy" <<'PYTHON' || fail "$policy: a job did not complete, or no job was preempted"
import csv, json, sys
with open(f"{sys.argv[1]}/summary.json") as stream:
    machine = json.load(stream)["machine"]
with open(f"{sys.argv[1]}/jobs.csv", newline="") as stream:
    completed = [row["success"] for row in csv.DictReader(stream)].count("1")
print(f"{completed} jobs completed, {machine['preemptions']} preemptions")
sys.exit(completed != 200 or machine["preemptions"] == 0)
PYTHON
done
cosched-emulator compare "$scratch/ssp" "$scratch/glts"

# The first job that was matched with a running one.
job=$("$python" - "$scratch/glts.jsonl" <<'PYTHON'
import json, sys
with open(sys.argv[1]) as stream:
    print(next((record["job"] for record in map(json.loads, stream) if record.get("group", {}).get("running")), ""))
PYTHON
)
[[ -n $job ]] || fail "no job was matched with a running one"
cosched-emulator explain "$job" --trace "$scratch/glts.jsonl" | sed 's/^/    /'

say "More jobs, and the scheduler is killed while they run."
workload=("$scratch/scenario.toml" --lublin "${1:-1200}")
run_pair glts "" "$scratch/undisturbed" 60 "${workload[@]}"
pause_s=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["wall_s"] * 0.15)' "$scratch/undisturbed/timing.json")
endpoint=ipc://$scratch/socket
start manager cosched-emulator serve --bind "$endpoint" --out "$scratch/disturbed" "${workload[@]}"
manager=$started
for number in first second; do
    : >"$scratch/$number.err" # so that the file exists when it is read
    start "$number" cosched-plugin serve --connect "$endpoint" --policy glts
    until_said "$number" "welcomed by the manager" 30
    sleep "$pause_s"
    kill -0 "$manager" 2>/dev/null || fail "the run was over before the $number scheduler could be killed"
    kill_9 "$started"
done
start third cosched-plugin serve --connect "$endpoint" --policy glts
expect 0 manager "$manager" 60
expect 0 third "$started" 30
for number in second third; do
    sed 's/^/    /' "$scratch/$number.err"
    grep -q -E 'batch [1-9]' "$scratch/$number.err" || fail "the $number scheduler did not take over in the middle of the run"
done
same_schedule "$scratch/undisturbed" "$scratch/disturbed"
cmp "$scratch/undisturbed/preemptions.csv" "$scratch/disturbed/preemptions.csv" || fail "not the same preemptions"
say "time-slices: all jobs completed, and the same schedule, byte for byte"
