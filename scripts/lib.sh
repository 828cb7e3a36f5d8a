# shellcheck shell=bash
# Functions for the other scripts; source this file. Every wait has a deadline.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
children=() # background processes that have not been waited for
scratch=

# say TEXT: a line, broken at blanks where a terminal is narrower.
say() { printf '%s\n' "$*" | fitted; }

fitted() {
    if [[ -t 1 ]]; then
        fold -s -w "$(tput cols 2>/dev/null || echo 80)"
    else
        cat
    fi
}

fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# set_up EXTRA...: set $python to a Python that has cosched with these extras. A COSCHED_PYTHON is used unchanged.
set_up() {
    python=${COSCHED_PYTHON:-$project/.venv/bin/python}
    if [[ -z ${COSCHED_PYTHON:-} ]]; then
        "$project/scripts/setup" "$@"
    fi
}

# begin EXTRA...: set up; make $scratch, removed at the script's end like its processes; put the commands on PATH.
begin() {
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    set_up "$@"
    local parent=${TMPDIR:-/tmp}
    if ((${#parent} > 60)); then # the path of a socket must be short
        parent=/tmp
    fi
    scratch=$(mktemp -d "$parent/cosched-script-XXXXXX")
    mkdir "$scratch/bin"
    local command
    for command in plugin emulator; do
        printf '#!/bin/sh\nexec "%s" -m cosched_%s "$@"\n' "$python" "$command" >"$scratch/bin/cosched-$command"
        chmod +x "$scratch/bin/cosched-$command"
    done
    PATH=$scratch/bin:$PATH
}

clean_up() {
    trap '' INT TERM HUP
    local pid
    for pid in "${children[@]}"; do
        kill -TERM "$pid" 2>/dev/null || true
    done
    for pid in "${children[@]}"; do
        await "$pid" 5 || true
    done
    if [[ -n $scratch ]]; then
        rm -rf "$scratch"
    fi
}

# start NAME COMMAND...: run it in the background; $started is its process, $scratch/NAME.out and .err its output.
start() {
    local name=$1
    shift
    : >"$scratch/$name.err" # `until_said` may read it before the command runs
    "$@" >"$scratch/$name.out" 2>"$scratch/$name.err" </dev/null &
    started=$!
    children+=("$started")
}

# one_ended SECONDS PID...: return 0 as soon as one of the processes has ended, 1 after SECONDS.
one_ended() {
    local until_s=$((SECONDS + $1)) pid
    shift
    while ((SECONDS <= until_s)); do
        for pid in "$@"; do
            kill -0 "$pid" 2>/dev/null || return 0
        done
        sleep 0.05
    done
    return 1
}

# await PID SECONDS: return the exit code of that process; if it takes longer, kill it and return 124.
await() {
    local pid=$1 code=0 other rest=()
    if one_ended "$2" "$pid"; then
        wait "$pid" 2>/dev/null || code=$?
    else
        code=124
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    fi
    for other in "${children[@]}"; do
        [[ $other == "$pid" ]] || rest+=("$other")
    done
    children=("${rest[@]}")
    return "$code"
}

# kill_9 PID: kill that process with SIGKILL, and wait for its end, without the shell's message about it.
kill_9() {
    local code=0
    { kill -KILL "$1" && await "$1" 10; } 2>/dev/null || code=$?
    ((code == 137)) || fail "could not kill process $1: $code"
}

# expect CODE NAME PID SECONDS: wait for the process that `start` began as NAME; its exit code must be CODE.
expect() {
    local code=0 late=
    await "$3" "$4" || code=$?
    if ((code != $1)); then
        ((code != 124)) || late=" (not done in time, and killed)"
        sed 's/^/    /' "$scratch/$2.err" >&2
        fail "the $2's exit code is $code, not $1$late"
    fi
}

# until_said NAME TEXT SECONDS: wait until the process that `start` began as NAME has said TEXT on its standard error.
until_said() {
    local until_s=$((SECONDS + $3))
    until grep -q -F -e "$2" "$scratch/$1.err"; do
        if ((SECONDS > until_s)); then
            sed 's/^/    /' "$scratch/$1.err" >&2
            fail "$1 has not said '$2' within $3 s"
        fi
        sleep 0.02
    done
}

# run_pair POLICY SETTINGS DIR SECONDS WORKLOAD...: one run with a manager's and a scheduler's process; the run folder is DIR.
# SETTINGS are `--set` arguments for the scheduler, separated by blanks.
run_pair() {
    local policy=$1 settings dir=$3 deadline_s=$4 endpoint=ipc://$scratch/socket manager scheduler
    read -r -a settings <<<"$2"
    shift 4
    start manager cosched-emulator serve --bind "$endpoint" --out "$dir" --force "$@"
    manager=$started
    start scheduler cosched-plugin serve --connect "$endpoint" --policy "$policy" "${settings[@]}"
    scheduler=$started
    # The first process to end shows an error, if there was one; the other would wait for it.
    one_ended "$deadline_s" "$manager" "$scheduler" || true
    if kill -0 "$scheduler" 2>/dev/null; then
        expect 0 manager "$manager" 0
        expect 0 scheduler "$scheduler" 30
    else
        expect 0 scheduler "$scheduler" 0
        expect 0 manager "$manager" 30
    fi
}

# same_schedule DIR DIR: fail unless the two run folders hold the same schedule, byte for byte.
same_schedule() {
    local file
    for file in workload.swf workload-usage.csv jobs.csv allocations.csv schedule.swf summary.json; do
        if [[ -e $1/$file || $file != workload-usage.csv ]]; then # only a workload with characteristics has that file
            cmp "$1/$file" "$2/$file" || fail "not the same schedule: $file of $1 and $2"
        fi
    done
}

# free_port: print the number of a free TCP port.
free_port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# live_manager OPTION...: start a live manager that serves users; $manager is its process, and commands for users find it.
live_manager() {
    export COSCHED_MANAGER=ipc://$scratch/users
    start manager cosched-emulator serve --bind "ipc://$scratch/socket" --users "$COSCHED_MANAGER" --clock scaled "$@"
    manager=$started
    until_said manager "serving: " 20
}

# live_plugin NAME POLICY OPTION...: start a scheduler for it, as NAME, and wait until it is served; $plugin is its process.
live_plugin() {
    local name=$1
    shift
    start "$name" cosched-plugin serve --connect "ipc://$scratch/socket" --policy "$@"
    plugin=$started
    until_said "$name" "welcomed by the manager" 20
}

# stop_live: end the manager as an operator does, and check the exit of manager and scheduler.
stop_live() {
    kill -TERM "$manager"
    expect 143 manager "$manager" 20
    expect 0 "$1" "$plugin" 20
}

# shown COMMAND...: run a command of cosched-emulator as in a transcript; it must succeed.
shown() {
    say "\$ cosched-emulator $*"
    cosched-emulator "$@" 2>"$scratch/shown.err" || fail "$*: $(cat "$scratch/shown.err")"
    sed 's/^/    /' "$scratch/shown.err"
}

# refused TEXT COMMAND...: the same for a command that must fail with exit code 1 and TEXT.
refused() {
    local text=$1 code=0
    shift
    say "\$ cosched-emulator $*"
    cosched-emulator "$@" 2>"$scratch/shown.err" || code=$?
    sed 's/^/    /' "$scratch/shown.err"
    ((code == 1)) || fail "$*: exit code $code, not 1"
    grep -q -F -e "$text" "$scratch/shown.err" || fail "$*: '$text' is not in its error output"
}

# ended_as STATE...: fail unless the ended jobs, in order of id, have these states (STATE*N: N jobs in a row), and started once.
ended_as() {
    cosched-emulator history --json >"$scratch/history.json"
    "$python" - "$scratch/history.json" "$@" <<'PYTHON' || fail "the jobs have not ended as expected"
import json, sys
with open(sys.argv[1]) as stream:
    rows = sorted(json.load(stream)["jobs"], key=lambda row: row["job_id"])
wanted = []
for word in sys.argv[2:]:
    state, _, count = word.partition("*")
    wanted += [state] * int(count or 1)
found = [row["state"] for row in rows]
if found != wanted or any(row["starts"] > 1 for row in rows):
    print("expected", wanted, "each started once, got", [(row["job_id"], row["state"], row["starts"]) for row in rows])
    sys.exit(1)
PYTHON
}
