package sluice

import "embed"

// SDK is the sources that sluice policy writes into a new policy's folder, and the description of the policy ABI,
// abi/abi.json, that it goes by itself: abi with abi/guest for Go, and a folder each for C, Rust, AssemblyScript and Zig. It
// is read-only.
//
//go:embed abi/abi.json abi/README.md abi/*.go abi/guest
//go:embed abi/c/sluice.h abi/zig/sluice.zig abi/assemblyscript/*.ts abi/assemblyscript/package.json
//go:embed abi/rust/Cargo.toml abi/rust/sysroot.sh abi/rust/src
var SDK embed.FS
