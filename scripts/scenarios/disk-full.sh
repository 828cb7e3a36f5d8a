#!/usr/bin/env bash
# The disk under the database is full for a while: submissions are refused, running jobs continue, and afterwards everything is written.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
cd "$scratch"
cat >plan.toml <<'TOML'
[[disk]]
at_s = 1200
for_s = 3000
TOML
live_manager --speed 300 --nodes 2 --node rua-4way --db accounts.db --faults plan.toml
live_plugin plugin easy
shown submit -J before -n 4 -t 60 --run 1200
until_said manager "disk full" 30
say "The disk is full."
refused "refused: the manager cannot write" submit -J meanwhile -n 1 -t 10
deadline_s=$((SECONDS + 30))
until cosched-emulator queue --json | grep -q -F '"jobs": []'; do
    ((SECONDS <= deadline_s)) || fail "the job has not ended"
    sleep 0.2
done
say "Its job has ended nevertheless."
cosched-emulator status --json >status.json
"$python" - <<'PYTHON' || fail "nothing waits to be written"
import json, sys
with open("status.json") as stream:
    accounting = json.load(stream)["accounting"]
print(f"waits to be written down: {accounting['backlog']} ({accounting['trouble']})")
sys.exit(not accounting["backlog"])
PYTHON
until_said manager "disk has room" 30
say "The disk has room again."
until_said manager "can be written to again" 10
shown wait 1 --timeout 30
shown submit -J afterwards -n 1 -t 10 --run 60
shown wait 2 --timeout 30
ended_as "COMPLETED*2"
stop_live plugin
sed 's/^/    /' manager.err
shown history --db accounts.db
"$python" - accounts.db <<'PYTHON' || fail "something was not written"
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
jobs = connection.execute("SELECT name, state FROM jobs ORDER BY id").fetchall()
kinds = [kind for (kind,) in connection.execute("SELECT kind FROM faults ORDER BY number")]
print(*kinds, sep=", ")
sys.exit(jobs != [("before", "COMPLETED"), ("afterwards", "COMPLETED")] or kinds != ["disk full", "disk has room"])
PYTHON
say "disk-full: submissions were refused while the disk was full, and nothing was lost"
