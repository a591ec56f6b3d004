package workload

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/bloomkv/bloomkv/internal/words"
)

// Pair is a key and its value.
type Pair struct{ Key, Value []byte }

// Pairs is a sorted [Set] of given pairs, such as lines or files of the user.
//
// An absent key is a key of the set, its base, followed by '!' and a number. It lies directly above its base unless
// keys of the set start with the base too. A key is not used as a base if such an absent key could be present, or would
// be greater than all keys.
type Pairs struct {
	pairs []Pair
	bases []int // numbers of the keys that are bases of absent keys
}

var _ Set = (*Pairs)(nil)

const (
	absentMark    = '!'  // less than letters, digits and the usual separators
	absentPerBase = 1024 // absent keys per base
)

// NewPairs returns a set of a sorted copy of pairs. It keeps their bytes, which must not change. Two equal keys are an
// error.
func NewPairs(pairs []Pair) (*Pairs, error) {
	p := &Pairs{pairs: slices.Clone(pairs)}
	slices.SortFunc(p.pairs, func(a, b Pair) int { return bytes.Compare(a.Key, b.Key) })
	for i := 1; i < len(p.pairs); i++ {
		if bytes.Equal(p.pairs[i-1].Key, p.pairs[i].Key) {
			return nil, fmt.Errorf("key %s is given twice", words.Quoted(p.pairs[i].Key))
		}
	}
	var marked []byte
	for i := range p.pairs {
		base, last := p.pairs[i].Key, p.pairs[len(p.pairs)-1].Key
		marked = append(append(marked[:0], base...), absentMark)
		at, _ := p.search(marked)
		taken := at < len(p.pairs) && bytes.HasPrefix(p.pairs[at].Key, marked)
		if !taken && bytes.Compare(marked, last) < 0 {
			p.bases = append(p.bases, i)
		}
	}
	return p, nil
}

func (p *Pairs) search(key []byte) (int, bool) {
	return slices.BinarySearchFunc(p.pairs, key, func(e Pair, key []byte) int { return bytes.Compare(e.Key, key) })
}

// Len returns the number of pairs.
func (p *Pairs) Len() int { return len(p.pairs) }

// Sorted returns true.
func (p *Pairs) Sorted() bool { return true }

// AppendKey appends key i, 0 ≤ i < Len.
func (p *Pairs) AppendKey(dst []byte, i int) []byte { return append(dst, p.pairs[i].Key...) }

// AppendValue appends the value of key i, 0 ≤ i < Len.
func (p *Pairs) AppendValue(dst []byte, i int) []byte { return append(dst, p.pairs[i].Value...) }

// AppendVersion appends the value of key i, 0 ≤ i < Len, followed by the version if that is above 0.
func (p *Pairs) AppendVersion(dst []byte, i int, version uint32) []byte {
	dst = p.AppendValue(dst, i)
	if version > 0 {
		dst = strconv.AppendUint(append(dst, absentMark), uint64(version), 10)
	}
	return dst
}

// Index returns the number of a key, or false if the key is not in the set.
func (p *Pairs) Index(key []byte) (i int, ok bool) { return p.search(key) }

// Absents returns the number of absent keys: 0 if the set has fewer than two keys, else many times its length.
func (p *Pairs) Absents() int {
	return int(min(int64(len(p.bases))*absentPerBase, math.MaxInt32))
}

// AppendAbsent appends absent key i, 0 ≤ i < Absents.
func (p *Pairs) AppendAbsent(dst []byte, i int) []byte {
	base := p.pairs[p.bases[i%len(p.bases)]].Key
	dst = append(append(dst, base...), absentMark)
	return strconv.AppendInt(dst, int64(i/len(p.bases)), 10)
}
