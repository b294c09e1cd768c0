package schedule

import (
	"errors"
	"slices"

	"sluice/abi"
	"sluice/kvcache/index"
)

// startBackups is the write-through half of step 9: nodes published without a host copy are copied out while
// there is room; a node that finds none stays without and is counted.
func (s *Scheduler) startBackups(e *Effects) {
	done := 0
	for _, n := range s.unbacked {
		if s.room(OperationBackup) == 0 {
			break
		}
		done++
		info, ok := s.x.Node(n)
		if !ok || info.L1 != index.L1Valid || info.L2 || info.Save != 0 {
			continue
		}
		op, err := s.x.StartBackup(n)
		if short := s.hostShort(err); short > 0 && s.x.Evict(index.L2, short) >= short {
			op, err = s.x.StartBackup(n)
		}
		if err != nil {
			s.counts.BackupsRefused += uint64(info.Pages)
			continue
		}
		i := s.newOperation(OperationBackup, info.Pages)
		s.ops[i].node = op
		s.issueNode(i, EffectBackup, e)
	}
	s.unbacked = append(s.unbacked[:0], s.unbacked[done:]...)
}

// hostShort is how many pages the host tier's free list lacked, 0 where err says nothing of the kind. The books of
// that tier cost a walk, so the tick asks for pages first and evicts only when told to.
func (s *Scheduler) hostShort(err error) int {
	var short *index.ShortError
	if !errors.As(err, &short) {
		return 0
	}
	return short.Need - short.Free
}

// retract takes a running or waiting request off the device: its pages are saved to the host tier, and it
// waits at the head of the retracted queue. Without host room it ends, with a reason that invites a retry.
func (s *Scheduler) retract(i int32, e *Effects) {
	r := &s.reqs[i]
	n := ceilDiv(r.kv(), s.cfg.PageSize)
	s.counts.Retractions++
	r.retracts++
	saved, err := s.x.Alloc(index.L2, n, index.Loading, r.saved[:0])
	if short := s.hostShort(err); short > 0 && s.x.Evict(index.L2, short) >= short {
		saved, err = s.x.Alloc(index.L2, n, index.Loading, r.saved[:0])
	}
	if err != nil || s.room(OperationSave) == 0 {
		if err == nil {
			s.keep(s.x.Move(index.L2, saved, index.Loading, index.Free))
		}
		s.end(i, FinishFailed, abi.ReasonRetractionSaveFailed, -1, 0, e)
		return
	}
	r.saved = saved
	s.keep(s.x.Move(index.L1, r.pages[r.tree:], r.held, index.Saving))
	r.held = index.Saving
	o := s.newOperation(OperationSave, n)
	s.ops[o].owner = i
	r.saveOp = o
	e.add(Effect{Kind: EffectSave, Request: r.id, Operation: s.ops[o].id, src: e.pages(r.pages[:n]), dst: e.pages(saved)})
	s.move(i, QueueRetracted)
	s.retracted = slices.Insert(s.retracted, 0, i)
}

func (s *Scheduler) endSave(op int32, good bool, e *Effects) {
	i := s.ops[op].owner
	r := &s.reqs[i]
	r.saveOp = -1
	s.keep(s.x.Move(index.L2, r.saved, index.Loading, index.Private))
	if good && !r.aborted {
		s.releaseDevice(i, e)
		return
	}
	s.retracted = remove(s.retracted, i)
	s.end(i, FinishFailed, abi.ReasonRetractionSaveFailed, -1, 0, e)
}

// resume sets device pages aside for a retracted request and copies its KV back.
func (s *Scheduler) resume(i int32, e *Effects) {
	r := &s.reqs[i]
	n := len(r.saved)
	if free := s.x.Books(index.L1).Free; free < n {
		s.x.Evict(index.L1, n-free)
	}
	pages, err := s.x.Alloc(index.L1, n, index.Loading, r.pages[:0])
	if err != nil {
		s.keep(err)
		return
	}
	r.pages, r.tree, r.held = pages, 0, index.Loading
	o := s.newOperation(OperationResume, n)
	s.ops[o].owner = i
	r.saveOp = o
	e.add(Effect{Kind: EffectResume, Request: r.id, Operation: s.ops[o].id, src: e.pages(r.saved), dst: e.pages(pages)})
	s.move(i, QueueResuming)
	s.resuming = append(s.resuming, i)
}

func (s *Scheduler) endResume(op int32, good bool, e *Effects) {
	i := s.ops[op].owner
	r := &s.reqs[i]
	r.saveOp = -1
	s.resuming = remove(s.resuming, i)
	s.keep(s.x.Move(index.L1, r.pages, r.held, index.Private))
	r.held = index.Private
	if !good || r.aborted {
		s.end(i, FinishFailed, abi.ReasonResumeFailed, -1, 0, e)
		return
	}
	s.keep(s.x.Move(index.L2, r.saved, index.Private, index.Free))
	r.saved = r.saved[:0]
	e.row(i, 0, r.pages)
	s.move(i, QueueWaiting)
	s.waiting = append(s.waiting, i)
}

// end is the terminal step of a request whose pages nobody else writes: answer, release, drop. The caller has
// taken it out of its queue.
func (s *Scheduler) end(i int32, k FinishKind, reason abi.Reason, rank int, token uint32, e *Effects) {
	s.answer(i, k, reason, rank, token, e)
	s.release(i, e)
	s.dropRequest(i)
}

func remove(list []int32, v int32) []int32 {
	if at := slices.Index(list, v); at >= 0 {
		return slices.Delete(list, at, at+1)
	}
	return list
}
