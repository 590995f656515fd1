#!/usr/bin/env bash
# Runs a command and fails when the machine is another one afterwards: when an
# entry of /etc has another name, kind, mode, owner or content, or /dev/null is
# not the device that it should be. Tests run as root too, and a bug of theirs
# once overwrote the password file. What this user may not read is left out.
#
# HOST_ETC and HOST_NULL name other places, for the test of this script.
set -uo pipefail

etc=${HOST_ETC:-/etc}
null=${HOST_NULL:-/dev/null}

# GNU find and stat; the tests that could do harm are for Linux.
if [[ $(uname -s) != Linux ]]; then
  exec "$@"
fi

look() {
  # One line for each entry, and one for the content of each file.
  find "$etc" -printf '%p: %y %m %U:%G %l\n' 2>/dev/null
  find "$etc" -type f -readable -print0 2>/dev/null | xargs -0 -r sha256sum 2>/dev/null |
    while read -r sum name; do echo "${name}: content $sum"; done
}

kept=$(mktemp -d) || exit 1
finish() {
  local code=$1 changed what
  look | LC_ALL=C sort >"$kept/after"
  changed=$(LC_ALL=C comm -3 "$kept/before" "$kept/after" | sed 's/^\t//; s/: .*//' | LC_ALL=C sort -u)
  if [[ -n $changed ]]; then
    echo "the tests changed the machine; these entries are not what they were before:" >&2
    sed 's/^/  /' <<<"$changed" >&2
    code=1
  fi
  what=$(stat -L -c '%F %t:%T' "$null" 2>&1)
  if [[ $what != "character special file 1:3" ]]; then
    echo "$null is not the null device (character special file 1:3): $what" >&2
    code=1
  fi
  rm -rf "$kept"
  exit "$code"
}
look | LC_ALL=C sort >"$kept/before"
# What is interrupted has changed what it has changed. The command stays in the
# foreground: one in the background would ignore interrupts, and so would all
# that it starts.
trap 'finish 130' INT TERM
"$@"
finish $?
