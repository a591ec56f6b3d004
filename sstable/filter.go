package sstable

import (
	"errors"
	"fmt"
	"math"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// Load reads the index and so many units of the filter that their promised rate is at most maxRate, or all if it is not
// reached; with maxRate ≥ 1 none. What is loaded stays. Concurrent calls wait for each other. A damaged filter is no
// error, see FilterState; a damaged index is.
func (r *Reader) Load(maxRate float64) error { return r.LoadUnits(maxRate, bloomblock.MaxUnits) }

// LoadUnits is Load, limited to the given number of units of the filter.
func (r *Reader) LoadUnits(maxRate float64, most int) error {
	if r.index.Load() != nil && maxRate >= math.Float64frombits(r.reached.Load()) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.loadIndex(); err != nil {
		return err
	}
	if maxRate >= math.Float64frombits(r.reached.Load()) || maxRate >= 1 || most == 0 {
		return nil
	}
	err := r.loadFilter(maxRate, most)
	if errors.Is(err, corrupt.Err) || errors.Is(err, bloomblock.ErrUnknownKind) {
		r.damage, err = err, nil
		r.reached.Store(0)
	}
	return err
}

// loadFilter loads further units until the promised rate is at most maxRate, or there are most of them. The caller holds mu; the index is loaded.
func (r *Reader) loadFilter(maxRate float64, most int) error {
	if !r.known {
		t := r.tail.Load()
		h, err := r.readFilterHeader(kindFilter, t.footer.filterOff, t.keysLen(), t.footer.filterSum)
		if err != nil {
			return err
		}
		r.header, r.known = h, true
	}
	units := r.units
	var failed error
	for i := len(units); i < min(r.header.UnitsFor(maxRate), most); i++ {
		var b []byte
		if b, failed = r.readUnit(i); failed != nil {
			break
		}
		units = append(units[:i:i], b)
	}
	for { // the units before a damaged one are as good as ever
		err := r.publish(units)
		if err == nil {
			return failed
		}
		if len(units) == 0 {
			return err
		}
		failed, units = err, units[:len(units)-1]
	}
}

// readFilterHeader reads the header of a filter of so many bytes.
func (r *Reader) readFilterHeader(k kind, offset, size uint64, sum uint32) (bloomblock.Header, error) {
	if size < bloomblock.HeaderSize {
		return bloomblock.Header{}, r.damaged(offset, fmt.Errorf("filter of %d bytes, want at least %d", size, bloomblock.HeaderSize))
	}
	b := make([]byte, bloomblock.HeaderSize)
	if err := r.readAt(b, offset); err != nil {
		return bloomblock.Header{}, err
	}
	if got := r.seal.filterSum(k, offset, b); got != sum {
		return bloomblock.Header{}, r.damaged(offset, fmt.Errorf("filter header: %w: got %08x, want %08x", errChecksum, got, sum))
	}
	h, err := bloomblock.ParseHeader(b)
	if err == nil && h.BlockSize() != size {
		err = fmt.Errorf("filter of %d bytes, want %d", size, h.BlockSize())
	}
	if err != nil {
		return bloomblock.Header{}, r.damaged(offset, err)
	}
	return h, nil
}

// readUnit reads unit i of the filter. The caller holds mu.
func (r *Reader) readUnit(i int) ([]byte, error) {
	u := r.header.Units[i]
	if u.Bytes() > math.MaxInt/2 { // where int has 32 bits
		return nil, fmt.Errorf("%s: %w: filter unit of %d bytes", r.meta.Name, ErrSize, u.Bytes())
	}
	b := make([]byte, u.Bytes()) // below the size of the file
	return b, r.readAt(b, r.tail.Load().footer.filterOff+u.Offset)
}

// publish makes units the filter. The caller holds mu.
func (r *Reader) publish(units [][]byte) error {
	h := &r.header
	f, err := h.Filter(units)
	if err != nil {
		return r.damaged(r.tail.Load().footer.filterOff, err)
	}
	r.units = units
	if len(units) == 0 {
		r.filter.Store(nil)
	} else {
		r.filter.Store(&f)
	}
	reached := 0.0
	if len(units) < len(h.Units) {
		reached = h.Rate(len(units))
	}
	r.reached.Store(math.Float64bits(reached))
	return nil
}

// FilterUnits is the number of units of the filter that are in memory now.
func (r *Reader) FilterUnits() int {
	if f := r.filter.Load(); f != nil {
		return f.Units()
	}
	return 0
}

// FilterBytes is the memory the filter takes now.
func (r *Reader) FilterBytes() int64 {
	if f := r.filter.Load(); f != nil {
		return int64(f.Bytes())
	}
	return 0
}

// FilterBytesFor is the memory that the filter takes where a rate of at most maxRate is asked for. Before a first Load, which
// knows the units, it is that of all of them; then known is false.
func (r *Reader) FilterBytesFor(maxRate float64) (bytes int64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case maxRate >= 1 || r.damage != nil:
		return 0, true
	case !r.known:
		return int64(r.meta.FilterLen), false //nolint:gosec // below the size of the file
	}
	return int64(r.header.PrefixSize(r.header.UnitsFor(maxRate)) - bloomblock.HeaderSize), true //nolint:gosec // as above
}

// FilterHeader describes the whole filter, without units where it is damaged; before a first Load, which reads it, known is
// false. Its Units are not to be changed.
func (r *Reader) FilterHeader() (h bloomblock.Header, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.damage != nil {
		return bloomblock.Header{}, true
	}
	return r.header, r.known
}

// Filter is the filter as far as it is loaded, or nil: then every answer is maybe. It stays valid for ever.
func (r *Reader) Filter() *bloomblock.Filter { return r.filter.Load() }

// FilterState describes a table's filter as far as Load has seen it.
type FilterState struct {
	Units    int     // in memory
	AllUnits int     // in the file; 0 if there is no filter or its header was not read yet
	Bytes    int64   // in memory
	Rate     float64 // promised by the units in memory; 1 without
	Damage   error   // why units, or all of it, are not used: Is corrupt.Err or bloomblock.ErrUnknownKind
}

// FilterState returns the state of the filter.
func (r *Reader) FilterState() FilterState {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := FilterState{Units: len(r.units), Bytes: r.FilterBytes(), Rate: 1, Damage: r.damage}
	if r.known {
		s.AllUnits, s.Rate = len(r.header.Units), r.header.Rate(len(r.units))
	}
	return s
}

// DropFilterUnits keeps at most the first keep units of the filter. A later Load may load the others again.
func (r *Reader) DropFilterUnits(keep int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.units) <= keep {
		return nil
	}
	return r.publish(append([][]byte(nil), r.units[:max(keep, 0)]...))
}

// Trim drops the units of the filters that a promised rate of maxRate does not need, as after a move to a deeper level.
func (r *Reader) Trim(maxRate float64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropPrefixes(maxRate)
	if !r.known || len(r.units) <= r.header.UnitsFor(maxRate) {
		return nil
	}
	return r.publish(append([][]byte(nil), r.units[:r.header.UnitsFor(maxRate)]...))
}

// MayContain asks the filter. False is certain: the table has no version of the key. If probed is false there was no filter
// to ask: none was built, none is loaded, or it is damaged. It does no I/O.
func (r *Reader) MayContain(h bloomblock.Hash) (maybe, probed bool) {
	f := r.filter.Load()
	if f == nil {
		return true, false
	}
	return f.MayContain(h), true
}
