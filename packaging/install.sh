#!/bin/sh
# Installs palyra from a folder or a URL with the artifacts of a release:
#
#   sh install.sh --from DIR_OR_URL --key palyra.pub
#
# It installs into ~/.local without root, or into /usr/local with --system. It checks the signature
# of SHA256SUMS by the key and the digest of the archive before it unpacks anything, and installs
# the bytes that it checked: it works on copies in a new directory that only this user can open.
set -eu

# The public key of the release, in PEM. It is empty if the release has none; --key then names one.
key_of_release='@KEY@'

usage() {
  cat <<'EOF'
usage: sh install.sh --from DIR_OR_URL [--key FILE] [--prefix DIR | --system]
       sh install.sh --uninstall [--prefix DIR | --system]

  --from DIR_OR_URL  folder or https URL with SHA256SUMS, its signature and the archives
  --key FILE         public key of the release: palyra.pub (PEM) or minisign.pub
  --prefix DIR       where to install; default ~/.local
  --system           install into /usr/local for all users; needs root
  --uninstall        remove the files that an earlier run installed
EOF
}

refuse() {
  printf 'install.sh: %s\n' "$1" >&2
  if [ -n "${2:-}" ]; then
    printf 'next: %s\n' "$2" >&2
  fi
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# --- arguments

from= key= prefix= system= uninstall=
while [ $# -gt 0 ]; do
  case $1 in
  --from | --key | --prefix)
    [ $# -ge 2 ] && [ -n "$2" ] || refuse "$1 needs a value" 'run sh install.sh --help'
    case $1 in
    --from) from=$2 ;;
    --key) key=$2 ;;
    --prefix) prefix=$2 ;;
    esac
    shift
    ;;
  --system) system=yes ;;
  --uninstall) uninstall=yes ;;
  -h | --help)
    usage
    exit 0
    ;;
  *) refuse "unknown argument: $1" 'run sh install.sh --help' ;;
  esac
  shift
done

if [ -n "$system" ]; then
  [ -z "$prefix" ] || refuse '--system and --prefix exclude each other' 'give one of them'
  [ "$(id -u)" = 0 ] || refuse '--system installs into /usr/local, which needs root' 'run it with sudo, or without --system'
  prefix=/usr/local
fi
if [ -z "$prefix" ]; then
  [ -n "${HOME:-}" ] || refuse 'HOME is not set' 'give --prefix DIR'
  prefix=$HOME/.local
