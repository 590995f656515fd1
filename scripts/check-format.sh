#!/usr/bin/env bash
# Fails when gofmt -s would change a hand-written file.
set -euo pipefail

folders=()
for folder in cmd internal test gen; do
  [[ -d $folder ]] && folders+=("$folder")
done
unformatted=$(gofmt -s -l "${folders[@]}")
if [[ -n $unformatted ]]; then
  echo "gofmt -s -w would change:" >&2
  echo "$unformatted" >&2
  exit 1
fi
