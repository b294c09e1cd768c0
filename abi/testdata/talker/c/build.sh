#!/usr/bin/env bash
# Builds the policy into policy.wasm, or the file given. Needs clang with its wasm32 target, and lld (wasm-ld).
set -euo pipefail
out=$(realpath -m "${1:-$(dirname "$0")/policy.wasm}")
cd "$(dirname "$0")"
"${CLANG:-clang}" --target=wasm32 -std=c99 -Wall -Wextra -Werror -O2 -ffreestanding -nostdlib -I../../../c \
  -Wl,--no-entry -Wl,--strip-all -Wl,-z,stack-size=4096 -o "$out" policy.c
