#!/usr/bin/env bash
# Builds all programs without cgo for every system they are meant for.
set -euo pipefail

go=${GO:-go}
for system in linux darwin windows; do
  for arch in amd64 arm64; do
    echo "building for $system/$arch"
    CGO_ENABLED=0 GOOS=$system GOARCH=$arch "$go" build -o /dev/null ./cmd/palyrad
    CGO_ENABLED=0 GOOS=$system GOARCH=$arch "$go" build -o /dev/null ./cmd/palyra
    CGO_ENABLED=0 GOOS=$system GOARCH=$arch "$go" build -o /dev/null ./cmd/palyra-hook
  done
done
