#!/usr/bin/env bash
# Fails when the protos break what the newest release promised. Until there is
# a release, or in a clone without tags, there is nothing to compare with; the
# script then says so and succeeds.
set -euo pipefail

tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
if [[ -z $tag ]]; then
  echo "no release tag here: the protos are not compared with anything"
  exit 0
fi
if ! git cat-file -e "$tag:buf.yaml" 2>/dev/null; then
  echo "the release $tag has no protos to compare with"
  exit 0
fi
buf breaking --against ".git#tag=$tag"
echo "the protos keep what $tag promised"
