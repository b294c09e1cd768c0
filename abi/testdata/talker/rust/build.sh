#!/usr/bin/env bash
# Builds the policy into policy.wasm, or the file given. Needs rustc (see abi/rust/sysroot.sh) and wasm-ld.
set -euo pipefail
out=$(realpath -m "${1:-$(dirname "$0")/policy.wasm}")
cd "$(dirname "$0")"
sysroot=$(../../../rust/sysroot.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(--sysroot "$sysroot" --edition 2021 --target wasm32v1-none -Copt-level=3 -Cpanic=abort)
"${RUSTC:-rustc}" "${flags[@]}" -Cembed-bitcode=yes --crate-type rlib --crate-name sluice -o "$work/libsluice.rlib" ../../../rust/src/lib.rs
"${RUSTC:-rustc}" "${flags[@]}" -Clto -Cstrip=symbols -Clinker="${WASM_LD:-wasm-ld}" -Clink-arg=-zstack-size=16384 \
  --crate-type cdylib --crate-name policy --extern sluice="$work/libsluice.rlib" -o "$out" policy.rs
