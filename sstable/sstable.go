// Package sstable writes and reads one table file: an immutable file of keys in order, with a filter block that knows
// which keys are certainly not in it. It is the file format of a bloomkv store.
//
// A [Writer] writes a table from sorted keys. [Open] opens one, written by a Writer or found in the directory of a
// store; its [Reader] answers Get, hands out the table's filter and makes iterators. Files of a store's tables are
// named 000007.sst.
//
// # Tables of a store
//
// A store's table holds versions: there may be several for one key, the newest first, and some may be tombstones. It
// may hold range tombstones too. Whether a version is the newest of its key in the whole store only the store knows, as
// other tables and the write-ahead log may have newer ones. The sequence numbers in a
// table that the store took in by Ingest are not those of the store, which are in its manifest.
//
// A table never changes, and a store deletes a table that it has replaced. To read the tables of a running store, make
// a checkpoint and open those.
//
// # Damage
//
// Each byte that an answer depends on is covered by a checksum, which includes the byte's position: table, kind of
// block and offset. Damage is an error matching [ErrCorrupt] that names file and offset, and never a wrong answer. A
// damaged filter is an error of Filter alone; lookups then go on without it.
//
// # Why this package is small
//
// A store reads its tables with a larger package, internal/sstable: with a cache that all tables share, filters that
// are loaded and dropped in parts, filters of prefixes, and the recovery of damaged files. This package is a face of
// that one with what a program outside needs for one file. The alternative, exported aliases of the types there, would
// have made all of them a promise of version 1.
package sstable

import (
	"github.com/bloomkv/bloomkv/internal/corrupt"
	engine "github.com/bloomkv/bloomkv/internal/sstable"
)

// MaxKey and MaxValue are the largest lengths of a key and of a value, in bytes.
const (
	MaxKey   = engine.MaxKey
	MaxValue = engine.MaxValue
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

// String returns the name of the codec.
func (c Codec) String() string { return engine.Codec(c).String() }

// Properties describe a table.
type Properties struct {
	Size          uint64 // of the file, in bytes
	Entries       uint64 // versions, tombstones included
	Deletes       uint64 // tombstones among them
	RangeDeletes  uint64 // range tombstones, each once for each fragment that it is cut into
	RawKeyBytes   uint64 // sum of the lengths of the keys
	RawValueBytes uint64 // sum of the lengths of the values
	Blocks        uint64 // data blocks
	FilterKeys    uint64 // distinct keys in the filter; 0 without a filter
	MinSeq        uint64 // smallest sequence number of a version or a range tombstone
	MaxSeq        uint64 // largest
	Smallest      []byte // first key of a version; empty without versions
	Largest       []byte // last key
}

func properties(p *engine.Properties, size uint64) Properties {
	return Properties{
		Size: size, Entries: p.Entries, Deletes: p.Deletes, RangeDeletes: p.RangeDeletes,
		RawKeyBytes: p.RawKeyBytes, RawValueBytes: p.RawValueBytes, Blocks: p.Blocks, FilterKeys: p.FilterKeys,
		MinSeq: uint64(p.MinSeq), MaxSeq: uint64(p.MaxSeq), Smallest: p.Smallest, Largest: p.Largest,
	}
}
