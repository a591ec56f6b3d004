package workload

import "iter"

// A Batch holds pairs that a store sets together. It points into memory of the caller.
type Batch struct {
	keys, values       []byte
	keyEnds, valueEnds []int // one more than there are pairs; pair i lies between ends i and i+1
}

// Len returns the number of pairs.
func (b Batch) Len() int { return max(0, len(b.keyEnds)-1) }

// All yields the pairs in the order in which they must be set.
func (b Batch) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for i := range b.Len() {
			k := b.keys[b.keyEnds[i]:b.keyEnds[i+1]:b.keyEnds[i+1]]
			v := b.values[b.valueEnds[i]:b.valueEnds[i+1]:b.valueEnds[i+1]]
			if !yield(k, v) {
				return
			}
		}
	}
}

// Packed holds pairs end to end: pair i has the bytes of Keys between KeyEnds[i] and KeyEnds[i+1], and likewise of
// Values. The first end is 0.
type Packed struct {
	Keys, Values       []byte
	KeyEnds, ValueEnds []int
}

// grow allocates memory for n pairs with the given number of value bytes.
func (p *Packed) grow(n, values int) {
	p.Keys, p.Values = make([]byte, 0, n*64), make([]byte, 0, values+values/4)
	p.KeyEnds, p.ValueEnds = make([]int, 0, n+1), make([]int, 0, n+1)
}

func (p *Packed) reset() {
	p.Keys, p.Values = p.Keys[:0], p.Values[:0]
	p.KeyEnds, p.ValueEnds = append(p.KeyEnds[:0], 0), append(p.ValueEnds[:0], 0)
}

func (p *Packed) len() int { return max(0, len(p.KeyEnds)-1) }

// add appends a copy of one pair.
func (p *Packed) add(key, value []byte) {
	if len(p.KeyEnds) == 0 {
		p.reset()
	}
	p.Keys, p.Values = append(p.Keys, key...), append(p.Values, value...)
	p.end()
}

// end marks the bytes appended to keys and values since the last call as one pair.
func (p *Packed) end() {
	p.KeyEnds, p.ValueEnds = append(p.KeyEnds, len(p.Keys)), append(p.ValueEnds, len(p.Values))
}

func (p *Packed) key(i int) []byte { return p.Keys[p.KeyEnds[i]:p.KeyEnds[i+1]:p.KeyEnds[i+1]] }
func (p *Packed) value(i int) []byte {
	return p.Values[p.ValueEnds[i]:p.ValueEnds[i+1]:p.ValueEnds[i+1]]
}

// batch returns pairs i to j-1.
func (p *Packed) batch(i, j int) Batch {
	return Batch{p.Keys, p.Values, p.KeyEnds[i : j+1], p.ValueEnds[i : j+1]}
}
