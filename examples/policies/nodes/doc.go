// Package nodes keeps what a score policy remembers of the cache's nodes, in a table whose size is fixed when the policy is
// configured, so that a tick allocates nothing.
//
//	t := nodes.New[uint64](info)
//	first, known := t.At(b.At(i))
//	if !known {
//		*first = b.At(i).LastUse()
//	}
//
// The host gives the name of a node that is gone to another one, and says neither that the first has gone nor that the other
// is new. The table tells them apart by what cannot change while a node lives, and is wrong where all of that is equal.
//
// The package imports abi and abi/guest. A Table belongs to one instance of a policy and is part of its state.
package nodes
