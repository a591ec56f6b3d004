package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
)

var errViewed = errors.New("viewed")

// lookup compares every kind of lookup of one key with the map.
func (m *modelRun) lookup(db bloomkv.Reader, now map[string]string, k []byte) error {
	want, there := now[string(k)]
	m.note("get %q", k)
	got, err := db.Get(k)
	has, hasErr := db.Has(k)
	appended, appendErr := db.AppendGet([]byte("x"), k)
	var viewed []byte
	viewErr := db.View(k, func(v []byte) error {
		viewed = bytes.Clone(v)
		return errViewed
	})
	switch {
	case !there:
		if !errors.Is(err, bloomkv.ErrNotFound) || got != nil || has || hasErr != nil ||
			!errors.Is(appendErr, bloomkv.ErrNotFound) ||
			string(appended) != "x" || !errors.Is(viewErr, bloomkv.ErrNotFound) {
			return fmt.Errorf("absent %q: got %q, %w; has %v, %w; appended %q, %w; viewed %w", k, got, err, has,
				hasErr, appended, appendErr, viewErr)
		}
	case err != nil || got == nil || string(got) != want || !has || hasErr != nil || appendErr != nil ||
		string(appended) != "x"+want || !errors.Is(viewErr, errViewed) || string(viewed) != want:
		return fmt.Errorf("present %q: got %q, %w; has %v, %w; appended %q, %w; viewed %q, %w; want %q",
			k, got, err, has, hasErr, appended, appendErr, viewed, viewErr, want)
	}
	return nil
}

// lookups looks up many keys in every other way.
func (m *modelRun) lookups() error {
	var keys [][]byte
	for range m.next(70) {
		keys = append(keys, m.key())
	}
	m.note("get %d keys", len(keys))
	next := 0
	err := m.db.GetMany(keys, func(i int, v []byte, found bool) error {
		want, there := m.now[string(keys[i])]
		if i != next || found != there || string(v) != want {
			return fmt.Errorf("key %d of %d, %q: got %q, %v, want %q, %v", i, next, keys[i], v, found, want, there)
		}
		next++
		return nil
	})
	if err != nil || next != len(keys) {
		return fmt.Errorf("get many: %d of %d: %w", next, len(keys), err)
	}
	for _, k := range keys {
		want, there := m.now[string(k)]
		if there && !m.db.MayContain(k) {
			return fmt.Errorf("%q is stored, but MayContain returned false", k)
		}
		v, trace, err := m.db.GetTraced(k)
		if there != (err == nil) || string(v) != want || trace.Gets != 1 ||
			uint64(len(trace.Tables)) != trace.TableSearches {
			return fmt.Errorf("traced %q: %q, %w, %+v, want %q", k, v, err, trace, want)
		}
	}
	return nil
}

// A modelSnap is an open snapshot with its expected contents.
type modelSnap struct {
	snap *bloomkv.Snapshot
	want map[string]string
}

// snapshot opens a snapshot, reads one, or closes one.
func (m *modelRun) snapshot() error {
	n := m.next(8)
	if len(m.snaps) == 0 || n == 0 && len(m.snaps) < 4 {
		m.note("open a snapshot")
		s, err := m.db.Snapshot()
		if err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		m.snaps = append(m.snaps, &modelSnap{s, maps.Clone(m.now)})
		return nil
	}
	i := m.next(len(m.snaps))
	s := m.snaps[i]
	switch n {
	case 1:
		m.note("close snapshot %d of %d", i, len(m.snaps))
		m.snaps = slices.Delete(m.snaps, i, i+1)
		if err := s.snap.Close(); err != nil {
			return fmt.Errorf("snapshot: close: %w", err)
		}
		if _, err := s.snap.Get(nil); !errors.Is(err, bloomkv.ErrClosed) {
			return fmt.Errorf("closed snapshot: %w", err)
		}
		return nil
	case 2:
		m.note("compare snapshot %d of %d", i, len(m.snaps))
		got := map[string]string{}
		for kv, err := range s.snap.Scan(bloomkv.IterOptions{}) {
			if err != nil {
				return fmt.Errorf("snapshot: scan: %w", err)
			}
			got[string(kv.Key)] = string(kv.Value)
		}
		if d := storetest.Diff(got, s.want); d != "" {
			return fmt.Errorf("snapshot: %s", d)
		}
		return nil
	default:
		m.note("snapshot %d of %d", i, len(m.snaps))
		return m.lookup(s.snap, s.want, m.key())
	}
}

// A modelIter is an open iterator with its expected contents.
type modelIter struct {
	it     *bloomkv.Iterator
	keys   []string
	values map[string]string
	at     int // -1 is before the first key, len(keys) after the last
	fresh  bool
	only   bool // only keys, without values
}

func (m *modelRun) iterOptions() (o bloomkv.IterOptions) {
	if m.next(3) > 0 {
		o.Lower = m.key()
	}
	if m.next(3) > 0 {
		o.Upper = m.key()
	}
	if m.next(4) == 0 {
		o.Prefix = m.key()
		o.Prefix = o.Prefix[:m.next(len(o.Prefix)+1)]
	}
	o.KeysOnly = m.next(6) == 0
	return o
}

func inRange(o bloomkv.IterOptions, k string) bool {
	return k >= string(o.Lower) && (o.Upper == nil || k < string(o.Upper)) && bytes.HasPrefix([]byte(k), o.Prefix)
}

