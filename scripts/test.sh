#!/usr/bin/env bash
# Runs the tests of the packages that are given, with the race detector. Those
# that only drive programs which they build, where it would watch nothing but the
# test itself, run without, and are compiled as these programs are, so that most
# of it is compiled once for both.
set -uo pipefail

go=${GO:-go}
flags=(-tags "${TAGS:-palyrainit}" -timeout 40m -p 2)

listed=$("$go" list "$@") || exit 1
raced=() driving=()
for package in $listed; do
  case $package in
    palyra/test/bench | palyra/test/e2e | palyra/test/fault | palyra/test/fault/* | palyra/test/host) driving+=("$package") ;;
    *) raced+=("$package") ;;
  esac
done

code=0
if ((${#raced[@]})); then
  CGO_ENABLED=1 "$go" test -race "${flags[@]}" "${raced[@]}" || code=$?
fi
if ((${#driving[@]})); then
  CGO_ENABLED=0 "$go" test -trimpath "${flags[@]}" "${driving[@]}" || code=$?
fi
exit "$code"
