package schedule

import (
	"fmt"
	"slices"

	"sluice/kvcache/index"
)

// rest is what a load that fell short left behind: a node whose device numbers stay booked until the requests
// that failed with it are retired, so that every rank keeps the same room set aside.
type rest struct {
	node   index.NodeID // deepest node
	pages  int          // from there towards the root
	joined []int32      // failed requests that still hold it
	retry  int32        // slab index of the re-issue, -1 = none
}

// loadFail counts loads that failed in a row on one host copy, which the first number of the node's own pages and its
// generation identify: a node id is used again.
type loadFail struct {
	page  index.Page
	gen   uint32
	count int
}

func (s *Scheduler) endLoad(i int32, good int, bad bool, e *Effects) {
	o := s.ops[i]
	joined := o.joined
	info, _ := s.x.OpInfo(o.node)
	left, err := s.x.EndLoad(o.node, good)
	s.keep(err)
	s.counts.LoadPages += uint64(good)
	for _, r := range joined {
		s.reqs[r].pending--
	}
	if left == 0 {
		delete(s.loadFails, info.Tail)
		// A re-issue that made it good ends the rest that its first try had left.
		s.rests = slices.DeleteFunc(s.rests, func(t rest) bool { return t.retry == i })
		return
	}
	drop := s.countFailure(left) >= s.cfg.LoadFailures || bad
	at := slices.IndexFunc(s.rests, func(t rest) bool { return t.retry == i })
	if at < 0 {
		s.rests = append(s.rests, rest{node: left, retry: -1})
		at = len(s.rests) - 1
	}
	t := &s.rests[at]
	t.node, t.pages, t.retry = left, o.pages-good, -1
	if drop || o.retry {
		for _, r := range joined {
			s.failRestore(r)
			t.joined = addUnique(t.joined, r)
		}
	} else {
		// Only the request that started the copy fails with it; the others get the rest once more.
		owner := o.owner
		if owner >= 0 && (s.reqs[owner].queue != QueueTransfer || !slices.Contains(joined, owner)) {
			owner = -1
		}
		if owner >= 0 {
			s.failRestore(owner)
			t.joined = addUnique(t.joined, owner)
		}
		s.retryLoad(at, joined, owner, e)
	}
	if drop {
		delete(s.loadFails, left)
		s.keep(s.x.DropCopies(s.top(left, o.pages-good)))
		s.counts.DroppedCopies++
		s.failPromisesWithout()
	}
	s.settleRests()
}

// countFailure notes that the load which ends in node fell short and returns how often that has happened in a row.
func (s *Scheduler) countFailure(node index.NodeID) int {
	s.src = s.x.AppendPages(s.src[:0], index.L2, node)
	if len(s.src) == 0 || s.src[len(s.src)-1] == index.NoPage {
		return s.cfg.LoadFailures // the copy is gone already
	}
	p := s.src[len(s.src)-1]
	f := loadFail{page: p, gen: s.x.Generation(index.L2, p), count: 1}
	if was, ok := s.loadFails[node]; ok && was.page == f.page && was.gen == f.gen {
		f.count += was.count
	}
	s.loadFails[node] = f
	return f.count
}

// retryLoad issues what a load left undone once more, for the joined requests that still want it.
func (s *Scheduler) retryLoad(at int, joined []int32, except int32, e *Effects) {
	t := &s.rests[at]
	want := -1
	for n, r := range joined {
		if r != except && s.reqs[r].queue == QueueTransfer && !s.reqs[r].failed {
			want = n
			break
		}
	}
	if want < 0 {
		// Those that only wait to be drained hold the numbers until they are released.
		for _, r := range joined {
			t.joined = addUnique(t.joined, r)
		}
		return
	}
	op, err := s.x.RetryLoad(t.node)
	if err != nil {
		s.keep(err)
		return
	}
	info, _ := s.x.OpInfo(op)
	i := s.newOperation(OperationLoad, info.Pages)
	o := &s.ops[i]
	o.node, o.retry, o.owner = op, true, joined[want]
	for _, r := range joined {
		if r == except || s.reqs[r].failed {
			continue
		}
		o.joined = append(o.joined, r)
		s.reqs[r].pending++
	}
	s.rests[at].retry = i
	s.issueNode(i, EffectLoad, e)
}

func (s *Scheduler) failRestore(r int32) {
	q := &s.reqs[r]
	if !q.failed {
		q.failed = true
		s.counts.RestoresFailed++
		s.note(0x66726573, q.id)
	}
}

// failPromisesWithout fails every request in transfer whose promised path has lost a page's every copy.
func (s *Scheduler) failPromisesWithout() {
	for _, r := range s.transfer {
		q := &s.reqs[r]
		if q.failed || q.promise == 0 {
			continue
		}
		s.path = s.x.AppendPath(s.path[:0], q.node)
		for _, n := range s.path {
			if info, ok := s.x.Node(n); ok && info.L1 != index.L1Valid && !info.L2 && !s.loading(info) {
				s.failRestore(r)
				break
			}
		}
	}
}

// loading says whether a load of the node is running; the rest of an ended one is not.
func (s *Scheduler) loading(n index.NodeInfo) bool {
	_, ok := s.x.OpInfo(n.Load)
	return ok
}

