// Package foreign reads tables that other stores have written: LevelDB, goleveldb, RocksDB, Pebble and Badger. It shows
// their filters, their properties and their keys, never their values. It writes nothing.
//
// The formats are drawn where they are read: footers in footer.go, blocks in block.go and columns.go, filters in
// bloom.go, ribbon.go, fuse.go and parts.go, tables of Badger in badger.go. Each file names its sources.
//
// For any file the result is a value or an error with file and offset. The memory is bounded by the file's size and by
// maxDecoded for each block, and the work of a call by workRatio.
package foreign

import (
	"bytes"
	"errors"
	"io"
)

// The stores whose tables are recognized. The tables of LevelDB and of goleveldb are the same.
const (
	LevelDB = "LevelDB or goleveldb"
	RocksDB = "RocksDB"
	Pebble  = "Pebble"
	Badger  = "Badger"
)

// ErrNotForeign is returned for a file that no known store has written.
var ErrNotForeign = errors.New("not a table of another store")

// Facts contains what a table records about itself. Numbers that it does not record are 0 until Examine counts them.
type Facts struct {
	Store      string     `json:"store"`
	Format     string     `json:"format"`
	Bytes      uint64     `json:"bytes"`
	Checksum   string     `json:"checksum"`
	Comparator string     `json:"comparator"` // empty if it is not recorded
	Blocks     uint64     `json:"data_blocks"`
	Entries    uint64     `json:"entries"`
	Deletes    uint64     `json:"deletes"`
	RangeDels  uint64     `json:"range_deletes"`
	Filter     *Filter    `json:"filter,omitempty"`
	Notes      []string   `json:"notes"` // of what is not known
	Properties []Property `json:"properties"`
}

// A Filter contains the facts of all filters of a table.
type Filter struct {
	Policy   string `json:"policy"`
	Layout   Layout `json:"layout"`
	Kind     string `json:"kind"`   // of the first unit that has keys; empty if it is not known
	Offset   uint64 `json:"offset"` // of the block, or of the index of the partitions
	Bytes    uint64 `json:"bytes"`  // on disk, without block trailers
	Units    int    `json:"units"`
	Probes   int    `json:"probes"`
	Probe    string `json:"probe"` // what Probes counts: probes, or columns
	Hash     string `json:"hash"`
	Recorded uint64 `json:"keys_recorded"`    // 0 if the table does not record how many keys were added
	Unread   string `json:"unread,omitempty"` // the reason why the filter cannot be read
}

// A layout reads the data blocks of a format.
type layout interface {
	// dataBlocks calls each for every data block, in the order of their keys, and returns the first error.
	dataBlocks(each func(dataBlock) error) error
	// entries calls each for every entry of a data block, in order.
	entries(d dataBlock, each func(*entry) error) error
}

// A Table is a table of another store. It is not safe for concurrent use.
type Table struct {
	Facts
	*file

	layout    layout
	filters   filterSet // nil without known filters
	filterErr error
	filterKey func(key []byte) []byte // nil for the whole key
	blind     string                  // the reason why it is not known what the filter has of the keys, or ""
	split     string                  // the reason why that is not known of keys that the table lacks, or ""
	unordered string                  // the reason why the order of the keys is not known, or ""
}

// Open reads a table, without its data blocks. The reader must have size bytes and remain readable. A filter that
// cannot be read is one of the facts, and FilterErr returns the reason.
func Open(r io.ReaderAt, size int64, name string) (*Table, error) {
	f := &file{r: r, size: uint64(max(size, 0)), name: name}
	f.begin()
	ft, err := readFooter(f)
	if err != nil {
		return nil, err
	}
	if ft == nil {
		return openBadger(f)
	}
	s, err := openSST(f, ft)
	if err != nil {
		return nil, err
	}
	t := s.Table
	t.Store, t.Format, t.Bytes, t.Checksum = s.store(), s.format(), f.size, s.checksum.String()
	t.Comparator, t.Blocks, t.RangeDels = s.text(propComparator), s.number(propDataBlocks), s.number(propRangeDeletions)
	// Range deletes are among the entries and the deletes that are recorded, though not in data blocks.
	t.Entries = max(s.number(propEntries), t.RangeDels) - t.RangeDels
	t.Deletes = max(s.number(propDeletions), t.RangeDels) - t.RangeDels
	if t.Filter != nil {
		t.Filter.Recorded = s.number(propFilterEntries)
		t.setFilter(s.openFilter(t.Filter))
	}
	t.note(t.blind)
	t.note(t.split)
	t.note(t.unordered)
	if s.dictionary {
		t.note("data blocks may be compressed with a dictionary, and are not read then")
	}
	return t, nil
}

// note adds a fact that is not known.
func (t *Table) note(text string) {
	if text != "" {
		t.Notes = append(t.Notes, text)
	}
}

// setFilter adds the filters, or the reason why they cannot be read.
func (t *Table) setFilter(set filterSet, err error) {
	if err != nil {
		t.Filter.Unread, t.filterErr = err.Error(), err
		return
	}
	t.filters, t.Filter.Units = set, set.parts()
	for part := range set.parts() {
		u, _, err := set.unit(part)
		if err != nil {
			t.Filter.Unread, t.filterErr, t.filters = err.Error(), err, nil
			return
		}
		t.Filter.Kind, t.Filter.Hash, t.Filter.Probes, t.Filter.Probe = u.kind, u.hashName, u.probes, u.probe
		if _, empty := u.asker.(constant); !empty {
			return
		}
	}
}

// FilterErr returns the reason why the filter cannot be read, or nil. It matches corrupt.Err or ErrUnknown.
func (t *Table) FilterErr() error { return t.filterErr }

// EachKey calls each for every version of a key, in order, until it returns false. The key is overwritten after the
// call. Only one data block is in memory at a time.
func (t *Table) EachKey(each func(key []byte, deleted bool) bool) error {
	t.file.begin()
	return stopped(t.layout.dataBlocks(func(d dataBlock) error {
		return t.layout.entries(d, func(e *entry) error {
			if !each(e.key, e.deleted) {
				return errStop
			}
			return nil
		})
	}))
}

// Bounds returns the first and the last key, or nil for a table without keys. It reads two data blocks.
func (t *Table) Bounds() (first, last []byte, err error) {
	var final dataBlock
	found := false
	t.file.begin()
	err = t.layout.dataBlocks(func(d dataBlock) error {
		final.handle, final.number = d.handle, d.number
		if found {
			return nil
		}
		found = true
		err := t.layout.entries(d, func(e *entry) error {
			first = append([]byte{}, e.key...)
			return errStop
		})
		return stopped(err)
	})
	if err != nil || !found {
		return nil, nil, err
	}
	err = t.layout.entries(final, func(e *entry) error {
		last = append(last[:0], e.key...)
		return nil
	})
	if last == nil && first != nil {
		last = bytes.Clone(first)
	}
	return first, last, err
}
