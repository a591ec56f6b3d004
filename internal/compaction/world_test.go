package compaction

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// An op is one write of a history. A range delete has an end, which is nil if infinite.
type op struct {
	seq      ikey.Seq
	key, end []byte
	kind     ikey.Kind
	value    string
}

// A world is a tree and the history of writes that readers must see: every snapshot, and every reader of the present,
// sees the last write of each key before it.
type world struct {
	t         *testing.T
	rng       *rand.Rand
	disk      *disk
	v         *manifest.Version
	history   []op
	seq       ikey.Seq
	snapshots []ikey.Seq
	running   []job
	run       uint64
	log       []string // the steps, to be printed after a failure
}

// keys are all keys; a bound is one of them or infinite.
var keys = func() (list [][]byte) {
	for _, k := range []string{
		"\x00", "a", "a\x00", "ab", "b", "c", "d", "da", "e", "f", "g", "h", "i", "k", "m", "m\xff", "z", "\xff",
		"\xff\xff",
	} {
		list = append(list, []byte(k))
	}
	return slices.Insert(list, 0, nil)
}()

// truth returns the value of key at seq by the history.
func (w *world) truth(key []byte, seq ikey.Seq) string {
	result, at, deleted := absent, ikey.Seq(0), ikey.Seq(0)
	for _, o := range w.history {
		switch {
		case o.seq > seq:
		case o.kind == ikey.RangeDelete:
			if bytes.Compare(o.key, key) <= 0 && (o.end == nil || bytes.Compare(key, o.end) < 0) {
				deleted = max(deleted, o.seq)
			}
		case bytes.Equal(o.key, key) && o.seq >= at:
			at = o.seq
			if result = o.value; o.kind == ikey.Delete {
				result = absent
			}
		}
	}
	if deleted > at {
		return absent
	}
	return result
}

// check reads every key at every snapshot and in the present, in both ways.
func (w *world) check() {
	w.t.Helper()
	if err := w.disk.checkTables(w.v); err != nil {
		w.fail("%v", err)
	}
	for _, seq := range append(slices.Clone(w.snapshots), w.seq) {
		for _, key := range keys {
			want := w.truth(key, seq)
			if got := w.disk.lookup(w.v, key, seq); got != want {
				w.fail("%q at %d is %q, want %q", key, seq, got, want)
			}
			if got := w.disk.lookupAll(w.v, key, seq); got != want {
				w.fail("%q at %d is %q to an iterator, want %q", key, seq, got, want)
			}
		}
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log {
		w.t.Log(line)
	}
	w.t.Log(w.v.String())
	for _, m := range w.v.Tables() {
		w.t.Logf("%06d: %s", m.Number, w.disk.text([]*manifest.Table{m}))
	}
	w.t.Fatalf(format, args...)
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) key() []byte { return keys[w.rng.IntN(len(keys))] }

// stretch returns a random nonempty range of keys, often wide, sometimes infinite.
func (w *world) stretch() (start, end []byte) {
	i := w.rng.IntN(len(keys))
	if w.rng.IntN(6) == 0 {
		return keys[i], nil
	}
	j := i + 1 + w.rng.IntN(1+w.rng.IntN(len(keys)))
	if j >= len(keys) {
		return keys[i], nil
	}
	return keys[i], keys[j]
}

// env returns an env with a random table size: for one or two keys, for several, or for all. Merges have many parts, a
// few, or one.
func (w *world) env() Env {
	env := w.disk.env([]uint64{60, 300, 1 << 20}[w.rng.IntN(3)], w.snapshots...)
	env.PartSize = []uint64{1, 2000, 0}[w.rng.IntN(3)]
	for _, key := range keys[1:] {
		if w.rng.IntN(6) == 0 {
			env.Cuts = append(env.Cuts, key)
		}
	}
	return env
}

// memtable makes random writes, with snapshots between them, and returns them as a flush gets them.
func (w *world) memtable() (*versions, rangedel.List) {
	var ops []op
	for range 1 + w.rng.IntN(12) {
		w.seq++
		o := op{seq: w.seq, key: w.key(), kind: ikey.Set, value: fmt.Sprint(w.seq)}
		switch w.rng.IntN(10) {
		case 0, 1, 2:
			o.kind, o.value = ikey.Delete, ""
		case 3, 4:
			o.kind, o.value = ikey.RangeDelete, ""
			o.key, o.end = w.stretch()
		}
		ops = append(ops, o)
		if w.rng.IntN(10) == 0 {
			w.snapshots = append(w.snapshots, w.seq)
		}
	}
	w.history = append(w.history, ops...)
	return sourceOf(ops)
}

func sourceOf(ops []op) (*versions, rangedel.List) {
	var points []op
	var ts []rangedel.Tombstone
	for _, o := range ops {
		if o.kind == ikey.RangeDelete {
			ts = append(ts, rangedel.Tombstone{Start: o.key, End: o.end, Seq: o.seq})
		} else {
			points = append(points, o)
		}
	}
	slices.SortFunc(points, func(a, b op) int { return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(b.seq, a.seq)) })
	s := &versions{}
	for _, o := range points {
		s.keys = append(s.keys, ikey.Key{User: o.key, Trailer: ikey.MakeTrailer(o.seq, o.kind)})
		s.values = append(s.values, []byte(o.value))
	}
	return s, rangedel.Fragmented(ts)
}

// flush adds a run to level 0.
func (w *world) flush() {
	src, dels := w.memtable()
	res, err := Flush(w.t.Context(), src, dels, w.env())
	if err != nil {
		w.fail("%v", err)
	}
	w.note("flush up to %d: %s; snapshots %d", w.seq, w.disk.text(res.Tables), w.snapshots)
	w.addRun(res.Tables)
}

// ingest adds a run with one sequence number, which may replace all data of a range.
func (w *world) ingest() {
	w.seq++
	var ops []op
	for _, k := range keys {
		if w.rng.IntN(6) == 0 {
			ops = append(ops, op{seq: 1, key: k, kind: ikey.Set, value: fmt.Sprint(w.seq)})
		}
	}
	if len(ops) == 0 || w.rng.IntN(3) == 0 {
		start, end := w.stretch()
		ops = append(ops, op{seq: 1, key: start, end: end, kind: ikey.RangeDelete})
	}
	src, dels := sourceOf(ops)
	env := w.env()
	env.Snapshots = nil
	res, err := Flush(w.t.Context(), src, dels, env)
	if err != nil {
		w.fail("%v", err)
	}
	for _, m := range res.Tables {
		m.Flags |= manifest.SeqOverridden
		m.MinSeq, m.MaxSeq = w.seq, w.seq
	}
	for _, o := range ops {
		o.seq = w.seq
		w.history = append(w.history, o)
	}
	w.note("ingest at %d: %s", w.seq, w.disk.text(res.Tables))
	w.addRun(res.Tables)
}

func (w *world) addRun(tables []*manifest.Table) {
	w.run++
	e := &manifest.Edit{}
	for _, m := range tables {
		e.Added = append(e.Added, manifest.Added{Level: 0, Run: w.run, Table: m})
	}
	w.apply(e)
}

func (w *world) apply(e *manifest.Edit) {
	w.t.Helper()
	v, err := w.v.Apply(withNext(e))
	if err == nil {
		err = v.CheckRuns()
	}
	if err != nil {
		w.fail("%v", err)
	}
	w.v = v
}
