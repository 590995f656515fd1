#!/usr/bin/env bash
# Builds cosign from the pinned module in packaging/cosign: cosign.sh FILE. It takes some minutes, and
# nothing if the file is the pinned version. The checks of packages verify signatures with it.
set -euo pipefail
cd "$(dirname "$0")/../packaging/cosign"

file=$1
go=${GO:-go}
version=$(awk '$1 == "github.com/sigstore/cosign/v2" {print $2}' go.mod)
if [[ -x $file ]] && "$go" version -m "$file" | grep -qF "github.com/sigstore/cosign/v2	$version"; then exit 0; fi

CGO_ENABLED=0 nice -n 10 "$go" build -p 1 -trimpath -ldflags "-s -w" -o "$file.new" github.com/sigstore/cosign/v2/cmd/cosign
mv "$file.new" "$file"
