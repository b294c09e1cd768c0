package index

import "slices"

func (d *driver) stepPin() {
	s, tokens := SpaceID(1+d.rng.IntN(2)), d.tokens()
	pages := d.x.Match(s, tokens).Pages
	if pages > 0 && d.rng.IntN(2) == 0 {
		pages = d.rng.IntN(pages + 1)
	} else if d.rng.IntN(10) == 0 {
		pages++
	}
	d.note("pin %d %v pages %d clock %d", s, tokens, pages, d.clock)
	before := d.x.Digest()
	r, node, err := d.x.Pin(s, tokens, pages, d.clock)
	r2, _, err2 := d.twin.Pin(s, tokens, pages, d.clock)
	serial, wantNode, wantErr := d.m.pin(d.m.roots[s-1], tokens, pages, d.clock)
	if !d.sameErr("pin", before, err, err2, wantErr) {
		return
	}
	if r.serial != serial || node != wantNode {
		d.fail("pin gave receipt %v at node %d, model %d at %d", r, node, serial, wantNode)
	}
	d.pins, d.twins = append(d.pins, r), append(d.twins, r2)
}

func (d *driver) stepUnpin() {
	if len(d.pins) == 0 {
		return
	}
	i := d.rng.IntN(len(d.pins))
	r, r2 := d.pins[i], d.twins[i]
	d.note("unpin %v", r)
	if err := d.twin.Unpin(r2); err != nil {
		d.fail("twin: %v", err)
	}
	if got, want := d.x.Unpin(r), d.m.unlock(r.serial); got != nil || want != nil {
		d.fail("unpin: %v, model %v", got, want)
	}
	if err := d.x.Unpin(r); !sameKind(err, ErrReceipt) {
		d.fail("second unpin of %v: %v", r, err)
	}
	d.pins, d.twins = slices.Delete(d.pins, i, i+1), slices.Delete(d.twins, i, i+1)
}

