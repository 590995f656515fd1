#!/usr/bin/env bash
# Installs what `make build` left in a folder: the programs, their manual pages and
# completions, and on Linux the units of systemd. It builds nothing, so that root
# need not run a compiler: `make build` as yourself, then `sudo make install`.
#
# PREFIX is where it is used from (/usr/local); DESTDIR, for packages, stands before
# it while it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

built=${1:-bin}
prefix=${PREFIX:-/usr/local}
to=${DESTDIR:-}$prefix

if [[ $prefix != /* ]]; then
  echo "PREFIX is \"$prefix\"; it has to begin with /" >&2
  exit 2
fi
# What systemd would read as more than a path, even in quotes.
if [[ $prefix == *[[:cntrl:]\"\\\$\']* ]]; then
  echo "PREFIX has a quote, a backslash, a dollar sign or a control character in it, which no unit can name; choose another" >&2
  exit 2
fi
for program in palyra palyrad palyra-hook; do
  if [[ ! -x $built/$program ]]; then
    echo "$built/$program is not there; run \`make build\` first, as yourself" >&2
    exit 2
  fi
done

# put SOURCE NAME MODE installs one file and says where.
put() {
  mkdir -p "$(dirname "$to/$2")"
  install -m "$3" "$1" "$to/$2"
  echo "$to/$2"
}

# unit SOURCE NAME installs a unit that starts the palyrad of this prefix.
unit() {
  local text program="${prefix//%/%%}/bin/palyrad"
  if [[ $program == *[[:space:]]* ]]; then program="\"$program\""; fi
  text=$(<"$1")
  printf '%s\n' "${text//@BINDIR@\/palyrad/"$program"}" >"$scratch"
  put "$scratch" "$2" 644
}

scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT

umask 022
put "$built/palyra" bin/palyra 755
put "$built/palyra-hook" bin/palyra-hook 755
if [[ -f $built/palyra-wasm ]]; then # built where gcc is
  put "$built/palyra-wasm" bin/palyra-wasm 755
fi
put "$built/palyrad" bin/palyrad 755
if [[ -d $built/share ]]; then
  while IFS= read -r page; do put "$built/share/$page" "share/$page" 644; done < <(cd "$built/share" && find . -type f | sed 's|^\./||' | sort)
fi
if [[ $(uname) == Linux ]]; then
  unit packaging/linux/palyrad.service lib/systemd/system/palyrad.service
  unit packaging/linux/palyrad.user.service lib/systemd/user/palyrad.service
  put packaging/linux/palyra.sysusers lib/sysusers.d/palyra.conf 644
fi
