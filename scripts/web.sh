#!/usr/bin/env bash
# Builds the console from web/ into internal/surface/console/assets/dist, which palyrad embeds
# under the tag palyraweb. `make web` installs Node and the packages of web/ before it.
set -euo pipefail
cd "$(dirname "$0")/.."

npm --prefix web run --silent build >&2
(cd internal/surface/console/assets/dist && sha256sum palyra-verifier.html) >docs/format/verifier.sha256
# palyrad serves the compressed form as it is, and decompresses a file for the few clients that do
# not accept it. Without name and time (-n), the same sources give the same bytes.
find internal/surface/console/assets/dist -type f -regex '.*\.\(html\|js\|mjs\|css\|svg\|json\|webmanifest\|wasm\)' -exec gzip -n -9 {} +
