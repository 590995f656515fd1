#!/usr/bin/env bash
# Runs the tests of the packages that are given, in tiers:
#
#   race      everything else, with the race detector
#   attack    the attack matrix, with it as well
#   programs  tests that only drive programs which they build, without it: it would
#             watch nothing but the test itself. They are compiled as these programs
#             are, so that most of it is compiled once for both
#   web       the console's own tests, and
#   browser   the console in Chromium against the palyrad of bin, both where WEB is set
#
# Every tier runs, whatever became of the one before, and a tier that fails fails
# the whole. Each has a budget of seconds on two cores; one that takes longer is
# warned of and fails nothing. Last come the times, and what failed once more:
# of a long log only the end may be seen.
#
# RACE are the flags of the first two, -race unless told.
#
# RACE_BUDGET, ATTACK_BUDGET, PROGRAMS_BUDGET, WEB_BUDGET and BROWSER_BUDGET are other
# budgets, for the test of this script.
set -uo pipefail

go=${GO:-go}
read -ra watched <<<"${RACE:--race}"
flags=(-tags "${TAGS:-palyrainit}" -timeout 25m -p 2)

listed=$("$go" list "$@") || exit 1
race=() attack=() programs=()
for package in $listed; do
  case $package in
    palyra/test/attack | palyra/test/attack/*) attack+=("$package") ;;
    palyra/test/bench | palyra/test/e2e | palyra/test/fault | palyra/test/fault/* | palyra/test/host | palyra/test/upgrade | palyra/test/wasm/spec) programs+=("$package") ;;
    *) race+=("$package") ;;
  esac
done

kept=$(mktemp -d) || exit 1
trap 'rm -rf "$kept"' EXIT
code=0 times=() warnings=()

clock() { printf '%dm%02ds' "$(($1 / 60))" "$(($1 % 60))"; }

# tier NAME BUDGET PACKAGES COMMAND...: runs go test on that many packages, the
# last words of the command.
tier() {
  local name=$1 budget=$2 packages=$3 result=ok began=$SECONDS took
  shift 3
  if ((packages == 0)); then return; fi
  "$@" 2>&1 | tee "$kept/$name"
  local failed=${PIPESTATUS[0]}
  took=$((SECONDS - began))
  if ((failed)); then
    result=FAIL
    code=$failed
  fi
  times+=("$(printf '%-9s %-4s %7s of %s' "$name" "$result" "$(clock "$took")" "$(clock "$budget")")")
  if ((took > budget)); then
    warnings+=("warning: the tier $name took $(clock "$took"), more than its budget of $(clock "$budget")")
  fi
}

tier race "${RACE_BUDGET:-600}" "${#race[@]}" env CGO_ENABLED=1 "$go" test "${watched[@]}" "${flags[@]}" "${race[@]}"
tier attack "${ATTACK_BUDGET:-240}" "${#attack[@]}" env CGO_ENABLED=1 "$go" test "${watched[@]}" "${flags[@]}" "${attack[@]}"
tier programs "${PROGRAMS_BUDGET:-720}" "${#programs[@]}" env CGO_ENABLED=0 "$go" test -trimpath "${flags[@]}" "${programs[@]}"
if [[ -n ${WEB:-} ]]; then
  tier web "${WEB_BUDGET:-60}" 1 env NO_COLOR=1 PATH="${NODE_BIN:+$NODE_BIN:}$PATH" npm --prefix web run --silent test
  tier browser "${BROWSER_BUDGET:-240}" 1 env NO_COLOR=1 PATH="${NODE_BIN:+$NODE_BIN:}$PATH" npm --prefix web run --silent test:browser
fi

echo "== tiers"
printf '%s\n' "${times[@]}" "${warnings[@]}"
if ((code)); then
  echo "== failed"
  # Packages that have no word of their own, such as one that panicked or does
  # not compile, have their line from go.
  cat "$kept"/* | grep -E '^ *--- FAIL: |^ *FAIL\s+\S|^ +✘ |^panic: |^WARNING: DATA RACE|\.go:[0-9]+:[0-9]+: ' | awk '!seen[$0]++' | head -n 200
fi
exit "$code"
