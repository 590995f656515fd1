#!/usr/bin/env bash
# Installs what the package-lock.json of a folder pins into a directory, which is the
# folder itself unless another is named, unless it is there already: the digest of the
# lock is kept among what was installed. Nothing of a package is run.
set -euo pipefail

from=${1:?usage: npm.sh FOLDER [DIRECTORY]}
dir=${2:-$from}
mkdir -p "$dir"
# Through a link npm takes the directory for a package of its own, which no lock has.
dir=$(realpath "$dir")
lock=$(sha256sum "$from/package-lock.json" | cut -d ' ' -f 1)
kept=$dir/node_modules/.lock
if [[ -f $kept && $(<"$kept") == "$lock" ]]; then
  exit 0
fi
echo "installing the packages of $from"
if [[ $dir != "$(realpath "$from")" ]]; then
  cp "$from/package.json" "$from/package-lock.json" "$dir/"
fi
# npm takes a folder behind a symbolic link for another one than that of the lock.
if ! npm ci --prefix "$(cd "$dir" && pwd -P)" --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error; then
  echo "npm could not install the packages of $from: it takes a registry, or a cache that has them" >&2
  exit 1
fi
echo "$lock" >"$kept"