// top is the root side end of the chain of nodes that covers the pages above and including tail.
func (s *Scheduler) top(tail index.NodeID, pages int) index.NodeID {
	for {
		info, ok := s.x.Node(tail)
		if pages -= info.Pages; !ok || pages <= 0 {
			return tail
		}
		tail = info.Parent
	}
}

// restOf finds the rest, not issued again, that node n is part of, -1 when there is none.
func (s *Scheduler) restOf(n index.NodeID) int {
	return slices.IndexFunc(s.rests, func(t rest) bool {
		if t.retry >= 0 {
			return false
		}
		for id, pages := t.node, t.pages; pages > 0; {
			if id == n {
				return true
			}
			info, ok := s.x.Node(id)
			if !ok || info.Pages == 0 {
				return false
			}
			id, pages = info.Parent, pages-info.Pages
		}
		return false
	})
}

// leaveLoads takes a released request out of every load and rest it is part of.
func (s *Scheduler) leaveLoads(r int32) {
	if s.reqs[r].pending > 0 {
		for _, i := range s.opList {
			o := &s.ops[i]
			if o.kind != OperationLoad {
				continue
			}
			if at := slices.Index(o.joined, r); at >= 0 {
				o.joined = slices.Delete(o.joined, at, at+1)
				if o.owner == r {
					o.owner = -1
					if len(o.joined) > 0 {
						o.owner = o.joined[0]
					}
				}
			}
		}
		s.reqs[r].pending = 0
	}
	changed := false
	for n := range s.rests {
		if at := slices.Index(s.rests[n].joined, r); at >= 0 {
			s.rests[n].joined = slices.Delete(s.rests[n].joined, at, at+1)
			changed = true
		}
	}
	if changed {
		s.settleRests()
	}
}

// settleRests gives back the numbers of rests nobody holds any more.
func (s *Scheduler) settleRests() {
	s.rests = slices.DeleteFunc(s.rests, func(t rest) bool {
		if len(t.joined) > 0 || t.retry >= 0 {
			return false
		}
		s.keep(s.x.ReleaseLoad(t.node))
		return true
	})
}

func addUnique(list []int32, v int32) []int32 {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// startRestores is step 6: in queue order, the promised pages that have no device number yet are set aside and
// their copies issued, root side first and as many nodes as operations may be outstanding. It stops at the first
// request that does not fit or is not done. It returns the pages set aside.
func (s *Scheduler) startRestores(e *Effects) (setAside int) {
	for _, r := range s.transfer {
		q := &s.reqs[r]
		if q.setAside || q.failed {
			continue
		}
		owed := s.x.Owed(q.node)
		if owed > s.x.Available() {
			s.unblock(q)
			return setAside
		}
		if free := s.x.Books(index.L1).Free; free < owed {
			s.x.Evict(index.L1, owed-free)
		}
		s.path = s.x.AppendPath(s.path[:0], q.node)
		for _, n := range s.path {
			if !s.joinLoad(r, n, e) {
				return setAside + owed - s.x.Owed(q.node)
			}
		}
		q.setAside = true
		setAside += owed
		s.note(0x61736964, q.id)
	}
	return setAside
}

// unblock ends a wait that nothing else would: the head of the restores has waited for starve_ticks, finds no room
// (the device has shrunk since it was admitted), and no request or operation is left that could give any back. The
// youngest entry's restore fails; its pages are the next one's room.
func (s *Scheduler) unblock(head *request) {
	if len(s.running)+len(s.waiting)+len(s.resuming)+len(s.quarantine)+len(s.opList) > 0 ||
		s.tick-head.entered < uint64(s.cfg.StarveTicks) || !s.transfersBlocked() {
		return
	}
	s.failRestore(s.transfer[len(s.transfer)-1])
}

// joinLoad makes request r wait for node n: it starts the node's load, joins the one in flight, or issues a
// rest once more. It returns false where that takes an operation and none may start now.
func (s *Scheduler) joinLoad(r int32, n index.NodeID, e *Effects) bool {
	info, ok := s.x.Node(n)
	if !ok || info.L1 == index.L1Valid {
		return true
	}
	if info.L1 == index.L1Loading && s.loading(info) {
		s.joinRunning(r, info.Load)
		return true
	}
	if s.room(OperationLoad) <= 0 {
		return false
	}
	if info.L1 == index.L1None {
		op, err := s.x.StartLoad(n)
		if err != nil {
			s.keep(err)
			return true
		}
		i := s.newOperation(OperationLoad, info.Pages)
		o := &s.ops[i]
		o.node, o.owner = op, r
		o.joined = append(o.joined, r)
		s.reqs[r].pending++
		s.counts.Restores++
		s.issueNode(i, EffectLoad, e)
		return true
	}
	if at := s.restOf(n); at >= 0 {
		s.one[0] = r
		s.retryLoad(at, s.one[:], -1, e)
	} else {
		s.keep(fmt.Errorf("node %d is set aside and no load of it is known", n))
	}
	return true
}

func (s *Scheduler) joinRunning(r int32, op index.OpID) {
	for _, i := range s.opList {
		o := &s.ops[i]
		if o.kind == OperationLoad && o.node == op {
			// Two halves of a split node are one operation, joined once.
			if !slices.Contains(o.joined, r) {
				o.joined = append(o.joined, r)
				s.reqs[r].pending++
			}
			return
		}
	}
}
