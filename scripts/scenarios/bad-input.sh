#!/usr/bin/env bash
# Each kind of bad input gives one line that names the error, and exit code 2; nothing is written, and no process waits.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
cd "$scratch"
mkdir bad
cd bad
cases=0

# one_line TEXT COMMAND...: the command must fail with exit code 2 and one line, with TEXT in it.
one_line() {
    local text=$1 code=0
    shift
    timeout 30 "$@" >"$scratch/said.out" 2>"$scratch/said.err" </dev/null || code=$?
    ((code == 2)) || fail "exit code $code, not 2: $* ($(tail -n 1 "$scratch/said.err"))"
    [[ ! -s $scratch/said.out ]] || fail "something on standard output: $*"
    (($(wc -l <"$scratch/said.err") == 1)) || fail "not one line but: $(cat "$scratch/said.err") -- $*"
    grep -q -F -e "$text" "$scratch/said.err" || fail "'$text' is not in: $(cat "$scratch/said.err") -- $*"
    cat "$scratch/said.err"
    cases=$((cases + 1))
}

simulate() { # TEXT ARGUMENT...: of a run of five jobs
    local text=$1
    shift
    one_line "$text" cosched-emulator simulate --lublin 5 "$@"
}
file() { # NAME LINE...
    local name=$1
    shift
    printf '%s\n' "$@" >"$name"
}

# Scenarios
one_line "missing.toml" cosched-emulator simulate missing.toml
file broken.toml 'x = ['
one_line "broken.toml: expected TOML" cosched-emulator simulate broken.toml
file key.toml '[cluster]' 'noods = 3'
one_line "did you mean 'nodes'?" cosched-emulator simulate key.toml
file section.toml '[clustr]' 'nodes = 3'
one_line "did you mean 'cluster'?" cosched-emulator simulate section.toml
file type.toml '[cluster]' 'nodes = "three"'
one_line "type.toml: cluster.nodes: expected a whole number" cosched-emulator simulate type.toml
file script.toml '[workload]' 'lublin = 5' '[[script]]' 'at_s = 1' 'do = "fail-node"' 'node = 128'
one_line "script[0].node: expected a node from 0 to 127" cosched-emulator simulate script.toml
file policy.toml '[workload]' 'lublin = 5' '[policy]' 'preset = "easy"'
one_line "the scheduler that connects brings its own" cosched-emulator serve policy.toml --bind "ipc://$scratch/socket"
one_line "expected one of swf, lublin, nas and applications, got none" cosched-emulator simulate

# Logs
one_line "missing.swf" cosched-emulator simulate --swf missing.swf
file short.swf '; MaxProcs: 4' '1 0 1 2 3'
one_line "short.swf:2: expected 18 fields, got 5" cosched-emulator simulate --swf short.swf
file word.swf '1 0 1 two 1 -1 -1 1 9 -1 1 1 1 1 1 -1 -1 -1'
one_line "word.swf:1" cosched-emulator simulate --swf word.swf
: >empty.swf
one_line "empty.swf: expected at least one job" cosched-emulator simulate --swf empty.swf
printf '\000\377\001\n' >binary.swf
one_line "binary.swf:1" cosched-emulator simulate --swf binary.swf
file whole.swf '1 0 1 2 1 -1 -1 1 9 -1 1 1 1 1 1 -1 -1 -1'
gzip -c whole.swf | head -c 40 >cut.swf.gz
one_line "cut.swf.gz" cosched-emulator simulate --swf cut.swf.gz
one_line "expected one of swf, lublin, nas and applications, got swf and lublin" cosched-emulator simulate --swf whole.swf --lublin 5
one_line "missing.swf" cosched-emulator workload describe missing.swf

# Options
simulate "no policy 'ruaa'; did you mean 'rua'?" --policy ruaa
simulate "did you mean 'threshold'?" --policy lct --set placement.treshold=1
simulate "expected a number >= 1" --policy lct --set placement.threshold=0.5
simulate "expected KEY=VALUE" --policy lct --set placement
simulate "policy nothing.of.this:Name" --policy nothing.of.this:Name
simulate "rua-4way" --node rua
simulate "expected either nodes or processors, got both" --nodes 3 --processors 5
simulate "expected three whole shares" --mix 1:2
simulate "workload.aarr: expected a number above 0" --aarr nan
simulate "workload.estimate_factor" --estimates f-model --estimate-factor -1
mkdir there
simulate "there: expected a new folder" --out there
simulate "there: " --out there --force
one_line "zero" cosched-emulator simulate --lublin zero
one_line "--nodse" cosched-emulator simulate --nodse 5
one_line "simulat" cosched-emulator simulat
one_line "--connect" cosched-plugin serve
one_line "--bind" cosched-emulator serve --lublin 5

# Endpoints
one_line "192.0.2.1 is not a loopback address" cosched-emulator serve --lublin 5 --bind tcp://192.0.2.1:5555
one_line "192.0.2.1 is not a loopback address" cosched-plugin serve --connect tcp://192.0.2.1:5555
one_line "expected ipc://PATH or tcp://" cosched-emulator serve --lublin 5 --bind nonsense
one_line "did you mean 'rua'?" cosched-plugin serve --connect "ipc://$scratch/socket" --policy ruaa

# Results
one_line "missing: expected a run folder" cosched-emulator compare missing
one_line "folder without summary.json" cosched-emulator compare there
one_line "expected a run folder" cosched-emulator plot there --kind ecdf --out picture.png

left=$(find . -newer whole.swf -type f ! -name '*.swf*')
[[ -z $left && -z $(ls there) ]] || fail "something was written: $left $(ls there)"
say "bad-input: $cases kinds of bad input, each refused with exit code 2"
