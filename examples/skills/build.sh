#!/bin/sh
# Builds the modules that are not Go's, with Debian's clang, lld, rustc and
# libstd-rust-dev-wasm32. What is committed is what Debian 12 makes. Usage: build.sh c|rust FILE
set -eu
here=$(dirname "$0")
case $1 in
c)
  clang --target=wasm32 -nostdlib -ffreestanding -fno-builtin -O2 -g0 -mcpu=mvp \
    -Wall -Wextra -Werror -Wno-incompatible-pointer-types \
    -Wl,--no-entry -Wl,--export=palyra_alloc -Wl,--export=run -Wl,--strip-all \
    -o "$2" "$here/checksum/checksum.c"
  ;;
rust)
  /usr/bin/rustc --target wasm32-wasi --edition 2021 -C opt-level=s -C panic=abort -C lto=fat \
    -C codegen-units=1 -C strip=symbols --remap-path-prefix "$here=." \
    -o "$2" "$here/line-diff/line-diff.rs"
  ;;
*)
  echo "usage: build.sh c|rust FILE" >&2
  exit 2
  ;;
esac
