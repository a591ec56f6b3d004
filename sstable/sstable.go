// Package sstable writes and reads one table file: an immutable file of keys in order, with a filter block that knows
// which keys are certainly not in it. It is the file format of a bloomkv store.
//
// A [Writer] writes a table from sorted keys, for example for DB.IngestTables. [Open] opens one, written by a Writer or
// found in the directory of a store, where tables are named 000007.sst.
//
// # Tables of a store
//
// A store's table holds versions: there may be several for one key, the newest first, and some may be tombstones. It
// may hold range tombstones too, which a [Reader] does not show. Whether a version is the newest of its key in the
// whole store only the store knows, as other tables and the write-ahead log may have newer ones. The sequence numbers
// in a table that the store took in by Ingest are not those of the store, which are in its manifest.
//
// A table never changes, and a store deletes a table that it has replaced. To read the tables of a running store, make
// a checkpoint and open those.
//
// # Damage
//
// Each byte that an answer depends on is covered by a checksum, which includes the byte's position: table, kind of
// block and offset. Damage is an error matching [ErrCorrupt] that names file and offset, and never a wrong answer. With
// a damaged filter, lookups go on without it; Verify reports it.
//
// # Why this package is small
//
// A store reads its tables with a larger package, internal/sstable: with a cache that all tables share, filters that
// are loaded and dropped in parts, filters of prefixes, and cursors. This package is a face of that one with what a
// program outside needs for one file. Exported aliases of the types there would have made all of them a promise.
package sstable

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"io"
	"iter"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	engine "github.com/bloomkv/bloomkv/internal/sstable"
)

// Errors that a caller may test for with errors.Is.
var (
	ErrOrder   = engine.ErrOrder   // Add: the key is not after the key before it
	ErrSize    = engine.ErrSize    // Add: the key or the value is too long
	ErrEmpty   = engine.ErrEmpty   // Finish: nothing was added
	ErrCorrupt = corrupt.Err       // the file is damaged
	ErrVersion = engine.ErrVersion // the file has a format of a later version
)

// A Codec is a compression of data blocks. The values are on disk.
type Codec uint8

// The codecs.
const (
	CodecNone Codec = Codec(engine.None)
	CodecS2   Codec = Codec(engine.S2)   // fast
	CodecZstd Codec = Codec(engine.Zstd) // small
)

// WriterOptions choose how a table is built. The zero value builds one without compression and without a filter.
type WriterOptions struct {
	// ID is a part of every checksum in the table, so that a block of another table is seen as damage. 0 means a random
	// one.
	ID uint64
	// BlockSize is the size of a data block before compression, in bytes; 0 means 4 KiB. A larger entry has a block of
	// its own.
	BlockSize int
	// Codec compresses data blocks where that saves an eighth of a block.
	Codec Codec
	// Filter is the filter to build, for example that of [bloomblock.ParamsFor]. The zero value builds none.
	Filter bloomblock.Params
	// Seed is mixed into the filter's hashes. It should be secret and random, see [bloomblock.NewSeed], where others
	// choose the keys.
	Seed bloomblock.Seed
}

// A Writer writes one table from front to back. The order of calls is Add+ Finish. An error is final: all later calls
// return it. A Writer is for one goroutine at a time.
type Writer struct{ w *engine.Writer }

// NewWriter begins a table. The caller creates, syncs and closes the file. w receives large writes in order.
func NewWriter(w io.Writer, o WriterOptions) *Writer {
	for o.ID == 0 {
		var id [8]byte
		_, _ = rand.Read(id[:]) // it never fails
		o.ID = binary.LittleEndian.Uint64(id[:])
	}
	return &Writer{engine.NewWriter(w, engine.WriterOptions{
		ID: o.ID, BlockSize: o.BlockSize, Codec: engine.Codec(o.Codec), Filter: o.Filter, Seed: o.Seed,
	})}
}

// Add appends a key, which must be bytewise greater than the key before it, and its value. Both are copied. A nil key
// is the empty key.
func (w *Writer) Add(key, value []byte) error {
	return w.w.Add(ikey.Key{User: key, Trailer: ikey.MakeTrailer(0, ikey.Set)}, value)
}

// Size estimates the size that the file would have if the table were finished now, without its filter, in bytes.
func (w *Writer) Size() uint64 { return w.w.Size() }

// Finish writes the rest of the table. It does not sync.
func (w *Writer) Finish() error {
	_, err := w.w.Finish()
	return err
}

// A Version is one entry of a table. A table of a Writer has one for each key, with the sequence number 0.
type Version struct {
	Key, Value []byte
	Seq        uint64 // of the write in its store; the version of a key with the largest is the newest
	Deleted    bool   // a tombstone: the key was deleted
}

func version(key, value []byte, t ikey.Trailer) Version {
	return Version{Key: key, Value: value, Seq: uint64(t.Seq()), Deleted: t.Kind() == ikey.Delete}
}

// A Reader reads one table. It keeps the index and the filter in memory from the first lookup on, and data blocks in a
// cache of 2 MiB. It is safe for concurrent use.
type Reader struct{ r *engine.Reader }

// Open opens a table of size bytes and reads its footer. The name is for errors. The file must stay open as long as the
// reader is used; the caller closes it.
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
	if maybe, _ := r.r.Keys.MayContain(bloomblock.HashKey(key)); !maybe {
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

// All returns the table's versions in order: by key, the newest first. The slices are valid until the next step. If the
// table cannot be read to its end, the last pair is a zero Version and the error.
func (r *Reader) All() iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		it := r.r.Iter(engine.IterOptions{Bypass: true})
		for ok := it.First(); ok; ok = it.Next() {
			k := it.Key()
			if !yield(version(k.User, it.Value(), k.Trailer), nil) {
				_ = it.Close() // the caller wants no more
				return
			}
		}
		if err := it.Close(); err != nil {
			yield(Version{}, err)
		}
	}
}

// Verify reads the whole table from the file and checks it: every checksum, the order of keys, index and properties
// against what is there, and that the filter denies no key.
func (r *Reader) Verify(ctx context.Context) error { return r.r.Verify(ctx, nil) }
