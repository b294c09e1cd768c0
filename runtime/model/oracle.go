package model

// Oracle gives the token that the model makes when every byte it reads is right, without any page.
// It takes tokens one by one; each costs the making of its own KV, however many came before. It is
// a value: a copy goes its own way.
type Oracle struct {
	shape  Shape
	weight []uint64 // weights of the words of a page, shared by copies and never written
	prefix Prefix
	n      int
	sum    uint64 // of all pages but the last one in the stamp layout; of all tokens else
	last   uint64 // stamp layout: the last page's share
	place  uint64 // weight of the last page
}

// NewOracle starts an oracle with no token. The number of shards of shape does not matter.
func NewOracle(shape Shape, namespace string) (Oracle, error) {
	shape.Shards = 1
	if err := shape.Check(); err != nil {
		return Oracle{}, err
	}
	return Oracle{shape: shape, weight: newDigester(shape, 0).word, prefix: Start(namespace)}, nil
}

// Fork is an oracle of the same shape with no token in another namespace. It shares the tables and
// so costs nothing.
func (o *Oracle) Fork(namespace string) Oracle {
	return Oracle{shape: o.shape, weight: o.weight, prefix: Start(namespace)}
}

// Extend takes in the next token.
func (o *Oracle) Extend(token uint32) {
	o.prefix = o.prefix.Next(token)
	page, slot := o.n/o.shape.PageSize, o.n%o.shape.PageSize
	if slot == 0 {
		o.sum, o.last = add(o.sum, o.last), 0
		o.place = pageWeight(page)
	}
	if o.shape.Stamp {
		o.last = mul(stampDigest(stampHash(o.prefix, page, slot+1), stampPlace(page, slot+1)), o.place)
	} else {
		var token uint64
		for layer := range o.shape.Layers {
			token = add(token, o.segment(layer, slot))
		}
		o.sum = add(o.sum, mul(token, o.place))
	}
	o.n++
}

// segment is the digest of the newest token's bytes in one layer.
func (o *Oracle) segment(layer, slot int) uint64 {
	words := o.shape.words()
	weights := o.weight[(layer*o.shape.PageSize+slot)*words:][:words]
	key := contentKey(o.prefix, o.n, layer)
	var sum uint64
	for i, w := range weights {
		word := contentWord(key, i)
		if rest := o.shape.BytesPerTokenLayer - 8*i; rest < 8 {
			word &= 1<<(8*rest) - 1
		}
		sum = add(sum, mul(word, w))
	}
	return sum
}

// Len is how many tokens have been taken in.
func (o *Oracle) Len() int { return o.n }

// Prefix is the prefix after them.
func (o *Oracle) Prefix() Prefix { return o.prefix }

// Sum is what the partial sums of all ranks add up to, modulo 2^61-1, after those tokens.
func (o *Oracle) Sum() uint64 { return add(o.sum, o.last) }

// Next is the token that follows, of a vocabulary as in Join. With no token taken in it means
// nothing.
func (o *Oracle) Next(vocab int) uint32 { return tokenOf(o.Sum(), vocab) }

// Reference is the token that follows tokens, of a vocabulary as in Join: what a step over pages
// gives when every byte is right, and what prefill samples as the first token. For one token after
// another use an Oracle. ErrShape where the shape is not usable.
func Reference(shape Shape, namespace string, tokens []uint32, vocab int) (uint32, error) {
	o, err := NewOracle(shape, namespace)
	if err != nil {
		return 0, err
	}
	for _, t := range tokens {
		o.Extend(t)
	}
	return o.Next(vocab), nil
}
