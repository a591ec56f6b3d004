package foreign

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A badgerForge changes a table of Badger that is not compressed, and corrects the checksums of what it changes.
type badgerForge struct {
	whole []byte
	parts [2]handle // a block and the index, each without its checksum
}

func newBadgerForge(t *testing.T) badgerForge {
	t.Helper()
	whole, err := os.ReadFile(filepath.Join("testdata", "badger0.sst"))
	must(t, err)
	const sums = 6 + 4 // bytes of a checksum and its length
	end := uint64(len(whole) - sums - 4)
	at := end - uint64(binary.BigEndian.Uint32(whole[end:]))
	f, err := open(whole)
	must(t, err)
	var second dataBlock // the checksum of the first has a byte less
	must(t, f.layout.dataBlocks(func(d dataBlock) error {
		if d.number == 1 {
			second = d
		}
		return nil
	}))
	return badgerForge{whole, [2]handle{{second.offset, second.size - sums}, {at, end - at}}}
}

// forged returns a copy of the table after a change.
func (f *badgerForge) forged(change func(b []byte)) []byte {
	b := bytes.Clone(f.whole)
	change(b)
	for i, h := range f.parts {
		body := b[h.offset:][:h.size]
		sum := b[h.offset+h.size+4*uint64(i):][1:6] // the length of the index is before its checksum
		v := crc32.Checksum(body, castagnoli)
		for i := range sum {
			sum[i] = byte(v>>(7*i)) | 0x80
		}
		sum[4] &= 0x0f
	}
	return b
}

// TestAForgedTableIsReadToAnError changes each byte of tables whose checksums are right nevertheless, or that have
// none, as RocksDB and Pebble allow. No table may end the program, or have an error that this package does not name.
func TestAForgedTableIsReadToAnError(t *testing.T) {
	badger := newBadgerForge(t)
	for _, h := range badger.parts {
		for i := range h.size {
			for _, mask := range []byte{1, 0x80, 0xff} {
				_ = readForged(t, badger.forged(func(b []byte) { b[h.offset+i] ^= mask }))
			}
		}
	}
	step := 1
	if testing.Short() {
		step = 5
	}
	for name, footer := range map[string]int{
		"rocksdb4": 53, "rocksdb5": 53, "rocksdb-parts": 53, "pebble1": 53, "pebble4": 53, "pebble5": 53,
		"pebble7": 61, "pebble-fuse": 61,
	} {
		b, err := os.ReadFile(filepath.Join("testdata", name+".sst"))
		must(t, err)
		end := b[len(b)-footer:]
		end[0] = byte(noChecksum)
		if at := footer - 8 - 4 - 4; footer > rocksFooterLen {
			binary.LittleEndian.PutUint32(end[at:], crc32c.of(slices.Concat(end[:at], end[at+4:])))
		}
		if err := readForged(t, b); err != nil {
			t.Errorf("%s without checksums: %v", name, err)
		}
		for i := 0; i < len(b); i += step {
			for _, mask := range []byte{1, 0xff} {
				b[i] ^= mask
				_ = readForged(t, b)
				b[i] ^= mask
			}
		}
	}
}

