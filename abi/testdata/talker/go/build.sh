#!/usr/bin/env bash
# Builds the policy into policy.wasm, or the file given. Needs Go only; the same Go version gives the same bytes.
set -euo pipefail
out=$(realpath -m "${1:-$(dirname "$0")/policy.wasm}")
cd "$(dirname "$0")"
env -u GOFLAGS -u GOWASM CGO_ENABLED=0 GOWORK=off GOOS=wasip1 GOARCH=wasm \
  go build -trimpath -buildvcs=false -buildmode=c-shared -ldflags='-s -w' -o "$out" .
