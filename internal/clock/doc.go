// Package clock is the one source of time in Sluice.
//
// Everything that waits takes a Clock. Real reads the machine's monotonic clock; Virtual stands still until its owner
// advances it, so that a run is a function of its configuration, trace and seed and a test never sleeps.
//
// It imports the standard library only. A Virtual is owned by whoever calls Advance; creating, stopping and waiting for
// timers is safe from any goroutine.
//
//	c := clock.NewVirtual()
//	t := c.NewTimer(20 * time.Millisecond)
//	c.Advance(20 * time.Millisecond) // fires t
//	<-t.C()
package clock
