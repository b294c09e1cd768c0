// Package server is the HTTP front of one decode group: it turns requests into
// work for an [Engine] and the engine's events into answers, plain or streamed.
//
// It decides nothing about scheduling. It checks what a client sent, names what
// is wrong with it, gives parallel samples ids and rooms of their own, carries
// tokens to the reader at the reader's speed, and makes sure that every request
// it handed to the engine ends: a client that leaves, a reader that stops
// reading and a server that stops all close the request's [Stream], and closing
// aborts what is not finished.
//
// With Options.Policies it also serves /policies, which lists, stages, activates and rolls back the policies of
// a [PolicyEngine]; policies.go says what a client may ask for.
//
// # Imports
//
// net/http, prometheus/client_golang and the clock. It imports no other part of
// the runtime; the engine is reached through the interface in engine.go only.
//
// # State and its owners
//
//   - [Server] owns the table of live calls (which client id stands for which
//     requests) under one mutex; a call leaves it before its last byte is
//     written, so that a client may use the id again as soon as it has its answer.
//   - [Queue] has one producer (the engine's tick), which never waits, and one
//     reader (the request's handler). Tokens coalesce while the reader is busy.
//   - Everything else belongs to the goroutine of one request.
//
// # Example
//
//	ln, err := server.Listen("127.0.0.1:30000")
//	if err != nil {
//		return err // one line: the address, and what to do
//	}
//	srv, err := server.New(server.Options{
//		Engine: engine, Clock: clk, Logger: log,
//		Registerer: reg, Gatherer: reg, VocabSize: 151936,
//	})
//	if err != nil {
//		return err
//	}
//	go func() {
//		<-stop.Done()
//		grace, cancel := context.WithTimeout(context.Background(), 30*time.Second)
//		defer cancel()
//		shutdownErr <- srv.Shutdown(grace)
//	}()
//	return srv.Serve(ln) // returns once Shutdown has finished
package server