func TestForgedEntriesOfBadgerAreDamage(t *testing.T) {
	f := newBadgerForge(t)
	end := f.parts[0].offset + f.parts[0].size - 4 // of the offsets of the entries
	offsets := end - 4*uint64(binary.BigEndian.Uint32(f.whole[end:]))
	field := func(entry, i, v uint64) func(b []byte) {
		return func(b []byte) {
			at := binary.LittleEndian.Uint32(b[offsets+4*entry:])
			binary.LittleEndian.PutUint16(b[f.parts[0].offset+uint64(at)+2*i:], uint16(v))
		}
	}
	const shared, own = 0, 1
	first := uint64(binary.LittleEndian.Uint16(f.whole[f.parts[0].offset+2:])) // bytes of the first key
	last, size := (end-offsets)/4-1, offsets-f.parts[0].offset                 // of the entries
	for name, c := range map[string]struct {
		change func(b []byte)
		want   string
	}{
		"the index has a key without a version": {
			func(b []byte) {
				key := f.whole[f.parts[0].offset+4:][:first]
				at := f.parts[1].offset + uint64(bytes.Index(b[f.parts[1].offset:], key))
				binary.LittleEndian.PutUint32(b[at-4:], badgerVersion-1)
			},
			"not of a table of Badger",
		},
		"the first key shares a byte":       {field(0, shared, 1), "shares 1 bytes"},
		"the first key shares the most":     {field(0, shared, 0xffff), "shares 65535 bytes"},
		"a key shares a byte too many":      {field(1, shared, first+1), fmt.Sprintf("shares %d bytes", first+1)},
		"a key shares the most":             {field(1, shared, 0xffff), "shares 65535 bytes"},
		"a key ends after the block":        {field(1, own, 0xffff), "and has 65535"},
		"a key is shorter than its version": {field(0, own, 7), "shares 0 bytes and has 7"},
		"an entry begins after the block": {
			func(b []byte) { binary.LittleEndian.PutUint32(b[offsets:], math.MaxUint32) }, "entry at byte 4294967295",
		},
		"an entry ends after the block": {
			func(b []byte) { binary.LittleEndian.PutUint32(b[offsets:], uint32(size)-3) },
			"entry at byte",
		},
		"no byte is left for the flags": {
			field(last, own, size-4-uint64(binary.LittleEndian.Uint32(f.whole[offsets+4*last:]))), "shares",
		},
		"more entries than the block has": {func(b []byte) { b[end] = 0x7f }, "the checksum is wrong"},
	} {
		err := readForged(t, f.forged(c.change))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// TestBoundsAreThoseOfTheBytes has what just fits, and what is one too large.
func TestBoundsAreThoseOfTheBytes(t *testing.T) {
	f := &file{name: "000005.sst"}
	word := binary.LittleEndian.AppendUint32
	restarts := func(n uint32) error {
		_, err := newRows(f, block{word(make([]byte, 8), n), 0}, false)
		return err
	}
	firstKey := func(n uint64) bool {
		value := append(binary.AppendUvarint(handle{1, 2}.encode(), n), "key"...)
		_, _, ok := (&sst{footer: &footer{}, firstKeys: true}).indexValue(&rows{value: value}, handle{})
		return ok
	}
	inRange := func(offset uint64) bool {
		r, err := newRanges(f, block{append(word(word(nil, 0), 0), 11), 0}, unsignedTail)
		must(t, err)
		_, asked := r.find(dataBlock{handle: handle{offset: offset}}, nil)
		return asked
	}
	known := func(bits int, end ...byte) bool {
		_, constant := newTableFilter(append(make([]byte, bits), end...)).asker.(constant)
		return !constant
	}
	plain := func(b ...byte) bool { _, constant := newPlain(b, unsignedTail).asker.(constant); return !constant }
	read := func(at, n uint64) bool {
		b := flat{b: make([]byte, 10)}
		b.word(at, n)
		return !b.bad
	}
	withKeys := func(inBlock, inIndex int) bool {
		m := &maker{magic: levelMagic, checksum: crc32c}
		h := m.block(rowBlock([]pair{{make([]byte, inBlock), nil}}, false))
		top := m.block(rowBlock([]pair{{make([]byte, inIndex), h.encode()}}, false))
		m.footer(m.block(rowBlock(nil, false)), top)
		return readForged(t, m.out) == nil
	}
	for name, got := range map[string][2]bool{
		"restarts of a block":          {restarts(2) == nil, restarts(3) == nil},
		"a first key in an index":      {firstKey(3), firstKey(4)},
		"a block in ranges of filters": {inRange(1<<11 - 1), inRange(1 << 11)},
		"lines of a filter":            {known(64, 255, 0, 6, 0, 0), known(63, 255, 0, 6, 0, 0)},
		"probes of a filter of lines":  {known(64, 127, 1, 0, 0, 0), known(64, 128, 1, 0, 0, 0)},
		"probes of a fast filter":      {known(64, 255, 0, 30, 0, 0), known(64, 255, 0, 31, 0, 0)},
		"probes of a plain filter":     {plain(1, 30), plain(1, 31)},
		"a word of a flatbuffer":       {read(6, 4), read(7, 4)},
		"a byte of a flatbuffer":       {read(9, 1), read(10, 1)},
		"a key of an index":            {withKeys(8, 8), withKeys(8, 7)},
		"a key of a block":             {withKeys(8, 8), withKeys(7, 8)},
	} {
		if !got[0] || got[1] {
			t.Errorf("%s: what fits %v, what is one too large %v; want true, false", name, got[0], got[1])
		}
	}
}

// TestALengthThatCannotBeCountedIsDamage names a metaindex whose length with its trailer has more
// than 64 bits.
func TestALengthThatCannotBeCountedIsDamage(t *testing.T) {
	m := makers()["RocksDB 5"]
	m.footer(handle{0, math.MaxUint64 - 2}, handle{0, 1})
	if err := readForged(t, m.out); err == nil || !strings.Contains(err.Error(), "metaindex of 18446744073709551613") {
		t.Errorf("error %v, want the length of the metaindex", err)
	}
}

func TestWhatATableSaysOfItselfIsBounded(t *testing.T) {
	m := makers()["RocksDB 5"]
	m.extra = map[string]string{}
	for i := range maxProperties {
		m.extra[fmt.Sprintf("own.%03d", i)] = "1"
	}
	f, err := open(m.make(someKeys(100)))
	must(t, err)
	if n := len(f.Properties); n != maxProperties {
		t.Errorf("%d properties, want %d", n, maxProperties)
	}

	m = makers()["LevelDB"] // which does not record the number of its keys
	m.perBlock = 1000
	var long [][]byte
	for _, key := range someKeys(m.perBlock) {
		long = append(long, append(key, make([]byte, 1<<10)...))
	}
	f, err = open(m.make(long))
	must(t, err)
	const absent = 64
	x, err := f.Examine(t.Context(), Limits{Blocks: 1, Drawn: 1, Absent: absent})
	must(t, err)
	if x.Between == nil || x.Between.Probes > absent {
		t.Errorf("%+v, want at most %d probes", x.Between, absent)
	}
}
