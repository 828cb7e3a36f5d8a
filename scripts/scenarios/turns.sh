#!/usr/bin/env bash
# Jobs take turns on the CPUs of a live manager, alone and in pairs; its scheduler is frozen, then the manager is killed.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
cd "$scratch"
cat >turns.toml <<'TOML'
[cluster]
nodes = 16

[workload]
programs = "fine" # a process computes for 45 % of its time, so two of them fit on a CPU

[time_sharing]
windows = "rates" # measured rates are kept for a manager that starts again
TOML
slots() { # EXPRESSION: print what Python makes of the time sharing (s) that top knows
    cosched-emulator top --json >top.json
    "$python" -c "import json; s = json.load(open('top.json'))['slots']; print($1)"
}
until_true() { # EXPRESSION: wait until it is true of the time sharing
    local until_s=$((SECONDS + 60))
    until [[ $(slots "$1") == True ]]; do
        ((SECONDS <= until_s)) || fail "not true within 60 s: $1"
    done
}
live_manager turns.toml --speed 20 --db turns.db
live_plugin plugin paired-gang
shown submit -J whole -n 16 -t 0 --estimate 10 --run 300
shown submit -J half -n 8 --array 0-1 -t 0 --estimate 10 --run 300
shown submit -J alone -n 4 -t 0 --estimate 10 --run 60 --unpaired
until_true 'len(s["rows"]) == 3 and any(len(turn["slots"]) > 1 for turn in s["turns"])'
shown top --once
shown queue
shown job 1

say "The scheduler is frozen; the last rotation goes on."
kill -STOP "$plugin"
began=$(slots 's["quantum"]')
shown submit -J late -n 2 -t 0 --estimate 10 --run 5
until_true "s['quantum'] > $began + 20"
shown queue
[[ $(slots 'len(s["rows"])') == 3 ]] || fail "the rows have changed without a scheduler"
cosched-emulator job 5 --json | grep -q '"state": "PENDING"' || fail "job 5 has started without a scheduler"
kill -CONT "$plugin"
shown wait 5 --timeout 60

say "The manager is killed, and starts again."
kill_9 "$manager"
live_manager turns.toml --speed 20 --db turns.db
shown top --once
shown wait 1 2 4 --timeout 120
ended_as "COMPLETED*5"
shown history
stop_live plugin
"$python" - turns.db <<'PYTHON' || fail "the quanta are wrong"
import json, sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT number, parts FROM quanta ORDER BY id").fetchall()
pairs = sum(any(part[3] for part in json.loads(parts)) for _, parts in rows)
print(f"{len(rows)} quanta, {pairs} of them with a pair")
sys.exit([number for number, _ in rows] != list(range(1, len(rows) + 1)) or pairs < len(rows) / 4)
PYTHON
say "turns: five jobs ended once, and no quantum is missing"
