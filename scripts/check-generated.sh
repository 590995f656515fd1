#!/usr/bin/env bash
# Generates from the protos into a temporary directory, and compares the result with the committed
# files; compares docs/reference with the pages that scripts/reference generates.
set -euo pipefail

if [[ ! -f buf.gen.yaml ]]; then
  echo "no buf.gen.yaml: nothing is generated"
  exit 0
fi
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

buf generate -o "$fresh"
shopt -s nullglob
outputs=("$fresh"/*)
if ((${#outputs[@]} == 0)); then
  echo "buf generate wrote nothing" >&2
  exit 1
fi
# buf writes only below the folders that buf.gen.yaml names, so comparing
# those folders finds what is changed, missing and left over.
while read -r folder; do
  if ! diff -r "$folder" "$fresh/$folder"; then
    echo "generated code in $folder is not current: run make generate" >&2
    exit 1
  fi
done < <(awk '$1 == "out:" || ($1 == "-" && $2 == "out:") {print $NF}' buf.gen.yaml | sort -u)

"${GO:-go}" run ./scripts/reference -check
