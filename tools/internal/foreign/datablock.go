package foreign

import "github.com/bloomkv/bloomkv/internal/words"

// internalTrailer is the length of what follows the user key in an internal key: the kind of the entry, and seven bytes
// of its sequence number (LevelDB's db/dbformat.h).
const internalTrailer = 8

// An entry is a version of a key.
type entry struct {
	key     []byte // overwritten by the next entry
	filter  []byte // what the filter has of the key; nil if it has nothing of it
	deleted bool
}

// The kinds of entries that delete a key: RocksDB's db/dbformat.h, Pebble's internal/base/internal.go.
const (
	kindDelete        = 0
	kindSingleDelete  = 7
	kindTimedDelete   = 0x14 // RocksDB
	kindSizedDelete   = 0x17 // Pebble
	pebbleObsoleteBit = 0x40
)

func (s *sst) deletes(kind byte) bool {
	pebble := s.magic == pebbleMagic
	if pebble {
		kind &^= pebbleObsoleteBit
	}
	return kind == kindDelete || kind == kindSingleDelete || kind == kindTimedDelete && !pebble ||
		kind == kindSizedDelete && pebble
}

// entries calls each for every entry of a data block, in order.
func (s *sst) entries(d dataBlock, each func(*entry) error) error {
	b, err := s.readBlock(d.handle, dataBlockName)
	if err != nil {
		return err
	}
	if s.columnar {
		return s.columnEntries(b, each)
	}
	r, err := newRows(s.file, b, false)
	if err != nil {
		return err
	}
	var e entry
	for r.next() {
		n := len(r.key) - internalTrailer
		if n < 0 {
			return r.damaged("key of %d bytes, want at least %d", len(r.key), internalTrailer)
		}
		if err := s.spend(b.at, n); err != nil {
			return err
		}
		e = entry{key: r.key[:n], filter: r.key[:n], deleted: s.deletes(r.key[n])}
		if s.filterKey != nil {
			e.filter = s.filterKey(e.key)
		}
		if err := each(&e); err != nil {
			return err
		}
	}
	return r.err
}

// columnEntries is entries for a columnar block with the default columns: the prefix of the key, which is in the
// filter, the rest of the key, and the trailer. The block begins with the length of its longest key, four bytes.
// Source: Pebble's sstable/colblk/data_block.go.
func (s *sst) columnEntries(b block, each func(*entry) error) error {
	if !s.defaultSchema() {
		return s.unknown(b.at, "columns of keys by schema %s", words.Quoted(s.text(propSchema)))
	}
	const custom = 4
	c, err := newColumns(s.file, b, custom, 3)
	if err != nil {
		return err
	}
	prefixes, rests, trailers := c.prefixes(0), c.strings(1), c.uints(2)
	if c.err != nil {
		return c.err
	}
	var key []byte
	var e entry
	for i := range c.rows {
		prefix, ok := prefixes.next(i)
		rest, same := rests.at(i)
		if !ok || !same {
			return c.damaged("row %d reaches beyond its column", i)
		}
		key = append(append(key[:0], prefix...), rest...)
		if err := s.spend(b.at, len(key)); err != nil {
			return err
		}
		kind := byte(trailers.at(i)) //nolint:gosec // the lowest byte
		e = entry{key: key, filter: key[:len(prefix)], deleted: s.deletes(kind)}
		if err := each(&e); err != nil {
			return err
		}
	}
	return nil
}
