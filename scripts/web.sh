#!/usr/bin/env bash
# Builds the console from web/ into internal/surface/console/assets/dist, which palyrad embeds
# under the tag palyraweb. `make web` installs Node and the packages of web/ before it.
set -euo pipefail
cd "$(dirname "$0")/.."

npm --prefix web run --silent build >&2
(cd internal/surface/console/assets/dist && sha256sum palyra-verifier.html) >docs/format/verifier.sha256
