package compaction

import (
	"bytes"
	"context"
	"errors"
	"runtime"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// maxOverlap limits how much of the next level one output overlaps, in full tables, so that it can later be merged
// down without rewriting half of that level.
const maxOverlap = 10

// yieldEvery is the number of versions, some 50 µs of work, after which a flush or a compaction lets other goroutines
// run. The Go scheduler would take the processor from it only after 10 ms, and until then a writer or a reader that
// lost its own processor would wait.
const yieldEvery = 64

// write writes the versions of a part and range tombstones that keep retains into the tables of w. It closes src. After
// an error no file is left.
func write(ctx context.Context, src merge.Source, p *part, keep *retain, w tableWriter) (res Result, err error) {
	w.dels, w.cuts = keep.kept, w.env.Cuts
	defer func() {
		err = errors.Join(err, src.Close())
		if err != nil {
			w.abandon()
			remove(w.env, w.tables)
			return
		}
		res.Tables, res.Keys = w.tables, w.keys
	}()
	for ok := p.first(src); ok; ok = src.Next() {
		k := src.Key()
		if p.hi != nil && bytes.Compare(k.User, p.hi) >= 0 {
			break
		}
		if res.Read++; res.Read%yieldEvery == 0 {
			if w.env.Progress != nil {
				w.env.Progress.Add(yieldEvery)
			}
			runtime.Gosched()
			if ctx.Err() != nil {
				return res, ctx.Err()
			}
		}
		trailer, stays := keep.keep(k)
		if !stays {
			res.Dropped++
			continue
		}
		if err := w.add(ikey.Key{User: k.User, Trailer: trailer}, src.Value()); err != nil {
			return res, err
		}
	}
	if err := src.Err(); err != nil {
		return res, err
	}
	return res, w.finish(ctx)
}

// A tableWriter divides ascending versions and range tombstones among tables. A table ends where the first key of
// the next one is. All versions of a key are in one table, with all range tombstones over it: a tombstone that
// extends beyond the end is cut there. So tables are disjoint, and each holds everything about the keys within its
// bounds.
//
//	add* (finish | abandon)
type tableWriter struct {
	env   Env
	size  uint64            // bytes at which a table ends, at most env.TableSize
	joins bool              // a block does not count for size before it is compressed: see Plan.joins
	dels  rangedel.List     // that begin at or after the last key
	open  rangedel.List     // that begin before it, in the order of their starts; not written yet
	held  uint64            // bytes of open, but for the first
	carry uint64            // bytes that the table began with: the rests of open range tombstones
	grand []*manifest.Table // tables of the next level that end after the last key
	cuts  [][]byte          // those of env after the last key
	ended uint64            // bytes of the tables that have ended
	cutAt uint64            // of these, those before the last cut at which one ended

	writer  sstable.Writer // of all tables, one after another
	out     *output        // nil between tables
	overlap uint64         // bytes of the next level that out overlaps
	keys    uint64         // distinct keys added
	before  uint64         // of these, those that were added before out

	syncs  Syncs
	tables []*manifest.Table // finished
}

// add appends a version, after the range tombstones that begin before its key.
func (w *tableWriter) add(k ikey.Key, value []byte) error {
	if w.out != nil && w.out.holds(k.User) {
		w.out.superseded = true
		return w.out.w.Add(k, value)
	}
	for len(w.dels) > 0 && bytes.Compare(w.dels[0].Start, k.User) < 0 {
		if err := w.addRangeDel(); err != nil {
			return err
		}
	}
	if err := w.writeEnded(k.User); err != nil {
		return err
	}
	if w.full(k.User) {
		if err := w.cut(k.User); err != nil {
			return err
		}
	}
	if err := w.begin(); err != nil {
		return err
	}
	w.keys++
	w.out.started = true
	w.out.key = append(w.out.key[:0], k.User...)
	return w.out.w.Add(k, value)
}

// addRangeDel begins the next range tombstone.
func (w *tableWriter) addRangeDel() error {
	f := w.dels[0]
	if err := w.writeEnded(f.Start); err != nil {
		return err
	}
	// A cut is between keys, and between starts.
	n := len(w.open)
	if w.out != nil && !w.out.reaches(f.Start) && (n == 0 || bytes.Compare(w.open[n-1].Start, f.Start) < 0) &&
		w.full(f.Start) {
		if err := w.cut(f.Start); err != nil {
			return err
		}
	}
	if err := w.begin(); err != nil {
		return err
	}
	w.dels = w.dels[1:]
	if len(w.open) > 0 {
		w.held += bytesOfDel(&f)
	}
	w.open = append(w.open, f)
	return nil
}

// bytesOfDel returns the bytes that a fragment takes in a table.
func bytesOfDel(f *rangedel.Fragment) uint64 {
	return uint64(12 + len(f.Start) + len(f.End) + 8*len(f.Seqs))
}

// writeEnded writes the first open range tombstones as far as they end at or before key.
func (w *tableWriter) writeEnded(key []byte) error {
	for len(w.open) > 0 && w.open[0].End != nil && bytes.Compare(w.open[0].End, key) <= 0 {
		if err := w.out.w.AddRangeDel(w.open[0]); err != nil {
			return err
		}
		if w.open = w.open[1:]; len(w.open) > 0 {
			w.held -= bytesOfDel(&w.open[0])
		}
	}
	return nil
}

// maxKeys is the number of keys at which a table ends, so that its filters, which take at most some 26 bytes for each,
// are not too large for it.
const maxKeys = 1 << 25

// full reports whether the table should end before key. At a cut of env it does, even if it is small, unless little was
// written since the last one.
func (w *tableWriter) full(key []byte) bool {
	cut := false
	for len(w.cuts) > 0 && bytes.Compare(w.cuts[0], key) <= 0 {
		cut, w.cuts = true, w.cuts[1:]
	}
	for len(w.grand) > 0 && w.grand[0].EndsBefore(key) {
		w.overlap += w.grand[0].Size
		w.grand = w.grand[1:]
	}
	if w.out == nil || w.out.w.Size()+w.held < 2*w.carry { // else a table has little but what is open where it begins
		return false
	}
	if all := w.ended + w.out.w.Size(); cut && all-w.cutAt >= w.env.TableSize/smallPart {
		w.cutAt = all
		return true
	}
	size := w.out.w.Size() + w.held
	if w.joins {
		size -= w.out.w.Raw()
	}
	return size >= w.size || w.overlap > maxOverlap*w.env.TableSize || w.keys-w.before >= maxKeys
}

// begin begins a table unless one is being written.
func (w *tableWriter) begin() (err error) {
	if w.out == nil {
		w.overlap, w.before = 0, w.keys
		w.out, err = begin(w.env, &w.writer)
	}
	return err
}

// cut ends the table before key, nil for the last table. Of range tombstones that extend beyond key, it writes the part
// before it.
func (w *tableWriter) cut(key []byte) error {
	var rest rangedel.List
	w.held, w.carry = 0, 0
	for _, f := range w.open {
		if key != nil && (f.End == nil || bytes.Compare(key, f.End) < 0) {
			r := rangedel.Fragment{Start: bytes.Clone(key), End: f.End, Seqs: f.Seqs}
			if w.carry += bytesOfDel(&r); len(rest) > 0 {
				w.held += bytesOfDel(&r)
			}
			rest = append(rest, r)
			f.End = r.Start
		}
		if err := w.out.w.AddRangeDel(f); err != nil {
			return err
		}
	}
	w.open = rest
	out := w.out
	w.out, w.ended = nil, w.ended+out.w.Size()
	t, err := out.finish()
	if err != nil {
		return err
	}
	w.tables = append(w.tables, t)
	return w.syncs.Sync(out.file, 1)
}

// finish writes the remaining range tombstones, and ends the last table.
func (w *tableWriter) finish(ctx context.Context) error {
	for len(w.dels) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.addRangeDel(); err != nil {
			return err
		}
	}
	if w.out != nil {
		if err := w.cut(nil); err != nil {
			return err
		}
	}
	return w.syncs.Wait()
}

