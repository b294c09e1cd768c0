package transfer

import "sluice/abi"

// submission is a prompt on its way from Submit to the pump. The peer's mutex guards it.
type submission struct {
	request Request // empty once taken
	taken   bool    // the pump has it
	gone    bool    // it was forgotten before
}

// claim gives a submission to the pump; ok is false where it was forgotten.
func (p *Prefill) claim(s *submission) (r Request, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, s.request, s.taken = s.request, Request{}, true
	return r, !s.gone
}

// left is the end of a room that was forgotten.
func left(room uint64) error {
	return roomError(room, failure{reason: abi.ReasonAborted, message: "its client has left"})
}

// forget drops a room that no rank knows.
func (u *pump) forget(number uint64) {
	rm := u.rooms[number]
	if rm == nil || rm.known {
		return
	}
	delete(u.rooms, number)
	if rm.state == roomWaiting {
		rm.state = roomOver
		u.end(rm, left(number))
	}
}

// shed lets go of the prompt of a room that has failed, once no write of it is under way. The room itself stays for
// ranks that have yet to learn of the failure.
func (rm *room) shed() {
	if rm.state == roomFailed && rm.flying == 0 {
		rm.request.Tokens, rm.prefixes = nil, nil
	}
}

// fly notes a write of the share that will happen. It is over for the room only once all that it leads to, a failure
// or a duplicate, is known.
func (x *share) fly() {
	x.flying++
	x.room.flying++
}
