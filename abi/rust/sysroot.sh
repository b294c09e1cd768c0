#!/usr/bin/env bash
# Prints a sysroot in which $RUSTC (default: rustc) builds for wasm32v1-none: its own where the target is installed, else one
# that is made once from the sources of its library, with no cargo and no network, and kept in the cache folder. The sources
# come with rustup (component rust-src) or with Debian's rust-web-src.
set -euo pipefail
rustc=${RUSTC:-rustc}
target=wasm32v1-none
own=$("$rustc" --print sysroot)
if compgen -G "$own/lib/rustlib/$target/lib/libcore-*.rlib" >/dev/null; then
  printf '%s\n' "$own"
  exit
fi

version=$("$rustc" --version | cut -d' ' -f2)
made=${XDG_CACHE_HOME:-$HOME/.cache}/sluice/rust-$version
if [ ! -e "$made/lib/rustlib/$target/lib/libcompiler_builtins.rlib" ]; then
  sources=$own/lib/rustlib/src/rust/library
  if [ ! -e "$sources/core/src/lib.rs" ]; then
    printf '%s has neither the target %s nor its sources in %s: rustup target add %s, or install rust-src (Debian: rustc-web rust-web-src, and RUSTC=/usr/bin/rustc)\n' \
      "$rustc" "$target" "$sources" "$target" >&2
    exit 1
  fi
  mkdir -p "$(dirname "$made")"
  work=$(mktemp -d "$made.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  lib=$work/lib/rustlib/$target/lib
  mkdir -p "$lib"
  flags=(--sysroot "$work" --edition 2024 --crate-type rlib --target "$target" -Copt-level=3 -Cpanic=abort -Cembed-bitcode=yes
    -Zforce-unstable-if-unmarked --cap-lints allow)
  # The library is built from its own sources by its own compiler, which alone may use what is unstable.
  export RUSTC_BOOTSTRAP=1
  "$rustc" "${flags[@]}" --crate-name core -o "$lib/libcore.rlib" "$sources/core/src/lib.rs" >&2
  "$rustc" "${flags[@]}" --crate-name compiler_builtins --cfg 'feature="compiler-builtins"' --cfg 'feature="mem"' \
    -o "$lib/libcompiler_builtins.rlib" "$sources/compiler-builtins/compiler-builtins/src/lib.rs" >&2
  rm -rf "$made"
  mv "$work" "$made"
fi
printf '%s\n' "$made"
