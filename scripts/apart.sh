#!/usr/bin/env bash
# Runs the tests of a package where loopback is the only network: whatever the programs of
# others in them would fetch, or tell their makers, does not leave the machine. With the
# package's folder as working directory, go test prints what a passing test prints. With RUNAS, the
# number of a user, root has that user run them. One test runs at a time: they share one
# loopback interface, and `palyra up` uses the same ports in each.
set -euo pipefail

package=${1:?usage: apart.sh FOLDER PATTERN}
pattern=${2-}
binary=$PWD/bin/$(basename "$package").test
"${GO:-go}" test -c -o "$binary" "./$package"
# Whoever is not root is somebody with capabilities in a user namespace of their own, until
# loopback is up: sandboxes in the tests start without them, as they do for people.
plain=()
apart=(unshare --net)
if ((EUID != 0)) || [[ -n ${RUNAS-} ]]; then
  apart=(unshare --user --map-current-user --keep-caps --net)
  plain=(setpriv --inh-caps=-all --ambient-caps=-all)
fi
if [[ -n ${RUNAS-} ]]; then
  temporary=$(mktemp -d)
  trap 'rm -rf "$temporary"' EXIT
  chown "$RUNAS:$RUNAS" "$temporary"
  apart=(setpriv "--reuid=$RUNAS" "--regid=$RUNAS" --clear-groups env "HOME=$temporary" "TMPDIR=$temporary" "${apart[@]}")
fi
cd "$package"
"${apart[@]}" sh -c 'ip link set lo up && exec "$@"' sh "${plain[@]}" "$binary" -test.v -test.parallel 1 -test.timeout 60m -test.run "$pattern"
