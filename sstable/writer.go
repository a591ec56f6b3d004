package sstable

import (
	"crypto/rand"
	"encoding/binary"
	"io"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	engine "github.com/bloomkv/bloomkv/internal/sstable"
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

// Finish writes the rest of the table and returns its properties. It does not sync.
func (w *Writer) Finish() (Properties, error) {
	i, err := w.w.Finish()
	return Properties{
		Size: i.Size, Entries: i.Entries, Deletes: i.Deletes, RangeDeletes: i.RangeDeletes,
		RawKeyBytes: i.RawKeyBytes, RawValueBytes: i.RawValueBytes, Blocks: i.Blocks, FilterKeys: i.FilterKeys,
		MinSeq: uint64(i.MinSeq), MaxSeq: uint64(i.MaxSeq), Smallest: i.Smallest, Largest: i.Largest,
	}, err
}
