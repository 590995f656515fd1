#!/usr/bin/env bash
# Runs every fuzz target of the repository for FUZZTIME each.
set -euo pipefail

go=${GO:-go}
fuzztime=${FUZZTIME:-10s}
found=0
while IFS=: read -r file target; do
  found=1
  package=./$(dirname "$file")
  echo "fuzzing $target in $package for $fuzztime"
  "$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package"
done < <(grep -roHE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' cmd internal test 2>/dev/null | sed 's/func //')
if ((found == 0)); then
  echo "there is no fuzz target" >&2
  exit 1
fi
