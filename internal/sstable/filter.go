package sstable

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// A keyFilter holds the loaded units of a table's filter of keys.
type keyFilter struct {
	filter  atomic.Pointer[bloomblock.Filter] // nil: every answer is maybe
	reached atomic.Uint64                     // float64 bits: a load for this rate or a higher one has nothing to do

	mu     sync.Mutex        // serializes loading and dropping; held while the filter is read from the file
	header bloomblock.Header // guarded by mu; valid if known
	known  bool              // guarded by mu
	from   *tableFile        // guarded by mu; with offset, where the header was read: for errors
	offset uint64            // guarded by mu
	units  [][]byte          // guarded by mu; each an allocation of its own
	damage error             // guarded by mu
}

func (k *keyFilter) init() { k.reached.Store(math.Float64bits(math.Inf(1))) }

// enough reports whether a load for maxRate has nothing to do.
func (k *keyFilter) enough(maxRate float64) bool {
	return maxRate >= math.Float64frombits(k.reached.Load())
}

// load loads units until their promised rate is at most maxRate, or there are most of them. Damage is kept and is no
// error.
func (k *keyFilter) load(f *tableFile, t *tail, maxRate float64, most int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.footer.filterLen == 0 {
		k.reached.Store(0)
	}
	if k.enough(maxRate) || maxRate >= 1 || most == 0 {
		return nil
	}
	err := k.loadUnits(f, t, maxRate, most)
	if errors.Is(err, corrupt.Err) || errors.Is(err, bloomblock.ErrUnknownKind) {
		k.damage, err = err, nil
		k.reached.Store(0)
	}
	return err
}

// loadUnits loads the header and units. It returns damage as an error. The caller holds mu.
func (k *keyFilter) loadUnits(f *tableFile, t *tail, maxRate float64, most int) error {
	offset := t.footer.filterOff
	if !k.known {
		h, err := f.readFilterHeader(kindFilter, offset, t.keysLen(), t.footer.filterSum)
		if err != nil {
			return err
		}
		k.header, k.known, k.from, k.offset = h, true, f, offset
	}
	units := k.units
	var failed error
	for i := len(units); i < min(k.header.UnitsFor(maxRate), most); i++ {
		var b []byte
		if b, failed = f.readUnit(offset, k.header.Units[i]); failed != nil {
			break
		}
		units = append(units[:i:i], b)
	}
	for { // the units before a damaged one are used
		err := k.publish(units)
		if err == nil {
			return failed
		}
		if len(units) == 0 {
			return err
		}
		failed, units = err, units[:len(units)-1]
	}
}

// readUnit reads one unit of the filter at offset.
func (f *tableFile) readUnit(offset uint64, u bloomblock.UnitHeader) ([]byte, error) {
	if u.Bytes() > math.MaxInt/2 { // where int has 32 bits
		return nil, fmt.Errorf("%s: %w: filter unit of %d bytes", f.meta.Name, ErrSize, u.Bytes())
	}
	b := make([]byte, u.Bytes()) // below the size of the file
	return b, f.readAt(b, offset+u.Offset)
}

// A FilterCopy is the first units of a filter, with a header that describes these alone. A table without a filter has
// no units.
type FilterCopy struct {
	Header bloomblock.Header
	Units  [][]byte // must not be changed
	Read   uint64   // bytes read from the file
	Damage error    // of the filter; the damaged unit and those after it are left out
}

// copy returns the units that a promised rate of maxRate needs: see Reader.CopyFilter.
func (k *keyFilter) copy(f *tableFile, t *tail, maxRate float64) (FilterCopy, error) {
	k.mu.Lock()
	h, units := k.header, k.units
	known, damage := k.known, k.damage
	k.mu.Unlock()
	read := uint64(0)
	if !known && damage == nil {
		h, damage = f.readFilterHeader(kindFilter, t.footer.filterOff, t.keysLen(), t.footer.filterSum)
		read += bloomblock.HeaderSize
	}
	n := h.UnitsFor(maxRate)
	units = slices.Clip(units[:min(n, len(units))])
	for damage == nil && len(units) < n {
		u := h.Units[len(units)]
		var b []byte
		if b, damage = f.readUnit(t.footer.filterOff, u); damage != nil {
			break
		}
		read += u.Bytes()
		if _, err := h.Filter(append(units, b)); err != nil {
			damage = f.damaged(t.footer.filterOff, err)
			break
		}
		units = slices.Clip(append(units, b))
	}
	if damage != nil && !errors.Is(damage, corrupt.Err) && !errors.Is(damage, bloomblock.ErrUnknownKind) {
		return FilterCopy{Read: read}, damage // of the file
	}
	if len(units) == 0 {
		return FilterCopy{Read: read, Damage: damage}, nil
	}
	h.Units = slices.Clip(h.Units[:len(units)])
	return FilterCopy{h, units, read, damage}, nil
}

