#!/usr/bin/env bash
# Makes sure that commands and files exist: each argument is command=package or
# /file=package, and the Debian package is installed by apt-get only when the
# command or file is absent.
set -euo pipefail

# Other systems have no bubblewrap; there the calls and tests that need it are
# refused and skipped.
[[ $(uname -s) == Linux ]] || exit 0

have() {
  if [[ $1 == /* ]]; then
    [[ -e $1 ]]
  else
    command -v "$1" >/dev/null
  fi
}

missing=()
for pair in "$@"; do
  have "${pair%%=*}" || missing+=("${pair#*=}")
done
((${#missing[@]} == 0)) && exit 0

if ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}; install them with your package manager and run make again" >&2
  exit 1
fi
become=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "missing: ${missing[*]}; as root run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  become=(sudo)
fi

echo "installing: ${missing[*]}"
# A machine with fresh package lists need not fetch them again; one with none
# or stale ones has to.
install() { "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }
if ! install "${missing[@]}"; then
  "${become[@]}" apt-get update
  install "${missing[@]}"
fi
