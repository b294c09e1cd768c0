package host_test

import (
	"fmt"
	"io"

	"sluice/gpu"
	"sluice/gpu/host"
)

// A load back of three pages, of which the third cannot be copied.
func Example() {
	dev, err := host.NewVirtual(host.Options{
		Rank:   1,
		Faults: []host.Fault{{Kind: host.Load, Rank: 1, Page: 2, Err: io.ErrUnexpectedEOF}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = dev.Close() }()
	l1, _ := dev.NewArena(gpu.ArenaSpec{Name: "l1", Kind: gpu.Memory, PageBytes: 16, Pages: 8})
	l2, _ := dev.NewArena(gpu.ArenaSpec{Name: "l2", Kind: gpu.Pinned, PageBytes: 16, Pages: 8})
	stream, _ := dev.NewStream("load back")

	src := []gpu.Ref{{Arena: l2, Index: 4}, {Arena: l2, Index: 5}, {Arena: l2, Index: 6}}
	dst := []gpu.Ref{{Arena: l1, Index: 0}, {Arena: l1, Index: 1}, {Arena: l1, Index: 2}}
	var done gpu.Completion
	if err := dev.Copy(stream, gpu.Batch{Op: 7, Dst: dst, Src: src}, &done); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("before the tick:", done.Done())
	dev.Step(1)
	out := done.Outcome()
	fmt.Println("after it:", done.Done(), out.Good, "good pages;", out.Err)
	// Output:
	// before the tick: false
	// after it: true 2 good pages; gpu/host: copy 7: page 2 of 3: unexpected EOF
}
