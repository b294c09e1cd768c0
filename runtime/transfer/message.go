package transfer

import "time"

type messageKind uint8

const (
	msgSubmit messageKind = iota
	msgAbort
	msgForget
	msgCrash
	msgCut
	msgQuery    // a rank asks whether the room is known
	msgInfo     // a rank tells its pages
	msgWithdraw // a rank that only asked wants no more
	msgCancel   // a rank wants no more, and an ack
	msgClosed   // a rank has closed the connection to the incarnation
)

// message is what reaches a peer. Which fields count depends on its kind.
type message struct {
	kind        messageKind
	rank        int
	incarnation uint64
	room        uint64
	attempt     uint64
	info        Info
	submission  *submission // msgSubmit
	nth         uint64
	failure     *failure // msgSubmit: refused from the start
}

type eventKind uint8

const (
	evIssue  eventKind = iota // a chunk's write starts
	evLand                    // a chunk lands
	evMeta                    // the metadata lands before the data
	evFinish                  // the data is complete, and the metadata lands
	evStatus                  // a rank learns of a failure
	evAck                     // a drain ack reaches a rank
	evRestart
)

// event is something a peer does at a time.
type event struct {
	at    time.Duration
	seq   uint64 // orders events of one time
	kind  eventKind
	x     *share // all but evAck and evRestart
	chunk int
	again bool    // evLand: a duplicate
	rank  int     // evAck
	link  linkKey // evAck
}

// events is a heap by (at, seq).
type events []event

func (h events) before(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}

func (h *events) push(e event) {
	*h = append(*h, e)
	a := *h
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if !a.before(i, up) {
			return
		}
		a[i], a[up] = a[up], a[i]
		i = up
	}
}

func (h *events) pop() event {
	a := *h
	top, last := a[0], len(a)-1
	a[0], a[last] = a[last], event{}
	a = a[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(a); c++ {
			if a.before(c, least) {
				least = c
			}
		}
		if least == i {
			break
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
	*h = a
	return top
}
