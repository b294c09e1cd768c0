#!/usr/bin/env bash
# Builds the policy into policy.wasm, or the file given. Needs Zig 0.17.
set -euo pipefail
out=$(realpath -m "${1:-$(dirname "$0")/policy.wasm}")
cd "$(dirname "$0")"
# One --export an entry point: -rdynamic would export the mutable stack pointer too.
"${ZIG:-zig}" build-exe -target wasm32-freestanding -O ReleaseFast -fstrip --dep sluice -Mroot=policy.zig -Msluice=../../../zig/sluice.zig \
  -fno-entry --export=sluice_abi_1 --export=sluice_arena --export=sluice_configure --export=sluice_gate_v1 --export=sluice_state_save --export=sluice_state_load --stack 16384 -femit-bin="$out"
