// Package gpu is what Sluice asks of an accelerator: arenas of pages, ordered streams of copies
// between them, and events that say how far a stream has come.
//
// A page never crosses [Device] as a Go slice. It is a [Ref]: an arena, a page number, and the
// generation the page had when the reference was made. Every access names a generation and fails
// with [ErrStale] where the page has another one by then, so a late write, a copy that was queued
// too long, or a reference used twice cannot reach the page's next owner.
//
// Every method that starts work returns at once. Work of one stream runs in the order it was given;
// a copy moves its pages in order too, and its [Completion] says how many leading pages are good.
// That is all a caller may rely on, and it is what a CUDA backend has to offer: copies are
// asynchronous on a stream, completions are found by querying events, and one locked thread may
// serve all calls, because no call hands out a pointer or blocks on the device. The exceptions are
// Write, Read and Hash, which are synchronous, and Wait, which takes a context.
//
// The package holds the interface, the errors and the page checksum ([Sum], [CopySum]), and imports
// only the standard library. It owns no state. A backend (package host, package cuda) owns its
// arenas' memory and the generation of every page; the page numbers are not its to give: they come
// from the replicated index, and [Device.Assign] tells it which generation a number has now.
//
// One page to the device, checked on the way:
//
//	l2, _ := dev.NewArena(gpu.ArenaSpec{Name: "l2", Kind: gpu.Pinned, PageBytes: 32 << 10, Pages: 1024})
//	l1, _ := dev.NewArena(gpu.ArenaSpec{Name: "l1", Kind: gpu.Memory, PageBytes: 32 << 10, Pages: 256})
//	src := []gpu.Ref{{Arena: l2, Index: 7, Generation: 3}}
//	dst := []gpu.Ref{{Arena: l1, Index: 0, Generation: 9}}
//	_ = dev.Assign(dst)
//	var done gpu.Completion
//	err := dev.Copy(stream, gpu.Batch{Dst: dst, Src: src, Sums: []uint64{want}, Check: true}, &done)
//	// in a later tick:
//	if err == nil && done.Done() {
//		out := done.Outcome() // out.Good == 1, or out.Err says why not
//	}
package gpu
