#!/usr/bin/env bash
# A manager in one terminal, a scheduler in the other: they find each other in either order, and both end by themselves.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
workload=(--lublin 300 --nodes 8 --node rua-4way --mix high --estimates f-model --limits estimate)

say "The manager is started first."
run_pair rua "" "$scratch/manager-first" 60 "${workload[@]}"

say "The scheduler is started first, and over TCP."
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start scheduler cosched-plugin serve --connect "tcp://127.0.0.1:$port" --policy rua
scheduler=$started
sleep 1
start manager cosched-emulator serve --bind "tcp://127.0.0.1:$port" --out "$scratch/scheduler-first" "${workload[@]}"
expect 0 manager "$started" 60
expect 0 scheduler "$scheduler" 30
same_schedule "$scratch/manager-first" "$scratch/scheduler-first"
cosched-emulator compare "$scratch/manager-first" "$scratch/scheduler-first"

say "A manager without a scheduler, and a scheduler without a manager, give up with exit code 3."
start manager cosched-emulator serve --bind "ipc://$scratch/lonely" --wait 0.5 --lublin 5
manager=$started
start scheduler cosched-plugin serve --connect "ipc://$scratch/nobody" --wait 0.5
expect 3 scheduler "$started" 30
expect 3 manager "$manager" 30
say "two-terminals: both orders work"
