#!/usr/bin/env bash
# Builds cosign into .tools from the pinned module in packaging/cosign. It takes some minutes, and
# nothing if .tools has the pinned version. The checks of packages verify signatures with it.
set -euo pipefail
cd "$(dirname "$0")/.."

file=$PWD/.tools/cosign
go=${GO:-go}
version=$(awk '$1 == "github.com/sigstore/cosign/v2" {print $2}' packaging/cosign/go.mod)
if [[ -x $file ]] && "$go" version -m "$file" | grep -qF "github.com/sigstore/cosign/v2	$version"; then exit 0; fi

mkdir -p .tools
(cd packaging/cosign && CGO_ENABLED=0 nice -n 10 "$go" build -p 1 -trimpath -buildvcs=false -ldflags "-s -w" -o "$file.new" github.com/sigstore/cosign/v2/cmd/cosign)
mv "$file.new" "$file"
