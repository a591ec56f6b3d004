package sstable

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/pages"
	"github.com/bloomkv/bloomkv/internal/step"
)

// A TableFilter is a filter block of a table as far as it is in memory: in one of the forms of its header, which may be
// none at all. The block in the file always has the whole filter. It is safe for concurrent use.
type TableFilter struct {
	filter atomic.Pointer[bloomblock.Filter] // nil: every answer is maybe
	file   atomic.Pointer[fileFilter]        // to be asked in the file after filter; nil: not worth it

	loading step.Mutex // serializes changes of what follows, except damage; held while the file is read, mu is not

	mu     step.Mutex
	header bloomblock.Header // guarded by mu; as it is in the file
	sound  int               // guarded by mu; units in front of the first damaged one
	known  bool              // guarded by mu: the header was read, is damaged, or there is none
	place  filterPlace       // guarded by mu; set by know
	form   bloomblock.Form   // guarded by mu: of the filter
	damage error             // guarded by mu

	of *tableFile // constant
}

// A filterPlace says where a filter block is in a table's file. The zero value is no filter.
type filterPlace struct {
	kind         Kind
	offset, size uint64
	sum          uint32 // binds the header to the table
	keys         uint64 // that the filter has
}

// keys returns the place of the filter of keys.
func (t *tail) keys() filterPlace {
	return filterPlace{KindFilter, t.footer.filterOff, t.keysLen(), t.footer.filterSum, t.props.FilterKeys}
}

// prefixes returns the place of the filter of prefixes, if it is by the given rule.
func (t *tail) prefixes(rule PrefixRule) filterPlace {
	x := &t.props.Prefixes
	if x.Bytes == 0 || x.Rule != rule.String() {
		return filterPlace{}
	}
	return t.anyPrefixes()
}

// anyPrefixes returns the place of the filter of prefixes by any rule.
func (t *tail) anyPrefixes() filterPlace {
	x := &t.props.Prefixes
	return filterPlace{KindPrefixes, t.prefixesOff(), x.Bytes, x.Sum, x.Keys}
}

// IsFilterDamage reports whether an error of reading a filter says that it cannot be used. Reads go on without it.
func IsFilterDamage(err error) bool {
	return errors.Is(err, corrupt.Err) || errors.Is(err, bloomblock.ErrUnknownKind)
}

// know reads the header from its place, unless it is known. Damage is kept and is no error.
func (k *TableFilter) know(at filterPlace) error {
	k.loading.Lock()
	defer k.loading.Unlock()
	k.mu.Lock()
	k.place = at
	k.mu.Unlock()
	return k.knowLocked()
}

