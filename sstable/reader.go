package sstable

import (
	"bytes"
	"context"
	"io"
	"iter"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	engine "github.com/bloomkv/bloomkv/internal/sstable"
)

// A Version is one entry of a table. A table of a Writer has one for each key, with the sequence number 0.
type Version struct {
	Key, Value []byte
	Seq        uint64 // of the write in its store; the version of a key with the largest is the newest
	Deleted    bool   // a tombstone: the key was deleted
}

// A RangeDelete is a fragment of a table's range tombstones. It deletes the versions of keys from Start on and before
// End, or of all keys from Start on if End is nil, whose sequence number is smaller than one of Seqs.
type RangeDelete struct {
	Start, End []byte
	Seqs       []uint64 // ascending, at least one
}

// A Reader reads one table. It keeps the index and the filter in memory from the first lookup on, and data blocks in a
// cache of 2 MiB. It is safe for concurrent use.
type Reader struct{ r *engine.Reader }

// Open opens a table of size bytes and reads its footer. The name is for errors. The file must stay open as long as the
// reader and its iterators are used; the caller closes it.
func Open(f io.ReaderAt, size int64, name string) (*Reader, error) {
	r, err := engine.Open(f, size, name)
	if err != nil {
		return nil, err
	}
	return &Reader{r}, nil
}

// Close frees the reader's memory. No other call may follow or run at the same time.
func (r *Reader) Close() { r.r.Close() }

// Get returns the newest version of key in this table, which may be a tombstone, and whether there is one. It does not
// apply range tombstones. It asks the filter first, so that it usually reads no block for a key that the table does not
// have. The slices are the caller's.
func (r *Reader) Get(key []byte) (v Version, found bool, err error) {
	if err := r.r.Load(0); err != nil {
		return Version{}, false, err
	}
	if maybe, _ := r.r.MayContain(bloomblock.HashKey(key)); !maybe {
		return Version{}, false, nil
	}
	g := r.r.Enter()
	defer g.Leave()
	var st engine.Stats
	hit, found, err := r.r.Get(key, ikey.MaxSeq, &st)
	if err != nil || !found {
		return Version{}, false, err
	}
	value, err := hit.AppendValue(nil)
	if err != nil {
		return Version{}, false, err
	}
	return version(bytes.Clone(key), value, hit.Trailer), true, nil
}

func version(key, value []byte, t ikey.Trailer) Version {
	return Version{Key: key, Value: value, Seq: uint64(t.Seq()), Deleted: t.Kind() == ikey.Delete}
}

// Filter returns the table's filter of keys, or nil if the table has no filter. Ask it with [bloomblock.HashKey] of a
// key. The filter is in memory and stays valid after Close.
func (r *Reader) Filter() (*bloomblock.Filter, error) {
	if err := r.r.Load(0); err != nil {
		return nil, err
	}
	if err := r.r.Keys.State().Damage; err != nil {
		return nil, err
	}
	return r.r.Filter(), nil
}

// Properties returns the table's properties.
func (r *Reader) Properties() (Properties, error) {
	p, err := r.r.Properties()
	if err != nil {
		return Properties{}, err
	}
	return properties(&p, r.r.Meta().Size), nil
}

// RangeDeletes returns the table's range tombstones, in fragments that ascend by their start. They overlap only in a
// table that was written while there were many snapshots between range deletes over each other.
func (r *Reader) RangeDeletes() ([]RangeDelete, error) {
	if _, err := r.r.Properties(); err != nil {
		return nil, err
	}
	var all []RangeDelete
	for _, f := range r.r.RangeDels().List() {
		d := RangeDelete{Start: bytes.Clone(f.Start), End: bytes.Clone(f.End)}
		for _, s := range f.Seqs {
			d.Seqs = append(d.Seqs, uint64(s))
		}
		all = append(all, d)
	}
	return all, nil
}

// Verify reads the whole table from the file and checks it: every checksum, the order of keys, index and properties
// against what is there, and that the filter denies no key.
func (r *Reader) Verify(ctx context.Context) error { return r.r.Verify(ctx, nil) }

// All returns the table's versions in order: by key, the newest first. The slices are valid until the next step. If the
// table cannot be read to its end, the last pair is a zero Version and the error.
func (r *Reader) All() iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		it := r.Iter()
		for ok := it.First(); ok; ok = it.Next() {
			if !yield(it.Version(), nil) {
				_ = it.Close() // the caller wants no more
				return
			}
		}
		if err := it.Close(); err != nil {
			yield(Version{}, err)
		}
	}
}

// An Iter is a cursor over the versions of a table. The calls that move it report whether it stands at a version; after
// false, Err distinguishes the end from an error, and First, Last and Seek go on. It is for one goroutine at a time.
type Iter struct{ it *engine.Iter }

// Iter returns a cursor that stands at no version yet.
func (r *Reader) Iter() *Iter { return &Iter{r.r.Iter(engine.IterOptions{NoFill: true})} }

// First moves to the first version.
func (it *Iter) First() bool { return it.it.First() }

// Last moves to the last version.
func (it *Iter) Last() bool { return it.it.Last() }

// Seek moves to the newest version of key, or of the next key if the table does not have it.
func (it *Iter) Seek(key []byte) bool { return it.it.SeekGE(ikey.Search(key, ikey.MaxSeq)) }

// Next moves to the next version. It may follow only a call that returned true.
func (it *Iter) Next() bool { return it.it.Next() }

// Prev moves to the version before. It may follow only a call that returned true.
func (it *Iter) Prev() bool { return it.it.Prev() }

// Version returns the version that the cursor stands at. Its slices are valid until the cursor moves or is closed.
func (it *Iter) Version() Version {
	k := it.it.Key()
	return version(k.User, it.it.Value(), k.Trailer)
}

// Err returns the error that made the last move fail, or nil.
func (it *Iter) Err() error { return it.it.Err() }

// Close frees the cursor and returns Err.
func (it *Iter) Close() error { return it.it.Close() }
