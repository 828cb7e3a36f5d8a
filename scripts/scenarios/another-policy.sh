#!/usr/bin/env bash
# While jobs run, another scheduler with another policy replaces the first; without a scheduler, running jobs continue, others wait.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
cd "$scratch"
live_manager --speed 300 --nodes 2 --node rua-4way
policy_is() { # POLICY: of the scheduler that is served
    cosched-emulator status --json >status.json
    "$python" -c 'import json, sys; sys.exit(json.load(open("status.json"))["policy"] != sys.argv[1])' "$1" || fail "the policy is not '$1'"
}
live_plugin first easy
policy_is easy
shown submit -J left -n 6 -N 2 --ntasks-per-node 3 -t 40 --run 1800 --demand 100:0:0
sleep 0.3
shown queue

say "The scheduler leaves; new jobs stay pending."
kill -TERM "$plugin"
expect 143 first "$plugin" 20
policy_is ""
shown submit -J right -n 2 -N 2 -t 40 --run 600 --demand 100:0:0
sleep 0.3
shown queue
cosched-emulator queue --json >queue.json
"$python" -c 'import json, sys; sys.exit([job["state"] for job in json.load(open("queue.json"))["jobs"]] != ["RUNNING", "PENDING"])' ||
    fail "not one running and one pending job"

say "Another scheduler comes, with another policy."
live_plugin second rua
policy_is rua
shown wait 1 2 --timeout 60
shown history
ended_as "COMPLETED*2"
stop_live second
say "another-policy: easy, no scheduler, rua; no job was affected"
