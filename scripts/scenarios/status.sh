#!/usr/bin/env bash
# The state of manager and scheduler at any time: as text, as JSON, for Prometheus, and in a log of JSON lines.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
cd "$scratch"
page() { # HOST:PORT: print its metrics
    "$python" -c 'import sys, urllib.request; print(urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=10).read().decode(), end="")' "$1"
}
has() { # FILE TEXT...
    local file=$1 text
    shift
    for text in "$@"; do
        grep -q -e "$text" "$file" || fail "'$text' is not in: $(cat "$file")"
    done
}
managers=127.0.0.1:$(free_port)
plugins=127.0.0.1:$(free_port)
live_manager --speed 600 --nodes 4 --node rua-4way --metrics "$managers" --log-json
live_plugin plugin rua --status "ipc://$scratch/status" --metrics "$plugins" --log-json
shown submit -J one -n 8 -t 180 --run 4800
shown submit -J two -n 12 -t 60 --run 600
sleep 0.3

shown status >manager.txt
cat manager.txt
has manager.txt "policy *rua" "latency p99" "jobs running *1" "jobs pending *1" "refused actions *0"
say "\$ cosched-plugin status"
cosched-plugin status "ipc://$scratch/status" >plugin.txt
cat plugin.txt
has plugin.txt "served" "rua"
cosched-plugin status "ipc://$scratch/status" --json >plugin.json
"$python" -c 'import json, sys; status = json.load(open(sys.argv[1])); sys.exit((status["queue_length"], status["running_jobs"]) != (1, 1))' plugin.json ||
    fail "the scheduler does not report one pending and one running job: $(cat plugin.json)"

page "$managers" >manager.prom
page "$plugins" >plugin.prom
say "Metrics, without comments:"
grep -h -v '^#' manager.prom plugin.prom | sed 's/^/    /'
has manager.prom "^cosched_manager_uptime_seconds "
has plugin.prom "^cosched_plugin_queue_length 1" "^cosched_plugin_served 1"

shown wait 1 2 --timeout 60
stop_live plugin
say "The logs, each line an object:"
sed 's/^/    /' manager.err plugin.err
"$python" - manager.err plugin.err <<'PYTHON' || fail "a line of the logs is not as expected"
import json, sys
for name, wanted in zip(sys.argv[1:], ({"serving", "scheduler-welcomed"}, {"welcomed", "bye"})):
    with open(name) as stream:
        events = {json.loads(line)["event"] for line in stream}
    if not wanted <= events:
        sys.exit(f"{name}: {wanted - events} not among {events}")
PYTHON
say "status: both answer"