// iterate opens an iterator, moves one a few times, or closes one.
func (m *modelRun) iterate() error {
	n := m.next(10)
	if len(m.iters) == 0 || n == 0 && len(m.iters) < 4 {
		o := m.iterOptions()
		var from bloomkv.Reader = m.db
		i := &modelIter{values: maps.Clone(m.now), fresh: true, only: o.KeysOnly}
		if len(m.snaps) > 0 && m.next(3) == 0 {
			s := m.snaps[m.next(len(m.snaps))]
			from, i.values = s.snap, s.want
		}
		m.note("iterate %q to %q, prefix %q, keys only %v", o.Lower, o.Upper, o.Prefix, o.KeysOnly)
		i.it = from.Iter(o)
		for k := range i.values {
			if inRange(o, k) {
				i.keys = append(i.keys, k)
			}
		}
		slices.Sort(i.keys)
		for _, b := range [][]byte{o.Lower, o.Upper, o.Prefix} { // Iter must have copied them
			clear(b)
		}
		m.iters = append(m.iters, i)
		return nil
	}
	at := m.next(len(m.iters))
	i := m.iters[at]
	if n == 1 {
		m.note("close iterator %d of %d", at, len(m.iters))
		m.iters = slices.Delete(m.iters, at, at+1)
		if err := i.it.Close(); err != nil {
			return fmt.Errorf("iterator: close: %w", err)
		}
		if i.it.Err() != nil || i.it.Key() != nil || i.it.First() || !errors.Is(i.it.Err(), bloomkv.ErrClosed) ||
			!errors.Is(i.it.Close(), bloomkv.ErrClosed) {
			return fmt.Errorf("closed iterator: %w", i.it.Err())
		}
		return nil
	}
	for range 1 + m.next(24) {
		if err := m.move(i); err != nil {
			return fmt.Errorf("iterator %d of %d, %d keys: %w", at, len(m.iters), len(i.keys), err)
		}
	}
	return nil
}

// move makes one move and compares the result.
func (m *modelRun) move(i *modelIter) error {
	var ok bool
	var what string
	switch n := m.next(16); {
	case n < 5:
		what, ok = "next", i.it.Next()
		i.at = min(i.at+1, len(i.keys))
		if i.fresh {
			i.at = 0
		}
	case n < 10:
		what, ok = "prev", i.it.Prev()
		i.at = max(i.at-1, -1)
		if i.fresh {
			i.at = len(i.keys) - 1
		}
	case n < 11:
		what, ok, i.at = "first", i.it.First(), 0
	case n < 12:
		what, ok, i.at = "last", i.it.Last(), len(i.keys)-1
	default:
		k := m.key()
		if m.next(4) == 0 && len(i.keys) > 0 {
			k = []byte(i.keys[m.next(len(i.keys))])
		}
		place, _ := slices.BinarySearch(i.keys, string(k))
		if n < 14 {
			what, ok, i.at = "seek ≥", i.it.SeekGE(k), place
		} else {
			what, ok, i.at = "seek <", i.it.SeekLT(k), place-1
		}
		what = fmt.Sprintf("%s %q", what, k)
		clear(k)
	}
	i.fresh = false
	m.note("%s", what)
	return i.compare(what, ok)
}

func (i *modelIter) compare(what string, ok bool) error {
	want := i.at >= 0 && i.at < len(i.keys)
	switch {
	case ok != want || i.it.Valid() != want || i.it.Err() != nil:
		return fmt.Errorf("%s: got %v, valid %v at %q, %w, want %v at %d", what, ok, i.it.Valid(), i.it.Key(),
			i.it.Err(), want, i.at)
	case !ok && (i.it.Key() != nil || i.it.Value() != nil):
		return fmt.Errorf("%s: got %q = %q, want no key", what, i.it.Key(), i.it.Value())
	case !ok:
		return nil
	}
	key := i.keys[i.at]
	value := i.values[key]
	if i.only {
		value = ""
	}
	if string(i.it.Key()) != key || string(i.it.Value()) != value || i.only != (i.it.Value() == nil) {
		return fmt.Errorf("%s: got %q = %q, want %q = %q", what, i.it.Key(), i.it.Value(), key, value)
	}
	return nil
}

// dropReaders closes the iterators and snapshots of a closed store: iterators keep their key and value until they are
// moved, which fails.
func (m *modelRun) dropReaders() error {
	for _, i := range m.iters {
		stood := i.at >= 0 && i.at < len(i.keys) && !i.fresh
		if stood && string(i.it.Key()) != i.keys[i.at] || stood && !i.only &&
			string(i.it.Value()) != i.values[i.keys[i.at]] {
			return fmt.Errorf("iterator of a closed store: %q = %q, want %q", i.it.Key(), i.it.Value(), i.keys[i.at])
		}
		for range 2 {
			if i.it.Next() || i.it.SeekGE(nil) || !errors.Is(i.it.Err(), bloomkv.ErrClosed) || i.it.Valid() {
				return fmt.Errorf("iterator of a closed store: valid %v, %w", i.it.Valid(), i.it.Err())
			}
			if i.it.Key() != nil || i.it.Value() != nil {
				return fmt.Errorf("iterator of a closed store: %q = %q, want nil", i.it.Key(), i.it.Value())
			}
		}
		if err := i.it.Close(); !errors.Is(err, bloomkv.ErrClosed) {
			return fmt.Errorf("iterator of a closed store: close: %w", err)
		}
	}
	for _, s := range m.snaps {
		if _, err := s.snap.Has(nil); !errors.Is(err, bloomkv.ErrClosed) {
			return fmt.Errorf("snapshot of a closed store: %w", err)
		}
		if err := s.snap.Close(); err != nil {
			return fmt.Errorf("snapshot of a closed store: close: %w", err)
		}
	}
	m.iters, m.snaps = nil, nil
	return nil
}

// verify has the open store check all its tables.
func (m *modelRun) verify() error {
	m.note("check")
	if _, err := m.db.Check(context.Background(), bloomkv.CheckOptions{}); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}
