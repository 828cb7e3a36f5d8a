#!/usr/bin/env bash
# Manager and scheduler are killed in turn during a run, and restarted: every job ends once, and the schedule is the same.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
policy=${1:-rua}
workload=(--nodes 32 --node rua-4way --mix med --lublin "${2:-1500}" --estimates f-model --limits estimate)

say "An undisturbed run ($policy)."
run_pair "$policy" "" "$scratch/undisturbed" 60 "${workload[@]}"
pause_s=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["wall_s"] * 0.1)' "$scratch/undisturbed/timing.json")

endpoint=ipc://$scratch/socket
start_manager() {
    start "manager-$1" cosched-emulator serve --bind "$endpoint" --out "$scratch/killed" --db "$scratch/run.db" "${workload[@]}"
    manager=$started
}
start_plugin() {
    start "plugin-$1" cosched-plugin serve --connect "$endpoint" --policy "$policy"
    plugin=$started
}
start_manager 0
start_plugin 0
for round in 1 2 3; do
    until_said "plugin-$((round - 1))" "ed by the manager" 30 # welcomed, or resynced
    sleep "$pause_s"
    kill_9 "$plugin"
    start_plugin "$round"
    until_said "plugin-$round" "ed by the manager" 30
    sleep "$pause_s"
    kill -0 "$manager" 2>/dev/null || fail "the run was over before the manager could be killed"
    kill_9 "$manager"
    start_manager "$round"
    until_said "plugin-$round" "resynced" 30
    say "Round $round: both were killed; output of the present scheduler:"
    sed 's/^/    /' "$scratch/plugin-$round.err"
done
expect 0 manager-3 "$manager" 60
expect 0 plugin-3 "$plugin" 30
same_schedule "$scratch/undisturbed" "$scratch/killed"
"$python" - "$scratch/run.db" "${2:-1500}" <<'PYTHON' || fail "the accounts are wrong"
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
(jobs,) = connection.execute("SELECT count(*) FROM jobs WHERE end_us IS NOT NULL").fetchone()
ends = connection.execute(
    "SELECT count(*) FROM changes WHERE what = 'job' AND state NOT IN ('PENDING', 'RUNNING', 'SUSPENDED') GROUP BY id"
).fetchall()
print(f"{jobs} jobs have ended; {ends.count((1,))} of them once, {len(ends) - ends.count((1,))} more often")
sys.exit(not jobs == ends.count((1,)) == int(sys.argv[2]))
PYTHON
cosched-emulator compare "$scratch/undisturbed" "$scratch/killed"
say "kill-nine: every job once, and the same schedule, byte for byte"
