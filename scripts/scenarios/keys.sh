#!/usr/bin/env bash
# Manager, scheduler and users over TCP with keys: a peer with the right key is accepted, and a user has fewer rights than an operator.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
begin
cd "$scratch"
shown keys manager keyring
for name in rua mallory alice olga; do
    shown keys new own "$name"
done
shown keys allow keyring plugin rua own/rua.key
shown keys allow keyring user alice own/alice.key
shown keys allow keyring operator olga own/olga.key
shown keys list keyring

scheduler=tcp://127.0.0.1:$(free_port)
export COSCHED_MANAGER
COSCHED_MANAGER=tcp://127.0.0.1:$(free_port)
start manager cosched-emulator serve --clock scaled --speed 60 --nodes 4 --bind "$scheduler" --users "$COSCHED_MANAGER" --keys keyring
manager=$started
until_said manager "serving: " 20
export COSCHED_MANAGER_KEY=keyring/manager.key

say "A scheduler with an unknown key is refused."
start wrong cosched-plugin serve --connect "$scheduler" --key own/mallory.key_secret --wait 1
expect 3 wrong "$started" 20
sed 's/^/    /' wrong.err
start right cosched-plugin serve --connect "$scheduler" --key own/rua.key_secret --policy rua
plugin=$started
until_said right "welcomed by the manager" 20

say "alice submits; mallory's key and a scheduler's key are refused."
COSCHED_KEY=own/alice.key_secret shown submit -J hers -n 2 -t 60
code=0
for name in mallory rua; do
    COSCHED_KEY=own/$name.key_secret cosched-emulator queue --timeout 1 2>refusal || code=$?
    sed 's/^/    /' refusal
    ((code == 3)) || fail "$name: exit code $code, not 3"
done

say "alice may not drain nodes; olga, an operator, may, and may cancel jobs of other users."
COSCHED_KEY=own/alice.key_secret refused "only operators" drain 0
COSCHED_KEY=own/olga.key_secret shown drain 0 --reason "new keys"
COSCHED_KEY=own/olga.key_secret shown submit -J olgas -n 1 -t 20 --run 30 --hold
COSCHED_KEY=own/alice.key_secret refused "not yours" cancel 2
COSCHED_KEY=own/olga.key_secret shown release 2
COSCHED_KEY=own/olga.key_secret shown cancel 1
shown keys revoke keyring user alice
sleep 0.5
code=0
COSCHED_KEY=own/alice.key_secret cosched-emulator queue --timeout 1 2>refusal || code=$?
sed 's/^/    /' refusal
((code == 3)) || fail "alice's key was revoked: exit code $code, not 3"
COSCHED_KEY=own/olga.key_secret shown wait 2 --timeout 30
stop_live right
say "keys: only peers with a known key, each with its own rights"
