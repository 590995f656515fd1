#!/usr/bin/env bash
# Installs the tools of tools.txt into a directory, each at its pinned
# version. A binary that already is of that version is left alone: Go stamps
# the module version into what it builds. With names, only those are installed.
set -euo pipefail

go=${GO:-go}
dir=${1:?usage: tools.sh DIRECTORY [NAME...]}
shift
wanted=" $* "
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

installed() { # binary version
  "$go" version -m "$1" 2>/dev/null | awk '$1 == "mod" {print $3}' | grep -qxF "$2"
}

while read -r name version package; do
  [[ -z $name || $name == \#* ]] && continue
  [[ $wanted == "  " || $wanted == *" $name "* ]] || continue
  if installed "$dir/$name" "$version"; then
    continue
  fi
  echo "installing $name $version"
  GOBIN="$dir" "$go" install -trimpath "$package@$version"
done < "$(dirname "$0")/tools.txt"
