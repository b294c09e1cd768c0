package transfer

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/abi"
	"sluice/gpu"
	"sluice/gpu/host"
	"sluice/runtime/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tick = time.Millisecond

// rig is one peer and its decode ranks in virtual time, with a page allocator that gives a page a new
// generation each time it is handed out.
type rig struct {
	t       testing.TB
	shape   model.Shape
	devs    []*host.Device
	recv    []*Receiver
	peer    *Prefill
	l1      gpu.ArenaID
	pages   int
	gen     []uint32
	free    []uint32 // last in, first out, which makes an early release show
	ticks   int
	slot    uint32
	request uint64
}

type rigOptions struct {
	shape   model.Shape // of decode
	prefill int         // shards of the peer; 0 = as many as decode
	pages   int
	ring    int // pages; 0 = none
	chunk   int // pages
	script  Script
	delay   host.Delay
	revoke  time.Duration
	restart time.Duration
	timeout time.Duration
}

var smallShape = model.Shape{Layers: 2, BytesPerTokenLayer: 16, PageSize: 4, Shards: 1}

func withShards(n int) model.Shape {
	s := smallShape
	s.Shards = n
	return s
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	if o.pages == 0 {
		o.pages = 32
	}
	g := &rig{t: t, shape: o.shape, pages: o.pages, gen: make([]uint32, o.pages)}
	for i := o.pages - 1; i >= 0; i-- {
		g.free = append(g.free, uint32(i))
	}
	for rank := range o.shape.Shards {
		dev, err := host.NewVirtual(host.Options{Rank: rank, Delay: o.delay})
		must(t, err)
		t.Cleanup(func() { _ = dev.Close() })
		ro := ReceiverOptions{Rank: rank, Device: dev, Shape: o.shape, Slots: 8, RevokeDelay: o.revoke}
		ro.Pages, err = dev.NewArena(gpu.ArenaSpec{Name: "l1", Kind: gpu.Memory, PageBytes: o.shape.PageBytes(), Pages: o.pages})
		must(t, err)
		g.l1 = ro.Pages
		if o.ring > 0 {
			ro.Ring, err = dev.NewArena(gpu.ArenaSpec{Name: "ring", Kind: gpu.Memory, PageBytes: o.shape.PageBytes(), Pages: o.ring})
			must(t, err)
			ro.Stream, err = dev.NewStream("scatter")
			must(t, err)
		}
		r, err := NewReceiver(ro)
		must(t, err)
		g.devs, g.recv = append(g.devs, dev), append(g.recv, r)
	}
	ps := o.shape
	if o.prefill != 0 {
		ps.Shards = o.prefill
	}
	var err error
	g.peer, err = NewPrefill(PrefillOptions{ID: 1, Shape: ps, Ranks: o.shape.Shards, ChunkPages: max(o.chunk, 1), Script: o.script,
		RestartDelay: o.restart, BootstrapTimeout: o.timeout})
	must(t, err)
	must(t, g.peer.Connect(g.recv...))
	return g
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (g *rig) now() time.Duration { return time.Duration(g.ticks) * tick }

// tick moves the peer, the devices and the receivers one tick on.
func (g *rig) tick() {
	g.ticks++
	g.pump()
}

func (g *rig) pump() {
	g.peer.Pump(g.now())
	for rank, dev := range g.devs {
		dev.Step(uint64(g.ticks))
		g.recv[rank].Pump(g.now())
	}
}

// until ticks until ok, at most n times, and returns how many it took; -1 where it never was.
func (g *rig) until(n int, ok func() bool) int {
	for i := range n + 1 {
		if ok() {
			return i
		}
		g.tick()
	}
	return -1
}

// take hands out n pages with a new generation on every rank.
func (g *rig) take(n int) []gpu.Ref {
	g.t.Helper()
	if n > len(g.free) {
		g.t.Fatalf("%d pages wanted, %d free", n, len(g.free))
	}
	var refs []gpu.Ref
	for range n {
		i := g.free[len(g.free)-1]
		g.free = g.free[:len(g.free)-1]
		g.gen[i]++
		refs = append(refs, gpu.Ref{Arena: g.l1, Index: i, Generation: g.gen[i]})
	}
	for _, dev := range g.devs {
		must(g.t, dev.Assign(refs))
	}
	return refs
}

func (g *rig) give(refs []gpu.Ref) {
	for _, r := range refs {
		g.free = append(g.free, r.Index)
	}
}

// job is one request of the rig.
type job struct {
	request, room uint64
	namespace     string
	tokens        []uint32
	promise       int
	dst           []gpu.Ref
	slot          uint32
	ended         *error // what the peer said; nil until it has
}

func tokens(n int, seed uint64) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(scramble(seed<<20+uint64(i)) % 50000)
	}
	return out
}

// job submits a prompt of n tokens, of which decode has the first promise, and takes its pages.
func (g *rig) job(room uint64, n, promise int) *job {
	g.t.Helper()
	g.request++
	j := &job{request: g.request, room: room, namespace: fmt.Sprint("tenant", room%3), tokens: tokens(n, room+1), promise: promise, slot: g.slot % 8}
	g.slot++
	j.dst = g.take(g.shape.Pages(n - promise))
	must(g.t, g.submit(j))
	return j
}