// publish makes units the filter. The caller holds mu.
func (k *keyFilter) publish(units [][]byte) error {
	h := &k.header
	f, err := h.Filter(units)
	if err != nil {
		return k.from.damaged(k.offset, err)
	}
	k.units = units
	if len(units) == 0 {
		k.filter.Store(nil)
	} else {
		k.filter.Store(&f)
	}
	reached := 0.0
	if len(units) < len(h.Units) {
		reached = h.Rate(len(units))
	}
	k.reached.Store(math.Float64bits(reached))
	return nil
}

// keep drops all units after the first n. The caller holds mu.
func (k *keyFilter) keep(n int) error {
	if len(k.units) <= n {
		return nil
	}
	return k.publish(append([][]byte(nil), k.units[:max(n, 0)]...))
}

// tryKeep calls keep, unless the filter is being read from the file. It reports whether it dropped the units.
func (k *keyFilter) tryKeep(n int) bool {
	if !k.mu.TryLock() {
		return false
	}
	defer k.mu.Unlock()
	return k.keep(n) == nil
}

// trim drops the units that a promised rate of maxRate does not need.
func (k *keyFilter) trim(maxRate float64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known {
		return nil
	}
	return k.keep(k.header.UnitsFor(maxRate))
}

// DropFilterUnits drops all but the first keep units of the filter. A later Load may load the others again.
func (k *keyFilter) DropFilterUnits(keep int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keep(keep)
}

// FilterUnits returns the number of units of the filter that are in memory now.
func (k *keyFilter) FilterUnits() int {
	if f := k.filter.Load(); f != nil {
		return f.Units()
	}
	return 0
}

// FilterBytes returns the bytes of memory that the filter takes now.
func (k *keyFilter) FilterBytes() int64 {
	if f := k.filter.Load(); f != nil {
		return int64(f.Bytes())
	}
	return 0
}

// FilterHeader describes the whole filter, without units if it is damaged. known is false before the first Load, which
// reads the header. The caller must not change Units.
func (k *keyFilter) FilterHeader() (h bloomblock.Header, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.damage != nil {
		return bloomblock.Header{}, true
	}
	return k.header, k.known
}

// Filter returns the loaded units of the filter, or nil if no units are loaded: then every answer is maybe. The filter
// stays valid after it is dropped.
func (k *keyFilter) Filter() *bloomblock.Filter { return k.filter.Load() }

// FilterState describes a table's filter as far as it was read.
type FilterState struct {
	Units    int     // in memory
	AllUnits int     // in the file; 0 if there is no filter or its header was not read yet
	Bytes    int64   // in memory
	Rate     float64 // promised by the units in memory; 1 without units
	Damage   error   // why some or all units are not used; it matches corrupt.Err or bloomblock.ErrUnknownKind
}

// FilterState returns the state of the filter.
func (k *keyFilter) FilterState() FilterState {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := FilterState{Units: len(k.units), Bytes: k.FilterBytes(), Rate: 1, Damage: k.damage}
	if k.known {
		s.AllUnits, s.Rate = len(k.header.Units), k.header.Rate(len(k.units))
	}
	return s
}

// MayContain asks the filter. If maybe is false, the table has no version of the key. If probed is false, there was no
// filter to ask: none was built, none is loaded, or it is damaged. It does no I/O.
func (k *keyFilter) MayContain(h bloomblock.Hash) (maybe, probed bool) {
	f := k.filter.Load()
	if f == nil {
		return true, false
	}
	return f.MayContain(h), true
}
