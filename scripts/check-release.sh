#!/usr/bin/env bash
# Tries `make release` in a clone with a tag of its own, and prints a line for each case, as the
# checks of packaging/checks do. The keys are made for the run.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d "${TMPDIR:-/tmp}/palyra-check-release.XXXXXX")
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
clone=$work/palyra
git clone --quiet --no-local . "$clone"
mkdir -p .tools
ln -s "$PWD/.tools" "$clone/.tools"
cd "$clone"
git config user.name tester
git config user.email tester@palyra.invalid
(cd packaging && CGO_ENABLED=0 "${GO:-go}" build -o "$work/pack" ./pack)
"$work/pack" keys -keys "$work/keys"

failed=0
release() { make --no-print-directory release GO="${GO:-go}" BUILDER="tester of releases" "$@" >"$work/output" 2>&1; }
pass() { echo "pass     release: $1"; }
fail() {
  echo "fail     release: $1"
  sed 's/^/         /' "$work/output" | tail -n 20
  failed=1
}
# refuses NAME TEXT ARGUMENT... expects a refusal that says TEXT.
refuses() {
  local name=$1 text=$2
  shift 2
  if release "$@" || ! grep -qF -- "$text" "$work/output"; then fail "$name"; else pass "$name"; fi
}
changelog() { # SECTION ENTRY
  printf '# Changelog\n\n## Unreleased\n\n## %s\n\n%s\n' "$1" "$2" >CHANGELOG.md
  git commit --quiet --allow-empty -am "a section of the changelog"
  git tag -f v9.9.9 >/dev/null
}

refuses "a version that is none" 'VERSION is "9.9"' VERSION=9.9 KEYS="$work/keys"
refuses "no version" 'VERSION is ""' KEYS="$work/keys"
refuses "no tag" "there is no tag v9.9.9" VERSION=9.9.9 KEYS="$work/keys"
changelog "9.9.9 - 2026-11-30" ""
refuses "a section without entries" "CHANGELOG.md has no entries for 9.9.9" VERSION=9.9.9 KEYS="$work/keys"
changelog "9.9.9 - unreleased" "- An entry."
refuses "a section without a date" "CHANGELOG.md has no date for 9.9.9" VERSION=9.9.9 KEYS="$work/keys"
changelog "9.9.9 - 2026-11-30" "- An entry."
refuses "no keys" "KEYS is empty" VERSION=9.9.9
refuses "a folder without public keys" "palyra.pub is absent" VERSION=9.9.9 KEYS="$work"
echo "// changed" >>cmd/palyra/main.go
refuses "a tree with changes" "changes that are not committed" VERSION=9.9.9 KEYS="$work/keys"
git checkout --quiet cmd/palyra/main.go
git commit --quiet --allow-empty -m "after the tag"
refuses "another commit than the tag's" "is not the commit that is checked out" VERSION=9.9.9 KEYS="$work/keys"
git checkout --quiet v9.9.9

complete() {
  local out=bin/release/9.9.9 program=$work/unpacked/palyra_9.9.9_linux_$(go env GOHOSTARCH)/bin/palyra
  release VERSION=9.9.9 KEYS="$work/keys" || return 1
  "$work/pack" verify -out "$out" -keys "$work/keys" >>"$work/output" 2>&1 || return 1
  mkdir "$work/unpacked"
  tar -C "$work/unpacked" -xf "$out/palyra_9.9.9_linux_$(go env GOHOSTARCH).tar.gz" 2>>"$work/output" || return 1
  "$program" version >>"$work/output" 2>&1 || return 1
  grep -q '^version  *v9.9.9$' "$work/output" && grep -q '^builder  *tester of releases$' "$work/output" || return 1
  grep -qF "sha256:$(sha256sum "$out/palyra_9.9.9.cdx.json" | cut -d' ' -f1)" "$work/output" || return 1
  "$program" version --verify "$out/SHA256SUMS.programs.sig" --key "$work/keys/palyra.pub" >>"$work/output" 2>&1
}
if complete; then pass "artifacts of a tag, verified"; else fail "artifacts of a tag, verified"; fi
refuses "artifacts that exist" "artifacts of a release are not replaced" VERSION=9.9.9 KEYS="$work/keys"
exit "$failed"
