package foreign

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// A Property is a name and a value that a table records. A value that is known to be a number is in decimal digits.
type Property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Longer names, and properties after the first maxProperties, are skipped: no store writes any.
const (
	maxProperties = 512
	maxName       = 1 << 10 // bytes
)

// pairs calls each for every key and value of a block that is not sorted by internal keys: a metaindex, or properties.
// It skips keys of more than maxName bytes. Both slices are overwritten after the call.
func (s *sst) pairs(b block, columnar bool, each func(name, value []byte)) error {
	if !columnar {
		r, err := newRows(s.file, b, false)
		if err != nil {
			return err
		}
		for r.next() {
			if len(r.key) <= maxName {
				each(r.key, r.value)
			}
		}
		return r.err
	}
	c, err := newColumns(s.file, b, 0, 2)
	if err != nil {
		return err
	}
	names, values := c.strings(0), c.strings(1)
	if c.err != nil {
		return c.err
	}
	for i := range c.rows {
		name, ok := names.at(i)
		value, same := values.at(i)
		if !ok || !same {
			return c.damaged("row %d reaches beyond its column", i)
		}
		if len(name) <= maxName {
			each(name, value)
		}
	}
	return nil
}

// The names of meta blocks: RocksDB's table/meta_blocks.cc and table/block_based/block_based_table_reader.cc.
const (
	metaProperties    = "rocksdb.properties"
	metaOldProperties = "rocksdb.stats"
	metaIndex         = "rocksdb.index"
	metaDictionary    = "rocksdb.compression_dict"
)

// readMeta reads the metaindex and the properties.
func (s *sst) readMeta() error {
	b, err := s.readBlock(s.meta, "metaindex")
	if err != nil {
		return err
	}
	properties, found := handle{}, false
	pebble := s.magic == pebbleMagic
	err = s.pairs(b, pebble && s.version >= 6, func(name, value []byte) {
		h, _, ok := cutHandle(value)
		if !ok {
			return // A meta block of a later version may have another value.
		}
		switch text := string(name); {
		case text == metaProperties || text == metaOldProperties:
			properties, found = h, true
		case text == metaIndex && s.magic == rocksMagic && s.version >= 6:
			s.index = h
		case text == metaDictionary:
			s.dictionary = true
		default:
			s.noteFilter(text, h)
		}
	})
	if err != nil || !found {
		return err
	}
	if b, err = s.readBlock(properties, "properties"); err != nil {
		return err
	}
	return s.pairs(b, pebble && s.version >= 7, func(name, value []byte) {
		if len(s.Properties) < maxProperties {
			s.Properties = append(s.Properties, Property{string(name), propertyText(string(name), value)})
			s.raw[string(name)] = append([]byte{}, value...)
		}
	})
}

// filterPrefixes begin the names of filter blocks, and say how the filter is divided.
var filterPrefixes = []struct {
	prefix string
	layout Layout
}{
	{"filter.", PerRange}, {"fullfilter.", Full}, {"partitionedfilter.", Partitioned},
}

// noteFilter keeps the handle of a meta block if it is a filter.
func (s *sst) noteFilter(name string, h handle) {
	for _, p := range filterPrefixes {
		if policy, ok := strings.CutPrefix(name, p.prefix); ok {
			s.Filter = &Filter{Policy: policy, Layout: p.layout, Offset: h.offset, Bytes: h.size}
		}
	}
}

// The properties that change how a table is read: RocksDB's table/table_properties.cc and
// include/rocksdb/table_properties.h, Pebble's sstable/properties.go.
const (
	propComparator     = "rocksdb.comparator"
	propEntries        = "rocksdb.num.entries"
	propDeletions      = "rocksdb.deleted.keys"
	propRangeDeletions = "rocksdb.num.range-deletions"
	propDataBlocks     = "rocksdb.num.data.blocks"
	propFilterEntries  = "rocksdb.num.filter_entries"
	propIndexType      = "rocksdb.block.based.table.index.type"
	propWholeKeys      = "rocksdb.block.based.table.whole.key.filtering"
	propExtractor      = "rocksdb.prefix.extractor.name"
	propUserKeys       = "rocksdb.index.key.is.user.key"
	propDelta          = "rocksdb.index.value.is.delta.encoded"
	propSchema         = "pebble.colblk.schema"
)

// text returns a property that is text, or the beginning of a long one.
func (s *sst) text(name string) string {
	const limit = 200 // bytes, which no name of a store reaches
	v := s.raw[name]
	return string(v[:min(len(v), limit)])
}

// number returns the value of a numeric property, or 0.
func (s *sst) number(name string) uint64 {
	v, _ := binary.Uvarint(s.raw[name])
	return v
}

// textual are the properties of RocksDB and Pebble that are text. The others are numbers as varints, or
// little-endian with four or eight bytes.
var textual = []string{
	"comparator", "compression", "compression_options", "filter.policy", "merge.operator", "property.collectors",
	"extractor.name", "family.name", "identity", "schema", "compression_stats", "compression_name", "filtering",
	"is_strict", "seqno.time.map",
}

// propertyText returns the value of a property as text.
func propertyText(name string, value []byte) string {
	own := strings.HasPrefix(name, "rocksdb.") || strings.HasPrefix(name, "pebble.")
	for _, suffix := range textual {
		own = own && !strings.HasSuffix(name, suffix)
	}
	if !own {
		return string(value)
	}
	v, n := binary.Uvarint(value)
	switch {
	case n == len(value) && n > 0:
	case len(value) == 4:
		v = uint64(binary.LittleEndian.Uint32(value))
	case len(value) == 8:
		v = binary.LittleEndian.Uint64(value)
	default:
		return string(value)
	}
	return strconv.FormatUint(v, 10)
}
