// Package host is the gpu.Device that needs no accelerator: its arenas are anonymous memory maps
// and its streams move real bytes with the processor. It is the default backend, and the one that
// tests and replays run on.
//
// It may import the standard library, golang.org/x/sys/unix, gpu and internal/clock. A [Device] owns
// its memory, the generation of every page, and its queues; nothing outside sees a pointer into
// them. Memory is outside the Go heap, so that the collector never scans or moves a page.
//
// One device, two ways to run its streams. [NewLive] gives each stream a goroutine. [NewVirtual]
// starts none: queued work becomes due at a tick that a seeded or scripted [Delay] gives, and runs,
// in the order (due tick, submission), inside [Device.Step]. The same calls in the same order then
// give the same outcomes at the same ticks, which is how a run of the whole system is a function of
// its seed.
//
// Both follow a script of faults ([Fault]): a copy that cannot run from some page on, bytes that
// change on the way, a copy that takes long. Faults are matched when work is queued, in the
// caller's order, so they too are the same in every run.
//
// A restore that fails at its third page:
//
//	dev, _ := host.NewVirtual(host.Options{Rank: 1})
//	_ = dev.Inject(host.Fault{Kind: host.Load, Rank: 1, Page: 2, Err: io.ErrUnexpectedEOF})
//	_ = dev.Copy(stream, gpu.Batch{Dst: l1, Src: l2}, &done)
//	dev.Step(1)
//	fmt.Println(done.Outcome().Good) // 2
package host
