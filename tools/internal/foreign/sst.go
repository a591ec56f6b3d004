package foreign

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// An sst is a table of LevelDB, goleveldb, RocksDB or Pebble.
type sst struct {
	*Table
	*footer

	raw        map[string][]byte // the values of the properties
	dictionary bool              // data blocks may be compressed with a dictionary

	userKeys  bool // index keys have no trailer
	delta     bool // index values are relative to the one before
	firstKeys bool // index values end with the first key of the block
	twoLevel  bool
	columnar  bool
}

// openSST reads what is needed to read the rest of a table.
func openSST(f *file, ft *footer) (*sst, error) {
	t := &Table{file: f, Facts: Facts{Notes: []string{}, Properties: []Property{}}}
	s := &sst{Table: t, footer: ft, raw: map[string][]byte{}}
	t.layout = s
	if err := s.readMeta(); err != nil {
		return nil, err
	}
	if s.index == (handle{}) {
		return nil, s.damaged(s.meta.offset, "no index is named")
	}
	const (
		twoLevels     = 2
		withFirst     = 3
		firstColumnar = 5 // Pebble's first format with columnar blocks
	)
	kind := s.raw[propIndexType]
	if len(kind) == 4 && (kind[0] > withFirst || kind[1]|kind[2]|kind[3] != 0) {
		return nil, s.unknown(s.index.offset, "index type % x, want at most %d", kind, withFirst)
	}
	if len(kind) == 4 {
		s.twoLevel, s.firstKeys = kind[0] == twoLevels, kind[0] == withFirst
	}
	s.columnar = s.magic == pebbleMagic && s.version >= firstColumnar
	s.twoLevel = s.twoLevel || s.flags&flagTwoLevel != 0
	s.userKeys, s.delta = s.number(propUserKeys) == 1, s.number(propDelta) == 1
	s.findFilterKey()
	return s, nil
}

// byteOrders are the comparators under which keys are in the order of their bytes.
var byteOrders = []string{"", "leveldb.BytewiseComparator"}

// findFilterKey finds out which part of a key is in the filter.
func (s *sst) findFilterKey() {
	comparator := s.text(propComparator)
	if comparator != byteOrders[0] && comparator != byteOrders[1] {
		s.unordered = "keys are ordered by " + comparator
	}
	switch {
	case s.magic == pebbleMagic:
		const prefixes = "the filter has prefixes of keys, which %s defines"
		if s.unordered != "" && s.defaultSchema() { // which stores the prefix of each key
			s.split = fmt.Sprintf(prefixes, comparator)
		} else if s.unordered != "" {
			s.blind = fmt.Sprintf(prefixes, comparator)
		}
	case strings.HasSuffix(comparator, ".u64ts"):
		s.blind = "the filter has keys without timestamps"
	case s.text(propWholeKeys) == "0":
		s.filterKey = extractor(s.text(propExtractor))
		if s.filterKey == nil {
			s.blind = "the filter has prefixes of keys by " + s.text(propExtractor)
		}
	}
}

// defaultSchema reports whether the columns of keys are a prefix, which is in the filter, and the rest: Pebble's
// sstable/colblk/data_block.go.
func (s *sst) defaultSchema() bool {
	return s.columnar && bytes.HasPrefix(s.raw[propSchema], []byte("DefaultKeySchema("))
}

// extractor returns the prefix that one of RocksDB's own extractors takes (util/slice.cc), which is nil for a key
// outside of its domain. For an unknown extractor it returns nil.
func extractor(name string) func(key []byte) []byte {
	for prefix, capped := range map[string]bool{"rocksdb.FixedPrefix.": false, "rocksdb.CappedPrefix.": true} {
		digits, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.ParseUint(digits, 10, 31); ok && err == nil {
			return func(key []byte) []byte {
				if uint64(len(key)) < n && !capped {
					return nil
				}
				return key[:min(n, uint64(len(key)))]
			}
		}
	}
	return nil
}

// store names the program that wrote the table, as far as the file tells.
func (s *sst) store() string {
	switch {
	case s.magic == pebbleMagic:
		return Pebble
	case s.magic == levelMagic && len(s.raw) == 0:
		return LevelDB
	case s.raw["rocksdb.creating.session.identity"] != nil || s.magic == rocksMagic && s.version != 2:
		return RocksDB
	}
	for name := range s.raw {
		if strings.HasPrefix(name, "pebble.") {
			return Pebble
		}
	}
	return RocksDB + " or " + Pebble
}
