#!/usr/bin/env bash
# Builds the console from web/ into internal/console/assets/dist, which palyrad embeds
# under the tag palyraweb.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v npm >/dev/null; then
  echo "the console takes npm to be built (Debian: apt-get install npm); \`make build WEB=\` builds palyrad without it" >&2
  exit 1
fi
scripts/npm.sh web || {
  echo "\`make build WEB=\` builds palyrad without its console" >&2
  exit 1
}
npm --prefix web run --silent build >&2
(cd internal/console/assets/dist && sha256sum palyra-verifier.html) >docs/format/verifier.sha256
