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

wanted=("$@")
look() {
  missing=()
  for pair in "${wanted[@]}"; do
    have "${pair%%=*}" || missing+=("${pair#*=}")
  done
}
look
((${#missing[@]} == 0)) && exit 0

if ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}; install them with your package manager and run make again" >&2
  exit 1
fi
become=()
if ((EUID != 0)); then
  # Without a terminal, sudo fails at once where it would ask for a password.
  if ! command -v sudo >/dev/null || ! sudo env true; then
    echo "missing: ${missing[*]}; as root run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  become=(sudo)
fi

# Others may install at the same time: apt-get waits for the lock of dpkg by
# itself, and for the locks of its lists and archives it is run again.
apt_get() { "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"; }
for pause in 10 30 0; do
  echo "installing: ${missing[*]}"
  # A machine with fresh package lists need not fetch them again; one with none
  # or stale ones has to.
  apt_get install -y --no-install-recommends "${missing[@]}" && exit 0
  apt_get update && apt_get install -y --no-install-recommends "${missing[@]}" && exit 0
  sleep "$pause"
  look # what somebody else has installed meanwhile
  ((${#missing[@]} == 0)) && exit 0
done
echo "could not install: ${missing[*]}; apt-get says why above" >&2
exit 1
