#!/usr/bin/env bash
# Writes the manual pages and completions of both programs in a folder, laid out as
# below PREFIX/share. The programs themselves say what stands in them.
set -euo pipefail

built=${1:-bin}
rm -rf "$built/share"
mkdir -p "$built"/share/{man/man1,man/man8,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
"$built/palyra" man >"$built/share/man/man1/palyra.1"
"$built/palyrad" man >"$built/share/man/man8/palyrad.8"
for program in palyra palyrad; do
  "$built/$program" completion bash >"$built/share/bash-completion/completions/$program"
  "$built/$program" completion zsh >"$built/share/zsh/site-functions/_$program"
  "$built/$program" completion fish >"$built/share/fish/vendor_completions.d/$program.fish"
done
