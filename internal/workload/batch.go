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

// pairs is a buffer of keys and values, stored end to end.
type pairs struct {
	keys, values       []byte
	keyEnds, valueEnds []int // ends[0] is 0
}

// grow allocates memory for n pairs with the given number of value bytes.
func (p *pairs) grow(n, values int) {
	p.keys, p.values = make([]byte, 0, n*64), make([]byte, 0, values+values/4)
	p.keyEnds, p.valueEnds = make([]int, 0, n+1), make([]int, 0, n+1)
}

func (p *pairs) reset() {
	p.keys, p.values = p.keys[:0], p.values[:0]
	p.keyEnds, p.valueEnds = append(p.keyEnds[:0], 0), append(p.valueEnds[:0], 0)
}

func (p *pairs) len() int { return max(0, len(p.keyEnds)-1) }

// add appends a copy of one pair.
func (p *pairs) add(key, value []byte) {
	if len(p.keyEnds) == 0 {
		p.reset()
	}
	p.keys, p.values = append(p.keys, key...), append(p.values, value...)
	p.end()
}

// end marks the bytes appended to keys and values since the last call as one pair.
func (p *pairs) end() {
	p.keyEnds, p.valueEnds = append(p.keyEnds, len(p.keys)), append(p.valueEnds, len(p.values))
}

func (p *pairs) key(i int) []byte { return p.keys[p.keyEnds[i]:p.keyEnds[i+1]:p.keyEnds[i+1]] }
func (p *pairs) value(i int) []byte {
	return p.values[p.valueEnds[i]:p.valueEnds[i+1]:p.valueEnds[i+1]]
}

// batch returns pairs i to j-1.
func (p *pairs) batch(i, j int) Batch {
	return Batch{p.keys, p.values, p.keyEnds[i : j+1], p.valueEnds[i : j+1]}
}