// abandon removes an unfinished table, and waits for the syncs of the others, which are to be removed too.
func (w *tableWriter) abandon() {
	if w.out != nil {
		w.out.abandon()
		w.out = nil
	}
	_ = w.syncs.Wait() // the caller has an error already
}

// A Loader writes sorted versions from outside the store into tables and drops none. It is for one goroutine.
//
//	Add* (Finish | Abandon)
type Loader struct{ w tableWriter }

// NewLoader returns a Loader whose tables will contain the given range tombstones besides what is added.
func NewLoader(env Env, dels rangedel.List) *Loader {
	return &Loader{tableWriter{env: env, size: env.TableSize, dels: dels, cuts: env.Cuts}}
}

// Add appends a copy of a version. Keys must ascend. After an error only Abandon may be called.
func (l *Loader) Add(k ikey.Key, value []byte) error { return l.w.add(k, value) }

// Finish completes the last table and returns all tables, ascending and disjoint. The files are synced, their names
// in the directory are not. If nothing was added, it returns no table. After an error no file is left.
func (l *Loader) Finish(ctx context.Context) ([]*manifest.Table, error) {
	if err := l.w.finish(ctx); err != nil {
		l.Abandon()
		return nil, err
	}
	return l.w.tables, nil
}

// Abandon removes all files that were written.
func (l *Loader) Abandon() {
	l.w.abandon()
	remove(l.w.env, l.w.tables)
	l.w.tables = nil
}
