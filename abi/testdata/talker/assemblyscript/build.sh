#!/usr/bin/env bash
# Builds the policy into policy.wasm, or the file given. Needs AssemblyScript 0.28 (npm install assemblyscript).
set -euo pipefail
out=$(realpath -m "${1:-$(dirname "$0")/policy.wasm}")
cd "$(dirname "$0")"
# The compiler takes paths that are relative to where it runs.
"${ASC:-asc}" policy.ts --runtime stub --noAssert -O3 --use abort= -o "$(realpath --relative-to=. "$out")"
