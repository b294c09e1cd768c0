package server_test

import (
	"context"
	"fmt"

	"sluice/runtime/server"
)

// An engine's tick pushes into a queue and never waits; what the reader has not
// read yet merges into one event.
func ExampleNewStream() {
	q := server.NewStream(4096, func() { fmt.Println("aborted") })
	defer q.Close() // finished below, so nothing is aborted

	q.Push(server.Event{Tokens: []uint32{72}})
	q.Push(server.Event{Tokens: []uint32{105}, Finish: &server.Finish{Type: server.FinishLength, Length: 2}})

	ev, err := q.Next(context.Background())
	fmt.Println(ev.Tokens, ev.Finish.Type, err)
	// Output: [72 105] length <nil>
}