// outside returns the numbers of tier t that the driver holds in state st, ascending.
func (d *driver) outside(t Tier, st State) []Page {
	var out []Page
	for p, s := range d.m.out[t] {
		if s == st {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func (d *driver) stepInsert() {
	s, tokens := SpaceID(1+d.rng.IntN(2)), d.tokens()
	full := len(tokens) / d.x.pageSize
	m := d.x.Match(s, tokens)
	from := 0
	var table []Page
	if m.L1 > 0 && d.rng.IntN(2) == 0 {
		from = 1 + d.rng.IntN(m.L1)
		table = d.x.AppendPages(nil, L1, m.Node)[:from]
	}
	if need := full - from; need > 0 {
		d.x.Evict(L1, 0)
		if d.rng.IntN(4) == 0 {
			mine := d.outside(L1, Private) // perhaps numbers at or above the usable mark
			table = append(table, mine[:min(need, len(mine))]...)
		}
		if need = full - len(table); need > 0 {
			got, err := d.x.Alloc(L1, need, Private, table)
			_, err2 := d.twin.Alloc(L1, need, Private, nil)
			want, wantErr := d.m.alloc(L1, need, Private)
			if err != nil || err2 != nil {
				if !sameKind(err, wantErr) || !sameKind(err2, wantErr) {
					d.fail("alloc: %v, twin %v, model %v", err, err2, wantErr)
				}
				return
			}
			if !slices.Equal(got[len(table):], want) {
				d.fail("alloc gave %v, model %v", got[len(table):], want)
			}
			table = got
		}
	}
	switch d.rng.IntN(20) {
	case 0:
		from++
	case 1:
		if len(table) > 1 {
			table[len(table)-1] = table[0]
		}
	}
	table2, want := slices.Clone(table), slices.Clone(table)
	d.note("insert %d %v table %v from %d clock %d", s, tokens, table, from, d.clock)
	before := d.x.Digest()
	got, err := d.x.Insert(s, tokens, table, from, d.clock)
	_, err2 := d.twin.Insert(s, tokens, table2, from, d.clock)
	res, wantErr := d.m.insert(d.m.roots[s-1], tokens, want, from, d.clock)
	if !d.sameErr("insert", before, err, err2, wantErr) {
		return
	}
	if got != res || !slices.Equal(table, want) {
		d.fail("insert gave %+v %v, model %+v %v", got, table, res, want)
	}
}

func (d *driver) stepEvict() {
	t, n := Tier(d.rng.IntN(2)), d.rng.IntN(12)
	d.note("evict %s %d", t, n)
	d.twin.Evict(t, n)
	if got, want := d.x.Evict(t, n), d.m.evict(t, n); got != want {
		d.fail("evict %s %d freed %d, model %d", t, n, got, want)
	}
}

func (d *driver) stepStart(kind OpKind) {
	node := d.anyNode()
	for range 8 { // a node that fits is rare, so look around
		if n, ok := d.x.Node(node); ok && n.Pages > 0 && (n.L1 == L1None) == (kind == OpLoad) && n.L2 == (kind == OpLoad) {
			break
		}
		node = d.anyNode()
	}
	d.note("start %s %d", kind, node)
	before := d.x.Digest()
	var op, want OpID
	var err, err2, wantErr error
	if kind == OpLoad {
		op, err = d.x.StartLoad(node)
		_, err2 = d.twin.StartLoad(node)
		want, wantErr = d.m.startLoad(node)
	} else {
		op, err = d.x.StartBackup(node)
		_, err2 = d.twin.StartBackup(node)
		want, wantErr = d.m.startBackup(node)
	}
	if !d.sameErr("start", before, err, err2, wantErr) {
		return
	}
	if op != want {
		d.fail("start gave %d, model %d", op, want)
	}
	d.ops = append(d.ops, op)
	if info, ok := d.x.OpInfo(op); !ok || info.Kind != kind || info.Tail != node {
		d.fail("operation %d is %+v, %t", op, info, ok)
	}
}

func (d *driver) stepEnd() {
	op, ok := pick(d.rng, d.ops)
	if !ok {
		return
	}
	info, _ := d.x.OpInfo(op)
	if want := d.m.opPages(op); info.Pages != want {
		d.fail("operation %d has %d pages, model %d", op, info.Pages, want)
		return
	}
	d.compareOp(op, info)
	good := info.Pages
	if d.rng.IntN(2) == 0 {
		good = d.rng.IntN(info.Pages + 2) // one more than there are is an error
	}
	d.note("end %s %d good %d of %d", info.Kind, op, good, info.Pages)
	before := d.x.Digest()
	var rest NodeID
	var err, err2 error
	if info.Kind == OpLoad {
		rest, err = d.x.EndLoad(op, good)
		_, err2 = d.twin.EndLoad(op, good)
	} else {
		err = d.x.EndBackup(op, good)
		err2 = d.twin.EndBackup(op, good)
	}
	want, wantErr := d.m.end(op, info.Kind, good)
	if !d.sameErr("end", before, err, err2, wantErr) {
		return
	}
	if rest != want {
		d.fail("end left %d, model %d", rest, want)
	}
	if rest != 0 {
		d.rests = append(d.rests, rest)
	}
	d.ops = slices.DeleteFunc(d.ops, func(o OpID) bool { return o == op })
	if _, ok := d.x.OpInfo(op); ok {
		d.fail("operation %d still runs", op)
	}
}

func (d *driver) compareOp(op OpID, info OpInfo) {
	src, dst := d.x.AppendOp(nil, nil, op)
	var l1, l2 []Page
	for _, id := range d.m.opNodes(op) {
		l1, l2 = append(l1, d.m.nodes[id].l1...), append(l2, d.m.nodes[id].l2...)
	}
	if info.Kind == OpBackup {
		l1, l2 = l2, l1
	}
	if !slices.Equal(src, l2) || !slices.Equal(dst, l1) {
		d.fail("operation %d copies %v to %v, model %v to %v", op, src, dst, l2, l1)
	}
}

func (d *driver) stepRest() {
	node, ok := pick(d.rng, d.rests)
	if d.rng.IntN(5) == 0 {
		node, ok = d.anyNode(), true
	}
	if !ok {
		return
	}
	before := d.x.Digest()
	if d.rng.IntN(2) == 0 {
		d.note("retry %d", node)
		op, err := d.x.RetryLoad(node)
		_, err2 := d.twin.RetryLoad(node)
		want, wantErr := d.m.retry(node)
		if !d.sameErr("retry", before, err, err2, wantErr) {
			return
		}
		if op != want {
			d.fail("retry gave %d, model %d", op, want)
		}
		d.ops = append(d.ops, op)
	} else {
		d.note("release %d", node)
		if !d.sameErr("release", before, d.x.ReleaseLoad(node), d.twin.ReleaseLoad(node), d.m.release(node)) {
			return
		}
	}
	d.rests = slices.DeleteFunc(d.rests, func(n NodeID) bool { return n == node })
}

func (d *driver) stepDrop() {
	node := d.anyNode()
	d.note("drop %d", node)
	before := d.x.Digest()
	d.sameErr("drop", before, d.x.DropCopies(node), d.twin.DropCopies(node), d.m.drop(node))
}

func (d *driver) stepOutside() {
	t, st := Tier(d.rng.IntN(2)), Private+State(d.rng.IntN(4))
	before := d.x.Digest()
	if d.rng.IntN(3) == 0 {
		n := d.rng.IntN(4)
		d.note("alloc %s %d %s", t, n, st)
		got, err := d.x.Alloc(t, n, st, nil)
		_, err2 := d.twin.Alloc(t, n, st, nil)
		want, wantErr := d.m.alloc(t, n, st)
		if d.sameErr("alloc", before, err, err2, wantErr) && !slices.Equal(got, want) {
			d.fail("alloc gave %v, model %v", got, want)
		}
		return
	}
	mine := d.outside(t, st)
	d.rng.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
	mine = mine[:len(mine)-d.rng.IntN(len(mine)+1)/2]
	to := []State{Free, Free, Free, Private, Saving, Loading, Quarantined}[d.rng.IntN(7)]
	if len(mine) > 0 && to != st && d.rng.IntN(8) == 0 {
		mine = append(mine, mine[0])
	}
	if to == st {
		to = Free
	}
	d.note("move %s %v %s to %s", t, mine, st, to)
	d.sameErr("move", before, d.x.Move(t, mine, st, to), d.twin.Move(t, mine, st, to), d.m.move(t, mine, st, to))
}

func (d *driver) stepUsable() {
	t := Tier(d.rng.IntN(2))
	n := d.m.total[t] - d.rng.IntN(6)*d.rng.IntN(6)
	d.note("usable %s %d", t, n)
	d.x.SetUsable(t, n)
	d.twin.SetUsable(t, n)
	d.m.setUsable(t, n)
}

func (d *driver) stepRare() {
	before := d.x.Digest()
	switch d.rng.IntN(6) {
	case 0:
		node := d.anyNode()
		d.note("touch %d %d", node, d.clock)
		d.x.Touch(node, d.clock)
		d.twin.Touch(node, d.clock)
		if d.m.nodes[node] != nil {
			d.m.touch(node, d.clock)
		}
	case 1:
		on := d.rng.IntN(2) == 0
		d.note("scores %t", on)
		d.x.ResetScores(on)
		d.twin.ResetScores(on)
		d.m.scoring = on
		for _, n := range d.m.nodes {
			n.class, n.score = unasked, 0
		}
	case 2:
		ids, _ := d.x.AppendUnscored(nil, 0, d.clock, 5)
		for _, id := range ids {
			key := int64(d.rng.IntN(5)) - 2
			d.note("score %d %d", id, key)
			err, err2 := d.x.SetScore(id, key), d.twin.SetScore(id, key)
			if (err == nil) != d.m.scoring || (err2 == nil) != d.m.scoring {
				d.fail("score: %v, twin %v, scoring %t", err, err2, d.m.scoring)
			}
			if n := d.m.nodes[id]; d.m.scoring {
				n.class, n.score = scored, key
			}
		}
	case 3:
		t := Tier(d.rng.IntN(2))
		pages := []Page{Page(d.rng.IntN(45)), Page(d.rng.IntN(45))}
		d.note("claim %s %v", t, pages)
		d.sameErr("claim", before, d.x.Claim(t, pages, Quarantined), d.twin.Claim(t, pages, Quarantined), d.m.claim(t, pages, Quarantined))
	case 4:
		d.note("sort free, reset")
		for t := range tiers {
			d.x.SortFree(t)
			d.twin.SortFree(t)
			slices.Sort(d.m.free[t])
		}
		before = d.x.Digest()
		d.sameErr("reset", before, d.x.Reset(), d.twin.Reset(), d.m.reset())
	case 5:
		if d.rng.IntN(4) > 0 {
			return
		}
		d.note("drop unlocked")
		d.x.DropUnlocked()
		d.twin.DropUnlocked()
		for _, r := range d.m.roots {
			d.m.dropUnlocked(r)
		}
	}
}
