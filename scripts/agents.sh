#!/usr/bin/env bash
# Runs the tests of test/agents where loopback is the only network: whatever the agents
# would tell their vendors, or fetch from them, does not leave the machine.
set -euo pipefail

agents=${1:?usage: agents.sh DIRECTORY PATTERN}
pattern=${2-}
binary=$PWD/bin/agents.test
"${GO:-go}" test -c -o "$binary" ./test/agents
# Whoever is not root is somebody with capabilities in a user namespace of their own.
apart=(unshare --net)
if ((EUID != 0)); then
  apart=(unshare --user --map-current-user --keep-caps --net)
fi
cd test/agents
TEST_PALYRA_AGENTS=$agents exec "${apart[@]}" sh -c \
  'ip link set lo up && exec "$@"' sh "$binary" -test.v -test.timeout 60m -test.run "$pattern"
