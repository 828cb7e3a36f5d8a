#!/usr/bin/env bash
# Two schedulers for one manager: an undeclared second one is refused, a declared standby takes over when the first falls silent.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
live_manager --speed 150 --nodes 4 --node rua-4way
live_plugin first easy
first=$plugin
shown submit -J before -n 16 -t 30 --run 700
shown submit -J after -n 16 -t 30 --run 60

say "A second scheduler is refused."
start second cosched-plugin serve --connect "ipc://$scratch/socket" --policy rua --wait 1
expect 3 second "$started" 20
sed 's/^/    /' "$scratch/second.err"
grep -q busy "$scratch/second.err" || fail "the second scheduler was not told that another one is served"

say "A declared standby waits."
start standby cosched-plugin serve --connect "ipc://$scratch/socket" --policy easy --standby
plugin=$started
until_said standby "waiting as a standby" 20
kill -0 "$first" 2>/dev/null || fail "the first scheduler is not there any more"

say "The first one is stopped (SIGSTOP)."
now_ms() { printf '%s\n' "$((${EPOCHREALTIME/[.,]/} / 1000))"; }
stopped_ms=$(now_ms)
kill -STOP "$first"
until_said standby "welcomed by the manager" 10
took_ms=$(($(now_ms) - stopped_ms))
say "The standby was welcomed after $took_ms ms."
((took_ms <= 2000)) || fail "that took more than 2 s"

say "The first one continues, is told of its replacement, and leaves."
kill -CONT "$first"
expect 3 first "$first" 20
sed 's/^/    /' "$scratch/first.err"
grep -q replaced "$scratch/first.err" || fail "the first scheduler was not told that it was replaced"
shown wait 1 2 --timeout 60
ended_as "COMPLETED*2"
stop_live standby
say "standby: took over after $took_ms ms; no job was affected"
