// Package inproc is the collective engine for ranks that are goroutines of one process: a barrier,
// and a reduce by the rank that comes last.
//
// It may import the standard library, collective and internal/clock. A [Group] owns the barrier; a
// [Rank] is one rank's end of it, used by that rank's goroutine alone. The vectors stay the ranks'
// own: the engine touches a rank's vector only while that rank is inside Min.
//
// Waiting costs little either way: a rank spins for a few microseconds, which is where a group of
// busy ranks meets, and then parks until the last rank wakes it. A rank that parks also arms a
// timer on the clock it was given; when the timer fires before the last rank has come, the group
// is broken and every rank gets the same typed error, which names who was missing. A broken group
// stays broken until Reset gives it a new epoch, and a Rank taken under an earlier epoch is refused
// from then on, so a rank that was slow and not dead cannot join an exchange it does not know of.
//
// Two ranks in lock-step:
//
//	g, err := inproc.New(2, 2*time.Second, clock.NewReal())
//	if err != nil {
//		return err
//	}
//	defer g.Close()
//	for r := range 2 {
//		go func() {
//			ex := g.Rank(r)
//			var v collective.Vector
//			for tick := uint64(0); ; tick++ {
//				v.Reset(collective.Shape{U64: 1})
//				v.U64[0] = tick
//				if err := ex.Min(ctx, &v); err != nil {
//					return
//				}
//			}
//		}()
//	}
package inproc