fi
case $prefix in
/*) ;;
*) refuse "--prefix $prefix is not an absolute path" 'give a path that begins with /' ;;
esac
case $prefix in
*[\"\\\$\'%]* | *[[:cntrl:]]*) refuse "--prefix $prefix has a character that no unit can name" 'choose another directory' ;;
esac
# The files that are installed, relative to the prefix.
record=$prefix/share/palyra/installed

umask 022
work=$(mktemp -d "${TMPDIR:-/tmp}/palyra-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- removing

# remove_recorded removes the files of a record, unless they are in the list $2 too. The record is a
# file of the prefix, which other programs can change: names that leave the prefix are refused.
remove_recorded() {
  while IFS= read -r name; do
    case $name in
    '') continue ;;
    bin/palyra* | share/*palyra* | lib/*palyra*) ;;
    *) refuse "$1 contains \"$name\", which install.sh does not install" 'remove the files yourself' ;;
    esac
    case /$name/ in
    */../* | */./*) refuse "$1 contains \"$name\", which leaves $prefix" 'remove the files yourself' ;;
    esac
    if [ -z "$2" ] || ! grep -Fqx -e "$name" "$2"; then
      rm -f "$prefix/$name"
    fi
  done <"$1"
}

if [ -n "$uninstall" ]; then
  [ -f "$record" ] || refuse "$record does not exist: install.sh did not install into $prefix" 'give the --prefix of the installation'
  cp "$record" "$work/installed"
  remove_recorded "$work/installed" ''
  rm -f "$record"
  rmdir "$prefix/share/palyra" "$prefix/share/doc/palyra" 2>/dev/null || true
  echo "palyra is removed from $prefix. Configuration and state stay: ~/.config/palyra and ~/.local/state/palyra of each"
  echo 'user, or the directories of your configuration. A palyrad that still runs ends with `kill`.'
  exit 0
fi

# --- fetching

[ -n "$from" ] || refuse '--from is missing' 'give the folder or URL with the artifacts: sh install.sh --from DIR_OR_URL'
from=${from%/}
case $from in
*://*@*) refuse "$from contains a user name" 'give the URL without it' ;;
esac
case $from in
https://*) protocol='=https' ;;
http://127.0.0.1 | http://127.0.0.1[:/]* | http://localhost | http://localhost[:/]* | 'http://[::1]' | 'http://[::1]'[:/]*) protocol='=http' ;;
*://*) refuse "$from is not an https URL" 'use https, or download the files and give their folder' ;;
*)
  protocol=
  [ -d "$from" ] || refuse "$from is not a directory" 'give the folder or the https URL with the artifacts'
  ;;
esac

# fetch copies a file of the release into the work directory.
fetch() {
  if [ -z "$protocol" ]; then
    [ -f "$from/$1" ] || refuse "$from/$1 does not exist or is not a file" 'check that the folder has all files of the release'
    cp "$from/$1" "$work/$1" || refuse "$from/$1 cannot be read"
  elif has curl; then
    curl --fail --silent --show-error --location --proto "$protocol" --proto-redir "$protocol" --retry 2 --output "$work/$1" "$from/$1" ||
      refuse "$from/$1 was not downloaded completely" 'check the URL and the network, and run it again; nothing was installed'
  elif has wget; then
    wget -q -O "$work/$1" "$from/$1" ||
      refuse "$from/$1 was not downloaded completely" 'check the URL and the network, and run it again; nothing was installed'
  else
    refuse 'neither curl nor wget is installed' \
      'install one of them, or download the files and give their folder'
  fi
}

digest() {
  if has sha256sum; then
    sha256sum <"$1" | cut -d ' ' -f 1
  elif has shasum; then
    shasum -a 256 <"$1" | cut -d ' ' -f 1
  else
    openssl dgst -sha256 -r <"$1" | cut -d ' ' -f 1
  fi
}

# --- the signature

if [ -n "$key" ]; then
  [ -f "$key" ] || refuse "the key $key does not exist or is not a file" 'give the public key of the release: --key palyra.pub'
  cp "$key" "$work/key"
else
  case $key_of_release in
  '-----BEGIN PUBLIC KEY-----'*) printf '%s\n' "$key_of_release" >"$work/key" ;;
  *)
    refuse '--key is missing, and this install.sh contains no key' \
      'give the public key of the release: --key palyra.pub'
    ;;
  esac
  key='the key in install.sh'
fi

fetch SHA256SUMS
case $(head -n 1 "$work/key") in
'-----BEGIN PUBLIC KEY-----') signature=SHA256SUMS.sig ;;
'untrusted comment:'*) signature=SHA256SUMS.minisig ;;
*) refuse "$key is not a public key in PEM or of minisign" 'give palyra.pub or minisign.pub of the release' ;;
esac
fetch "$signature"
if [ "$signature" = SHA256SUMS.minisig ]; then
  has minisign || refuse 'minisign is not installed, so that the signature cannot be checked' \
    'install minisign, or give palyra.pub and install openssl'
  verify() { minisign -V -q -p "$work/key" -m "$work/SHA256SUMS" -x "$work/$signature"; }
elif has openssl; then
  verify() {
    openssl base64 -d -A -in "$work/$signature" -out "$work/signature.der" &&
      openssl dgst -sha256 -verify "$work/key" -signature "$work/signature.der" "$work/SHA256SUMS"
  }
elif has cosign; then
  verify() {
    cosign verify-blob --key "$work/key" --insecure-ignore-tlog=true \
      --signature "$work/$signature" "$work/SHA256SUMS"
  }
else
  refuse 'neither openssl nor cosign is installed, so that the signature cannot be checked' \
    'install openssl, or give minisign.pub and install minisign'
fi
if ! verify >"$work/verify.log" 2>&1; then
  cat "$work/verify.log" >&2
  echo "SHA-256 of $from/SHA256SUMS: $(digest "$work/SHA256SUMS")" >&2
  echo "SHA-256 of $from/$signature: $(digest "$work/$signature")" >&2
  echo "SHA-256 of $key: $(digest "$work/key")" >&2
  refuse "$from/$signature is not a signature of $from/SHA256SUMS by $key; nothing was installed" \
    'download both files again, and compare the key with the one that its owner publishes'
fi

# --- the archive

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) refuse "$(uname -s) has no archive" 'see docs/install.md' ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) refuse "$(uname -m) has no archive" 'see docs/install.md' ;;
esac

# The line of the list must be one, and its name one that is safe in a path.
line=$(grep -E "^[0-9a-f]{64}  palyra_[0-9A-Za-z.~+-]+_${os}_$arch\.tar\.gz\$" "$work/SHA256SUMS") ||
  refuse "$from/SHA256SUMS lists no archive for $os/$arch" 'choose a release for this machine'
[ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] ||
  refuse "$from/SHA256SUMS lists several archives for $os/$arch" 'give the folder of one release'
want=${line%% *} archive=${line##* }
fetch "$archive"
have=$(digest "$work/$archive")
[ "$have" = "$want" ] ||
  refuse "$from/$archive has the SHA-256 $have, and the signed list has $want; nothing was installed" \
    'download the archive again'

top=${archive%.tar.gz}
tar -tvzf "$work/$archive" >"$work/list" || refuse "$from/$archive is not a complete tar archive"
tar -tzf "$work/$archive" >"$work/names"
if grep -qv '^[-d]' "$work/list" || grep -qv "^$top/" "$work/names" || grep -Eq '(^|/)\.\.(/|$)' "$work/names"; then
  refuse "$from/$archive has entries that are not files and directories below $top" \
    'report it to the owner of the key'
fi
mkdir "$work/tree"
tar -xzof "$work/$archive" -C "$work/tree"
tree=$work/tree/$top

# --- installing

# A systemd of all users reads units below /usr/local. For one user, `palyra up` writes them.
if [ -n "$system" ] && [ "$os" = linux ]; then
  for unit in systemd/system systemd/user; do
    sed "s#@BINDIR@#$prefix/bin#" "$tree/lib/$unit/palyrad.service" >"$work/unit"
    cat "$work/unit" >"$tree/lib/$unit/palyrad.service"
  done
else
  rm -rf "$tree/lib"
fi
(cd "$tree" && find . -type f | sed 's#^\./##' | LC_ALL=C sort) >"$work/installed"

# put installs a file by rename, so that a running program keeps its bytes and a link in its place
# is replaced.
put() {
  [ ! -d "$prefix/$2" ] || refuse "$prefix/$2 is a directory" 'move it away, and run it again'
  mkdir -p "$(dirname "$prefix/$2")" || refuse "$(dirname "$prefix/$2") cannot be created" \
    'give another --prefix, or run it with sudo and --system'
  cp "$1" "$prefix/$2.new.$$" && chmod "$3" "$prefix/$2.new.$$" && mv -f "$prefix/$2.new.$$" "$prefix/$2" || {
    rm -f "$prefix/$2.new.$$"
    refuse "$prefix/$2 cannot be written; the files before it are installed" \
      'make room or give another --prefix, and run it again'
  }
}

while IFS= read -r name; do
  case $name in
  bin/*) put "$tree/$name" "$name" 755 ;;
  *) put "$tree/$name" "$name" 644 ;;
  esac
done <"$work/installed"
if [ -f "$record" ]; then
  cp "$record" "$work/previous"
  remove_recorded "$work/previous" "$work/installed"
fi
put "$work/installed" share/palyra/installed 644

version=${top#palyra_}
echo "palyra ${version%_"${os}_$arch"} is installed in $prefix: $(wc -l <"$work/installed" | tr -d ' ') files, checked by $key."
case :$PATH: in
*":$prefix/bin:"*) ;;
*) echo "Add it to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
echo 'Next: palyra up'
