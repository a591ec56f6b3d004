package sstable

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A prefixFilter holds a table's second filter, of the keys' prefixes. It is loaded at its first use and not with the
// first filter, so that it takes no memory in a store that never asks for prefixes.
type prefixFilter struct {
	filter atomic.Pointer[bloomblock.Filter] // nil: not loaded; without units: the table has none to ask

	mu     sync.Mutex        // serializes loading and dropping; held while the filter is read from the file
	header bloomblock.Header // guarded by mu
	damage error             // guarded by mu
}

// load loads the filter if rule is its rule. Damage is kept and is no error.
func (p *prefixFilter) load(f *tableFile, t *tail, rule PrefixRule, maxRate float64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filter.Load() != nil {
		return nil
	}
	filter, err := p.read(f, t, rule, maxRate)
	if errors.Is(err, corrupt.Err) || errors.Is(err, bloomblock.ErrUnknownKind) {
		filter, p.damage, err = bloomblock.Filter{}, err, nil
	}
	if err == nil {
		p.filter.Store(&filter)
	}
	return err
}

// read reads the filter, and returns one without units if the table's filter is by another rule. The caller holds mu.
func (p *prefixFilter) read(f *tableFile, t *tail, rule PrefixRule, maxRate float64) (bloomblock.Filter, error) {
	x := &t.props.Prefixes
	if x.Bytes == 0 || x.Rule != rule.String() {
		return bloomblock.Filter{}, nil
	}
	offset := t.prefixesOff()
	h, err := f.readFilterHeader(kindPrefixes, offset, x.Bytes, x.Sum)
	if err != nil {
		return bloomblock.Filter{}, err
	}
	p.header = h
	n := h.UnitsFor(maxRate)
	size := h.PrefixSize(n) - bloomblock.HeaderSize
	if size > math.MaxInt/2 { // where int has 32 bits
		return bloomblock.Filter{}, fmt.Errorf("%s: %w: prefix filter of %d bytes", f.meta.Name, ErrSize, size)
	}
	b := make([]byte, size) // below the size of the file
	if err := f.readAt(b, offset+bloomblock.HeaderSize); err != nil {
		return bloomblock.Filter{}, err
	}
	units := make([][]byte, n)
	for i := range units {
		units[i], b = b[:h.Units[i].Bytes()], b[h.Units[i].Bytes():]
	}
	filter, err := h.Filter(units)
	if err != nil {
		return bloomblock.Filter{}, f.damaged(offset, err)
	}
	return filter, nil
}

// MayContainPrefix asks the prefix filter for the hash of a prefix by the rule of LoadPrefixes. If maybe is false, the
// table has no version of a key with that prefix. If probed is false, there was no filter to ask; if loaded is false
// too, that is because LoadPrefixes was not called since the filter was last dropped. It does no I/O.
func (p *prefixFilter) MayContainPrefix(h bloomblock.Hash) (maybe, probed, loaded bool) {
	f := p.filter.Load()
	if f == nil {
		return true, false, false
	}
	return f.MayContain(h), f.Units() > 0, true
}

// PrefixBytes returns the bytes of memory that the prefix filter takes now.
func (p *prefixFilter) PrefixBytes() int64 {
	if f := p.filter.Load(); f != nil {
		return int64(f.Bytes())
	}
	return 0
}

// PrefixState returns the state of the prefix filter as far as LoadPrefixes has read it.
func (p *prefixFilter) PrefixState() FilterState {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := FilterState{AllUnits: len(p.header.Units), Bytes: p.PrefixBytes(), Rate: 1, Damage: p.damage}
	if f := p.filter.Load(); f != nil {
		s.Units = f.Units()
		s.Rate = p.header.Rate(s.Units)
	}
	return s
}

// trim drops the filter if more units of it are in memory than a promised rate of maxRate needs. The next LoadPrefixes
// loads those that are needed.
func (p *prefixFilter) trim(maxRate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.filter.Load(); f != nil && f.Units() > p.header.UnitsFor(maxRate) {
		p.filter.Store(nil)
	}
}

// tryDrop drops the filter unless it is being read from the file, and reports whether it did.
func (p *prefixFilter) tryDrop() bool {
	if !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	if f := p.filter.Load(); f != nil && f.Units() > 0 {
		p.filter.Store(nil)
	}
	return true
}