// knowLocked implements know. The caller holds loading.
func (k *TableFilter) knowLocked() error {
	if k.known {
		return nil
	}
	var h bloomblock.Header
	var err error
	if at := &k.place; at.size > 0 {
		h, _, err = k.of.readFilterHeader(*at)
		if err != nil && !IsFilterDamage(err) {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.header, k.sound, k.known = h, len(h.Units), true
	if err != nil {
		k.damage = err
	}
	return nil
}

// usable returns the header without damaged units. The caller holds mu or loading.
func (k *TableFilter) usable() bloomblock.Header {
	h := k.header
	h.Units = h.Units[:k.sound:k.sound]
	return h
}

// Set brings the filter into one of Forms, for any rate, by reducing what is in memory if that is enough, or else from
// the file. It returns the bytes that it read. If it finds a unit damaged, it leaves that and all later units out of
// the header and drops the filter: the caller may set another one of Forms, which are fewer now. This is no error.
func (k *TableFilter) Set(form bloomblock.Form) (read uint64, err error) {
	k.loading.Lock()
	defer k.loading.Unlock()
	if err := k.knowLocked(); err != nil || k.reduceLocked(form) {
		return 0, err
	}
	buf, _ := scratches.Get().(*scratch) // the pool has no others
	defer scratches.Put(buf)
	units, read, err := k.of.readForm(k.place, &k.header, form, buf)
	if err != nil {
		return read, k.failed(err)
	}
	piece := k.of.memory.Get(int(form.Bytes))
	filter, err := k.usable().In(form, piece.Bytes(), units)
	if err != nil {
		piece.Free()
		return read, k.failed(k.of.damaged(k.place.offset, err))
	}
	k.publish(&filter, form, piece)
	return read, nil
}

// Load brings the filter into the largest of its forms for a promised rate of at most maxRate. Its header must be
// known.
func (k *TableFilter) Load(maxRate float64) error {
	for { // again if a unit was found damaged
		forms := k.Forms(maxRate)
		form := forms[len(forms)-1]
		if _, err := k.Set(form); err != nil || k.Bytes() == form.Bytes {
			return err
		}
	}
}

// Reduce brings the filter into one of forms, which are the smallest of Forms, without the file: the largest that can
// be made from what is in memory.
func (k *TableFilter) Reduce(forms []bloomblock.Form) {
	k.loading.Lock()
	defer k.loading.Unlock()
	for i := len(forms) - 1; i >= 0 && !k.reduceLocked(forms[i]); i-- {
	}
}

// reduceLocked brings the filter into a form, unless that needs what is not in memory. The caller holds loading.
func (k *TableFilter) reduceLocked(form bloomblock.Form) (ok bool) {
	old := k.filter.Load()
	switch {
	case form.Bytes == 0:
		k.publish(nil, noFilter, pages.Piece{})
	case old == nil:
		return false
	case form != k.form:
		piece := k.of.memory.Get(int(form.Bytes))
		smaller, ok := old.Reduce(k.usable(), form, piece.Bytes())
		if !ok {
			piece.Free()
			return false
		}
		k.publish(&smaller, form, piece)
	}
	return true
}

// noFilter is the form of a filter that is not in memory.
var noFilter = bloomblock.Form{Rate: 1}

// failed returns an error of reading units, unless it is damage: then the header keeps the sound units in front of the
// damaged one. The caller holds loading.
func (k *TableFilter) failed(err error) error {
	if !IsFilterDamage(err) {
		return err
	}
	k.lose(err)
	k.publish(nil, noFilter, pages.Piece{})
	units, _, err := k.of.soundUnits(k.place, &k.header, k.sound)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && !IsFilterDamage(err) {
		k.known, k.damage = false, nil // the next use tries again
		return err
	}
	k.sound = len(units)
	return nil
}

// lose keeps damage, after which the filter is not asked in the file any more.
func (k *TableFilter) lose(damage error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.damage = damage
	k.file.Store(nil)
}

// publish makes filter, which is in the given form and in a piece of memory, the one that is asked. The piece is given
// back once nobody uses the filter any more. Lookups ask filters without a guard, so that only the collector can tell.
// The caller holds loading.
func (k *TableFilter) publish(filter *bloomblock.Filter, form bloomblock.Form, piece pages.Piece) {
	pages.FreeWith(filter, piece)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.filter.Store(filter)
	k.form = form
}

// Forms returns the forms that the filter may have in memory for a promised rate of at most rate, from none on: see
// [bloomblock.Header.Forms]. It returns nil before the header is known.
func (k *TableFilter) Forms(rate float64) []bloomblock.Form {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.known {
		return nil
	}
	return k.usable().Forms(rate)
}

// Header describes the whole filter, without units that are damaged. known is false before it was read. The caller must
// not change Units.
func (k *TableFilter) Header() (h bloomblock.Header, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.usable(), k.known
}

// Bytes returns the bytes of memory that the filter takes now.
func (k *TableFilter) Bytes() int64 {
	if f := k.filter.Load(); f != nil {
		return int64(f.Bytes())
	}
	return 0
}

// A FilterState describes a filter of a table as far as it was read.
type FilterState struct {
	Form     bloomblock.Form // in memory
	Units    int             // in memory, reduced ones included
	AllUnits int             // in the file and not damaged; 0 if there is no filter or its header was not read yet
	Rate     float64         // promised by all of these; 1 without any
	Damage   error           // why some or all units are not used; it matches corrupt.Err or bloomblock.ErrUnknownKind
}

// State returns the state of the filter.
func (k *TableFilter) State() FilterState {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := FilterState{Form: k.form, AllUnits: k.sound, Rate: k.header.Rate(k.sound), Damage: k.damage}
	if f := k.filter.Load(); f != nil {
		s.Units = f.Units()
	} else {
		s.Form = noFilter
	}
	return s
}

// readUnits reads the first units of a filter, size bytes of them.
func (f *tableFile) readUnits(at filterPlace, size uint64) ([]byte, error) {
	if err := f.checkUnits(size); err != nil {
		return nil, err
	}
	b := make([]byte, size) // below the size of the file
	return b, f.readAt(b, at.offset+bloomblock.HeaderSize)
}

// checkUnits returns an error if a filter of size bytes is too large to be read twice.
func (f *tableFile) checkUnits(size uint64) error {
	if size > math.MaxInt/4 { // where int has 32 bits
		return fmt.Errorf("%s: %w: filter of %d bytes", f.meta.Name, ErrSize, size)
	}
	return nil
}

// readForm reads the units that a form has into memory of buf, and returns the bytes that this reads: all units, if
// they stand side by side.
func (f *tableFile) readForm(
	at filterPlace, h *bloomblock.Header, form bloomblock.Form, buf *scratch,
) (units [][]byte, read uint64, err error) {
	all := h.UnitsSize()
	if err := f.checkUnits(all); err != nil {
		return nil, 0, err
	}
	if h.Parts() > 0 {
		b := buf.bytes(2 * int(all)) //nolint:gosec // checked
		err := f.readAt(b[:all], at.offset+bloomblock.HeaderSize)
		return h.SplitInto(b[all:], b[:all]), all, err
	}
	b := buf.bytes(int(all)) //nolint:gosec // checked
	units = make([][]byte, len(h.Units))
	for i, u := range h.Units {
		if !form.Has(i) {
			continue
		}
		n := u.Bytes()
		units[i], b = b[:n:n], b[n:]
		if err := f.readAt(units[i], at.offset+u.Offset); err != nil {
			return units, read, err
		}
		read += n
	}
	return units, read, nil
}

// soundUnits reads the first n units. With damage, which is an error, it returns those in front of the damaged one.
func (f *tableFile) soundUnits(
	at filterPlace, h *bloomblock.Header, n int,
) (units [][]byte, read uint64, err error) {
	if n == 0 {
		return nil, 0, nil
	}
	some := *h // what is read: all, if units stand side by side
	if h.Parts() == 0 {
		some.Units = h.Units[:n]
	}
	read = some.UnitsSize()
	b, err := f.readUnits(at, read)
	if err != nil {
		return nil, 0, err
	}
	for _, unit := range some.Split(b)[:n] {
		if _, err := h.Filter(append(units, unit)); err != nil {
			return units, read, f.damaged(at.offset, err)
		}
		units = append(units, unit)
	}
	return units, read, nil
}

// A FilterCopy is the first units of a filter, with a header that describes these alone. A table without a filter has
// no units.
type FilterCopy struct {
	Header bloomblock.Header
	Units  [][]byte // must not be changed
	Read   uint64   // bytes read from the file
	Damage error    // of the filter; the damaged unit and those after it are left out
}

// MayContain asks the filter in memory. If maybe is false, the table has no version of the key, or no key with the
// prefix. If probed is false, there was no filter to ask: none was built, none is loaded, or it is damaged. It does no
// I/O.
func (k *TableFilter) MayContain(h bloomblock.Hash) (maybe, probed bool) {
	f := k.filter.Load()
	if f == nil {
		return true, false
	}
	return f.MayContain(h), true
}

// Filter returns the filter of keys, or nil if none is in memory: then every answer is maybe. It may be asked even
// after the reader has replaced it.
func (r *Reader) Filter() *bloomblock.Filter { return r.Keys.filter.Load() }

// FalsePositiveRate returns the rate at which lookups of absent keys search the table: that of the bits in memory, or
// the promised one of the filter in the file, if lookups ask that too. It is 1 without a filter.
func (r *Reader) FalsePositiveRate() float64 {
	if f := r.Keys.file.Load(); f != nil {
		return f.header.Rate(len(f.header.Units))
	}
	if f := r.Filter(); f != nil {
		return f.FalsePositiveRate()
	}
	return 1
}
