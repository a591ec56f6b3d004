package sstable

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A prefixFilter is what a Reader has of its second filter. It is not loaded with the first one, but when somebody asks for it,
// and then at once: who never looks for prefixes has none of it in memory.
type prefixFilter struct {
	filter atomic.Pointer[bloomblock.Filter] // nil: not loaded; without units: there is none to ask

	// guarded by Reader.mu
	header bloomblock.Header
	damage error
}

// LoadPrefixes reads the prefix filter if it is one by that rule, so many units of it that their promised rate is at most
// maxRate, or all if it is not reached; with maxRate ≥ 1 nothing is read. What is loaded stays. Where there is none, or one by
// another rule, or a damaged one, there is none to ask: that is no error, see PrefixState. It loads the table's tail if need be.
func (r *Reader) LoadPrefixes(rule PrefixRule, maxRate float64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.prefix
	if p.filter.Load() != nil || maxRate >= 1 {
		return nil
	}
	if r.tail.Load() == nil {
		if err := r.loadIndex(); err != nil {
			return err
		}
	}
	f, err := r.readPrefixes(rule, maxRate)
	if errors.Is(err, corrupt.Err) || errors.Is(err, bloomblock.ErrUnknownKind) {
		f, p.damage, err = bloomblock.Filter{}, err, nil
	}
	if err == nil {
		p.filter.Store(&f)
	}
	return err
}

// readPrefixes reads the prefix filter, or returns one without units where there is none by that rule. The caller holds mu.
func (r *Reader) readPrefixes(rule PrefixRule, maxRate float64) (bloomblock.Filter, error) {
	t := r.tail.Load()
	x := &t.props.Prefixes
	if x.Bytes == 0 || x.Rule != rule.String() {
		return bloomblock.Filter{}, nil
	}
	offset := t.footer.indexOff - x.Bytes
	h, err := r.readFilterHeader(kindPrefixes, offset, x.Bytes, x.Sum)
	if err != nil {
		return bloomblock.Filter{}, err
	}
	r.prefix.header = h
	n := h.UnitsFor(maxRate)
	size := h.PrefixSize(n) - bloomblock.HeaderSize
	if size > math.MaxInt/2 { // where int has 32 bits
		return bloomblock.Filter{}, fmt.Errorf("%s: %w: prefix filter of %d bytes", r.meta.Name, ErrSize, size)
	}
	b := make([]byte, size) // below the size of the file
	if err := r.readAt(b, offset+bloomblock.HeaderSize); err != nil {
		return bloomblock.Filter{}, err
	}
	units := make([][]byte, n)
	for i := range units {
		units[i], b = b[:h.Units[i].Bytes()], b[h.Units[i].Bytes():]
	}
	f, err := h.Filter(units)
	if err != nil {
		return bloomblock.Filter{}, r.damaged(offset, err)
	}
	return f, nil
}

// PrefixRule returns the text of the rule of the prefix filter, empty where the table has none. Before the table's tail was
// read, by Load or a lookup, known is false. It does no I/O.
func (r *Reader) PrefixRule() (rule string, known bool) {
	t := r.tail.Load()
	if t == nil {
		return "", false
	}
	return t.props.Prefixes.Rule, true
}

// MayContainPrefix asks the prefix filter for the hash of a prefix by the rule of LoadPrefixes. False is certain: the table has no
// version of a key with that prefix. If probed is false there was no filter to ask, and if loaded is false, that is since
// LoadPrefixes was not called, or what it had loaded was dropped. It does no I/O.
func (r *Reader) MayContainPrefix(h bloomblock.Hash) (maybe, probed, loaded bool) {
	f := r.prefix.filter.Load()
	if f == nil {
		return true, false, false
	}
	return f.MayContain(h), f.Units() > 0, true
}

// PrefixBytes is the memory that the prefix filter takes now.
func (r *Reader) PrefixBytes() int64 {
	if f := r.prefix.filter.Load(); f != nil {
		return int64(f.Bytes())
	}
	return 0
}

// PrefixState is the state of the prefix filter as far as LoadPrefixes has seen it.
func (r *Reader) PrefixState() FilterState {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := FilterState{AllUnits: len(r.prefix.header.Units), Bytes: r.PrefixBytes(), Rate: 1, Damage: r.prefix.damage}
	if f := r.prefix.filter.Load(); f != nil {
		s.Units = f.Units()
		s.Rate = r.prefix.header.Rate(s.Units)
	}
	return s
}

// dropPrefixes lets go of the prefix filter if more units of it are in memory than a promised rate of maxRate needs; who asks
// for it next loads those. The caller holds mu.
func (r *Reader) dropPrefixes(maxRate float64) {
	if f := r.prefix.filter.Load(); f != nil && f.Units() > r.prefix.header.UnitsFor(maxRate) {
		r.prefix.filter.Store(nil)
	}
}