func (g *rig) submit(j *job) error {
	return g.peer.Submit(Request{Room: j.room, Namespace: j.namespace, Tokens: j.tokens, OnEnd: func(_ uint64, err error) {
		if j.ended != nil {
			g.t.Errorf("room %d ended twice: %v, %v", j.room, *j.ended, err)
		}
		j.ended = &err
	}})
}

func (g *rig) info(j *job) Info {
	return Info{Request: j.request, Room: j.room, Peer: 1, Incarnation: g.peer.Incarnation(), PromiseTokens: j.promise, PromptTokens: len(j.tokens), Dst: j.dst, Slot: j.slot}
}

// send shakes hands and tells the pages on every rank.
func (g *rig) send(j *job) {
	g.t.Helper()
	for _, r := range g.recv {
		if p, reason := r.Handshake(j.room, 1); p == abi.PollFailed {
			g.t.Fatalf("handshake of room %d: %v", j.room, reason)
		}
	}
	if g.until(3, func() bool { return g.ready(j.room) }) < 0 {
		g.t.Fatalf("room %d never got ready", j.room)
	}
	for _, r := range g.recv {
		r.Send(g.info(j))
	}
}

func (g *rig) ready(room uint64) bool {
	for _, r := range g.recv {
		if p, _ := r.Handshake(room, 1); p != abi.PollWaitingForInput {
			return false
		}
	}
	return true
}

// all says whether every rank's raw poll of j is p.
func (g *rig) all(j *job, p abi.Poll) bool {
	for _, r := range g.recv {
		if r.Poll(j.request).Raw != p {
			return false
		}
	}
	return true
}

func (g *rig) drained(j *job) bool {
	for _, r := range g.recv {
		if !r.Drained(j.request) {
			return false
		}
	}
	return true
}

func (g *rig) cancel(j *job) {
	for _, r := range g.recv {
		r.Cancel(j.request, j.room)
	}
}

func (g *rig) forget(j *job) {
	for _, r := range g.recv {
		r.Forget(j.request)
	}
	g.give(j.dst)
}

// want is the content of suffix page i of j on a rank.
func (g *rig) want(j *job, rank, i int) []byte {
	g.t.Helper()
	at := j.promise + i*g.shape.PageSize
	b := make([]byte, g.shape.PageBytes())
	_, err := model.FillPage(b, g.shape, rank, model.Start(j.namespace).Extend(j.tokens[:at]), at/g.shape.PageSize,
		j.tokens[at:min(at+g.shape.PageSize, len(j.tokens))])
	must(g.t, err)
	return b
}

// check holds every suffix page of j against the reference content, and the first token too.
func (g *rig) check(j *job) {
	g.t.Helper()
	first, err := model.Reference(g.shape, j.namespace, j.tokens, 0)
	must(g.t, err)
	for rank, r := range g.recv {
		if p := r.Poll(j.request); !p.HasFirst || p.First != first || p.ArrivedPages != len(j.dst) || !p.StampSeen || !p.StagingEmpty {
			g.t.Errorf("room %d, rank %d: %+v, want first token %d and %d pages", j.room, rank, p, first, len(j.dst))
		}
		for i, ref := range j.dst {
			if !bytes.Equal(g.read(rank, ref), g.want(j, rank, i)) {
				g.t.Errorf("room %d, rank %d: suffix page %d has other bytes", j.room, rank, i)
			}
		}
	}
}

func (g *rig) read(rank int, ref gpu.Ref) []byte {
	g.t.Helper()
	b := make([]byte, g.shape.PageBytes())
	must(g.t, g.devs[rank].Read(ref, 0, b))
	return b
}

// idle fails unless nothing of any request is left on either side.
func (g *rig) idle() {
	g.t.Helper()
	g.tick()
	g.tick()
	for rank, r := range g.recv {
		if len(r.hands)+len(r.entries)+len(r.rooms)+len(r.scatters)+len(r.ring.held) > 0 {
			g.t.Errorf("rank %d keeps %d handshakes, %d requests, %d rooms, %d scatters, %d regions", rank, len(r.hands), len(r.entries), len(r.rooms), len(r.scatters), len(r.ring.held))
		}
		if granted, free := r.Watermark(); granted != free {
			g.t.Errorf("rank %d: %d ring pages granted, %d free again", rank, granted, free)
		}
		for i, s := range r.slots {
			if s != (Record{}) {
				g.t.Errorf("rank %d: slot %d still has %+v", rank, i, s)
			}
		}
	}
	u := &g.peer.pump
	if len(g.peer.live)+len(u.shares)+len(u.asked)+len(u.events) > 0 {
		g.t.Errorf("the peer keeps %d live rooms, %d shares, %d questions, %d events", len(g.peer.live), len(u.shares), len(u.asked), len(u.events))
	}
	if len(g.free) != g.pages {
		g.t.Errorf("%d of %d pages are free", len(g.free), g.pages)
	}
}

func pageIDs(refs []gpu.Ref) []uint32 {
	var out []uint32
	for _, r := range refs {
		out = append(out, r.Index)
	}
	slices.Sort(out)
	return out
}
