#!/usr/bin/env bash
# Makes the state directory of an older release with the programs of that release,
# built from the sources of its commit.
#
#   scripts/upgrade.sh make COMMIT EVENTS ARCHIVE   makes one, packed
#   scripts/upgrade.sh test COMMIT EVENTS           makes one and tests the upgrade of it
#
# The commit has to be in the clone.
set -euo pipefail
cd "$(dirname "$0")/.."

what=$1 commit=$(git rev-parse "$2^{commit}") events=$3
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT

mkdir "$kept/src"
git archive "$commit" | tar -x -C "$kept/src"
(
  cd "$kept/src"
  export CGO_ENABLED=0
  GOOS=linux "${GO:-go}" build -trimpath -buildvcs=false -ldflags "-s -w" -o "$kept/palyra-init" ./cmd/palyra-init
  # That release embeds the helper in its own place, and older ones embed it compressed.
  initbin=$(find internal -type d -path '*/jail/initbin')
  cp "$kept/palyra-init" "$initbin/"
  gzip -n -9 -c "$kept/palyra-init" >"$initbin/palyra-init.gz"
  "${GO:-go}" build -trimpath -buildvcs=false -tags palyrainit -o "$kept/" ./cmd/palyrad ./cmd/palyra
)

archive=$kept/${commit:0:12}.tar.gz
TEST_PALYRA_UPGRADE_FROM=$kept TEST_PALYRA_UPGRADE_COMMIT=$commit TEST_PALYRA_UPGRADE_EVENTS=$events TEST_PALYRA_UPGRADE_TO=$archive \
  "${GO:-go}" test -count=1 -v -timeout 30m -run '^TestMake$' ./test/upgrade
case $what in
  make) mv "$archive" "$4" && chmod 644 "$4" ;;
  test) TEST_PALYRA_UPGRADE_STATE=$archive "${GO:-go}" test -count=1 -v -timeout 30m ./test/upgrade ;;
  *) echo "scripts/upgrade.sh make|test" >&2 && exit 2 ;;
esac
