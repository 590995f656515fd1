#!/usr/bin/env bash
# same-files.sh FOLDER OTHER: fails unless every file below OTHER is below FOLDER with
# the same content, and names those that are not. What FOLDER has beside them is not
# looked at.
set -euo pipefail

folder=$1 other=$2
sums=(sha256sum)
if ! command -v sha256sum >/dev/null; then sums=(shasum -a 256); fi
digest() { if [[ -f $1 ]]; then "${sums[@]}" <"$1" | cut -d' ' -f1; else echo missing; fi; }

files=0 differing=()
while IFS= read -r -d '' file; do
  name=${file#"$other"/}
  files=$((files + 1))
  here=$(digest "$folder/$name") there=$(digest "$file")
  if [[ $here != "$there" ]]; then
    differing+=("$name")
    printf '%s differs:\n  %s  %s\n  %s  %s\n' "$name" "$here" "$folder/$name" "$there" "$file" >&2
  fi
done < <(find "$other" -type f -print0 | sort -z)
if ((files == 0)); then
  echo "there are no files below $other" >&2
  exit 1
fi
if ((${#differing[@]} > 0)); then
  echo "next: compare what the two programs say of themselves (go version -m A B), or all of it (diffoscope A B)" >&2
  exit 1
fi
