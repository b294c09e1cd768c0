package transfer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/abi"
	"sluice/gpu"
)

// prompts is how many rooms of the peer still hold a prompt.
func (g *rig) prompts() int {
	n := 0
	for _, rm := range g.peer.pump.rooms {
		if rm.request.Tokens != nil {
			n++
		}
	}
	return n
}

func TestForgetARoomThatNobodyAskedAbout(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(2)})
	for _, c := range []struct {
		name  string
		pumps int // between the submission and the forgetting
	}{{"in the same pump", 0}, {"later", 3}} {
		t.Run(c.name, func(t *testing.T) {
			j := g.job(1, 16, 0)
			for range c.pumps {
				g.tick()
			}
			g.peer.Forget(1)
			g.peer.Forget(1)
			g.peer.Forget(99)
			if s := g.peer.live[1]; s.request.Tokens != nil {
				t.Error("a prompt waits for the next pump")
			}
			g.tick()
			if n := len(g.peer.pump.rooms); n != 0 {
				t.Errorf("%d rooms are left", n)
			}
			if j.ended == nil || !errors.Is(*j.ended, ErrFailed) {
				t.Errorf("the room's end: %v", j.ended)
			}
			g.give(j.dst)
		})
	}
	// Its number serves another request.
	j := g.job(1, 16, 0)
	g.send(j)
	if g.until(10, func() bool { return g.all(j, abi.PollSuccess) }) < 0 {
		t.Fatal("the room never succeeded")
	}
	g.check(j)
	g.forget(j)
	g.idle()
}

// What a rank knows of is the rank's to end: forgetting it changes nothing.
func TestForgetARoomThatARankKnows(t *testing.T) {
	for _, c := range []struct {
		name         string
		before, told bool // what a rank has done: asked before the room was submitted, told its pages
	}{{"asked before it was submitted", true, false}, {"asked", false, false}, {"told", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, rigOptions{shape: withShards(2), script: Pace{Each: 2 * tick}.Script()})
			if c.before {
				g.recv[0].Handshake(1, 1)
				g.tick()
			}
			j := g.job(1, 32, 0)
			if c.told {
				g.send(j)
			} else {
				g.recv[0].Handshake(1, 1)
			}
			g.tick()
			g.peer.Forget(1)
			g.tick()
			if j.ended != nil || g.prompts() != 1 {
				t.Fatalf("end %v, %d prompts", j.ended, g.prompts())
			}
			if !c.told {
				g.send(j)
			}
			if g.until(60, func() bool { return g.all(j, abi.PollSuccess) }) < 0 {
				t.Fatal("the room never succeeded")
			}
			g.check(j)
			g.forget(j)
			g.idle()
		})
	}
}

// A room that has failed is kept for ranks that have not heard of it; its prompt only while a write needs it.
func TestFailedRoomKeepsNoPrompt(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(g *rig, j *job)
	}{
		{"cancelled by the ranks", func(g *rig, j *job) { g.cancel(j) }},
		{"aborted at the peer", func(g *rig, j *job) { g.peer.Abort(j.room) }},
	} {
		for _, sent := range []bool{false, true} {
			name := c.name + ", asked about"
			if sent {
				name = c.name + ", a write under way"
			}
			t.Run(name, func(t *testing.T) {
				const lands = 6 * tick
				g := newRig(t, rigOptions{shape: withShards(2), chunk: 8, script: WithFaults(nil, Fault{Rank: 1, Chunk: Any,
					OnChunk: func(c *Chunk) { c.At, c.Flight = lands, lands }})})
				j := g.job(1, 32, 0)
				if sent {
					g.send(j)
				} else {
					g.recv[0].Handshake(1, 1)
					g.recv[1].Handshake(1, 1)
				}
				g.tick()
				c.fail(g, j)
				g.tick()
				if want := map[bool]int{true: 1, false: 0}[sent]; g.prompts() != want || len(g.peer.pump.rooms) != 1 {
					t.Fatalf("%d prompts in %d rooms, want %d in 1", g.prompts(), len(g.peer.pump.rooms), want)
				}
				if sent {
					if g.until(10, func() bool { return g.prompts() == 0 }) < 0 {
						t.Fatal("the prompt outlives the last write")
					}
					// The write that could not be stopped had what it needed.
					if got := g.read(1, j.dst[7]); !slices.Equal(got, g.want(j, 1, 7)) {
						t.Error("the last page has other bytes")
					}
				}
				g.cancel(j)
				if g.until(10, func() bool { return g.drained(j) }) < 0 {
					t.Fatal("never drained")
				}
				g.forget(j)
				g.idle()
			})
		}
	}
}

func TestForgetARefusedRoom(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(1), timeout: time.Hour})
	if err := g.peer.Submit(Request{Room: 1}); !errors.Is(err, ErrRefused) {
		t.Fatalf("an empty prompt: %v", err)
	}
	g.tick()
	g.peer.Forget(1)
	g.tick()
	if n := len(g.peer.pump.rooms); n != 0 {
		t.Errorf("%d rooms are left", n)
	}
	if c := g.peer.Counts(); c.Failed != 1 || c.Done != 0 {
		t.Errorf("counts %+v, want one failure", c)
	}
}

// A write that goes wrong fails its room, and its duplicate still finds the prompt.
func TestFailedWriteWithADuplicate(t *testing.T) {
	g := newRig(t, rigOptions{shape: withShards(1), chunk: 8, script: WithFaults(nil, Fault{Rank: 0, Chunk: Any,
		OnChunk: func(c *Chunk) { c.At, c.Flight, c.Duplicate = 3*tick, 3*tick, 3*tick }})})
	j := g.job(1, 32, 0)
	g.send(j)
	g.tick()
	owner := j.dst[0]
	owner.Generation++
	must(t, g.devs[0].Assign([]gpu.Ref{owner}))
	if g.until(10, func() bool { return j.ended != nil }) < 0 || !errors.Is(*j.ended, ErrFailed) {
		t.Fatalf("the room's end: %v", j.ended)
	}
	if g.prompts() != 1 {
		t.Error("the prompt is gone while a duplicate is under way")
	}
	if g.until(10, func() bool { return g.prompts() == 0 }) < 0 {
		t.Error("the prompt outlives the duplicate")
	}
}
