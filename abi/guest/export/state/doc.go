// Package state exports sluice_state_save and sluice_state_load for a Go policy module: on the swap from one policy to
// another that knows its schema, the host moves the state of the one to the other. It is registered from init, with the most
// bytes that it saves or loads:
//
//	func init() { state.Register(8, p.save, p.load) }
//
//	func (p *policy) save(dst []byte) (int, bool) {
//		if len(dst) < 8 {
//			return 0, false
//		}
//		binary.LittleEndian.PutUint64(dst, p.seen)
//		return 8, true
//	}
//
//	func (p *policy) load(src []byte, schema uint32) int32 {
//		if schema != 1 || len(src) != 8 {
//			return int32(abi.StatusDeclined)
//		}
//		p.seen = binary.LittleEndian.Uint64(src)
//		return int32(abi.StatusOK)
//	}
//
// The layout of the bytes is the schema, a number that the module's manifest names: give another layout another number.
// Fixed places and widths, little-endian, need no allocation and are read by a policy in any language. See package export
// for how a module is put together; this package owns the registered functions and the arena, in a module only. Natively a
// test calls save and load themselves.
package state
