package bloomkv

import (
	"bytes"
	"errors"
	"iter"
	"slices"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/sstable"
)

// ScanOptions are the bounds of a scan. nil bounds are infinite; an inverted range is empty. The slices are not copied and
// must not change while a loop runs.
type ScanOptions struct {
	Lower  []byte // inclusive
	Upper  []byte // exclusive
	Prefix []byte // only keys that start with it; together with the bounds, both hold
}

// KV is a key and its value. Both are valid until the scan's next step and must not be changed.
type KV struct{ Key, Value []byte }

// Scan returns the keys of a range with their values, ascending, as of the moment the loop begins: later writes are not
// seen. It takes no lock while it runs and may be left at any time; tables that it reads stay on the disk until then. An error, such as damage or ErrClosed, comes as the
// last element, so that a broken scan cannot pass for a finished one.
//
//	for kv, err := range db.Scan(bloomkv.ScanOptions{Prefix: []byte("user/")}) {
//		if err != nil {
//			return err
//		}
//		fmt.Printf("%s = %s\n", kv.Key, kv.Value)
//	}
func (db *DB) Scan(opts ScanOptions) iter.Seq2[KV, error] {
	return func(yield func(KV, error) bool) {
		left := false
		err := db.scan(opts, func(kv KV) bool {
			left = !yield(kv, nil)
			return !left
		})
		if err != nil && !left {
			yield(KV{}, err)
		}
	}
}

// scan calls each until it returns false or the range ends.
func (db *DB) scan(opts ScanOptions, each func(KV) bool) (err error) {
	lower, upper := opts.bounds()
	s, release := db.acquire()
	if s == nil {
		return ErrClosed
	}
	defer release()
	seq := ikey.Seq(db.visible.Load()) // after the state: see lookup
	src := merge.New(db.sources(s, seq)...)
	defer func() {
		if closeErr := src.Close(); closeErr != nil {
			err = errors.Join(err, closeErr)
		}
	}()

	var last []byte // the key whose newest visible version was taken
	started := false
	for ok := src.SeekGE(ikey.Search(lower, ikey.MaxSeq)); ok; ok = src.Next() {
		if db.state.Load() == nil {
			return ErrClosed
		}
		k := src.Key()
		if upper != nil && bytes.Compare(k.User, upper) >= 0 {
			return nil
		}
		if k.Trailer.Seq() > seq || started && bytes.Equal(k.User, last) {
			continue
		}
		started, last = true, append(last[:0], k.User...)
		if k.Trailer.Kind() == ikey.Delete {
			continue
		}
		if !each(KV{last, src.Value()}) {
			return nil
		}
	}
	if err := src.Err(); err != nil {
		return db.lookupError(err)
	}
	return nil
}

// bounds brings the prefix and the bounds together: [lower, upper), upper nil for no end.
func (o ScanOptions) bounds() (lower, upper []byte) {
	lower, upper = o.Lower, o.Upper
	if bytes.Compare(o.Prefix, lower) > 0 {
		lower = o.Prefix
	}
	if end := after(o.Prefix); end != nil && (upper == nil || bytes.Compare(end, upper) < 0) {
		upper = end
	}
	return lower, upper
}

// after is the smallest key that is greater than all keys with the prefix; nil if there is none.
func after(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := slices.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}

// sources are cursors over all that the state holds, newest data first.
func (db *DB) sources(s *state, seq ikey.Seq) []merge.Source {
	sources := []merge.Source{s.mem.Iter(seq)}
	for _, m := range s.frozen {
		sources = append(sources, m.Iter(seq))
	}
	for _, r := range s.runs {
		sources = append(sources, merge.NewConcat(len(r.tables), r.search, func(i int) (merge.Source, error) {
			if err := db.load(r.tables[i]); err != nil {
				return nil, err
			}
			return r.tables[i].reader.Iter(sstable.IterOptions{}), nil
		}))
	}
	return sources
}
