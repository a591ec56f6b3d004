package foreign

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
)

// hostileTable returns a table of LevelDB with the given data blocks, which are compressed by codec already. The index
// names keys after upper.
func hostileTable(upper []byte, codec byte, blocks ...[]byte) []byte {
	m := &maker{magic: levelMagic, checksum: crc32c}
	var index []pair
	for i, b := range blocks {
		key := internal(append(bytes.Clone(upper), byte(i)))
		index = append(index, pair{key, m.blockBy(codec, b).encode()})
	}
	top := m.block(rowBlock(index, false))
	m.footer(m.block(rowBlock(nil, false)), top)
	return m.out
}

// sharing returns a block of n entries that share a key of the given length up to its last 16 bytes.
func sharing(length, n int) []byte {
	key := bytes.Repeat([]byte("k"), length)
	b := binary.AppendUvarint(binary.AppendUvarint([]byte{0}, uint64(length)), 0)
	b = append(b, key...)
	for i := range n {
		b = binary.AppendUvarint(b, uint64(length-16))
		b = append(b, 16, 0)
		b = binary.BigEndian.AppendUint64(b, uint64(i)|0x6c<<56) // after "k"
		b = binary.LittleEndian.AppendUint64(b, 1<<8|1)
	}
	return binary.LittleEndian.AppendUint32(b, 0)
}

// bomb returns a frame of zstd that is a few hundred bytes long and decompresses to a block of rows of 24 MiB.
func bomb() []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3} // a window of 128 KiB, the length is not recorded
	part := func(kind, size uint32, content ...byte) {
		header := binary.LittleEndian.AppendUint32(nil, kind<<1|size<<3)
		b = append(append(b, header[:3]...), content...)
	}
	const raw, repeated, last = 0, 1, 1
	first := slices.Concat([]byte{0, 16, 8}, make([]byte, 16+8)) // an entry with a key of 16 bytes
	part(raw, uint32(len(first)), first...)
	// Of 19 bytes each, all 8: an entry that shares 8 bytes, adds 8, and has a value of 8.
	for range 24 << 20 / (19 * 6898) {
		part(repeated, 19*6898, 8)
	}
	part(raw, 4, 0, 0, 0, 0)
	b = append(b, last, 0, 0) // an empty block
	return b
}

func TestWorkIsBoundedByTheLengthOfTheFile(t *testing.T) {
	for _, test := range []struct {
		name  string
		table []byte
	}{
		{"long keys that share all but their end", hostileTable([]byte("z"), codecNone, sharing(64<<10, 50_000))},
		{
			"blocks that decompress to many times their length",
			hostileTable([]byte("z"), levelZstd, bomb(), bomb(), bomb()),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := open(test.table)
			must(t, err)
			_, err = f.Examine(t.Context(), Limits{Blocks: 1000, Drawn: 1000, Absent: 1000})
			const want = "blocks and keys of more than"
			if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
			if _, err = f.Ask(t.Context(), []byte("y")); !errors.Is(err, ErrUnknown) {
				t.Errorf("a key after all others: error %v, want %v", err, ErrUnknown)
			}
		})
	}
}

func TestNamesOfMetaBlocksAreBounded(t *testing.T) {
	m := makers()["RocksDB 5"]
	m.meta = []pair{{bytes.Repeat([]byte("a"), maxName+1), handle{0, 1}.encode()}}
	m.extra = map[string]string{strings.Repeat("b", maxName+1): "1"}
	f, err := open(m.make(someKeys(100)))
	must(t, err)
	for _, p := range f.Properties {
		if len(p.Name) > maxName {
			t.Errorf("a property with a name of %d bytes", len(p.Name))
		}
	}
}

// A filter of which two units are the same bytes could take the square of its length.
func TestUnitsMustNotOverlap(t *testing.T) {
	offsets := func(all ...uint32) []byte {
		b := make([]byte, 100)
		for _, v := range all {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return append(binary.LittleEndian.AppendUint32(b, 100), 11)
	}
	f := &file{name: "000005.ldb"}
	if r, err := newRanges(f, block{offsets(0, 50, 50), 0}, unsignedTail); err != nil || r.parts() != 3 {
		t.Errorf("ascending offsets: %v", err)
	}
	for _, b := range [][]byte{offsets(50, 0), offsets(0, 101), append(offsets(0), 11), offsets(0)[1:]} {
		if _, err := newRanges(f, block{b, 0}, unsignedTail); !errors.Is(err, corrupt.Err) {
			t.Errorf("% x: error %v, want %v", b[100-1:], err, corrupt.Err)
		}
	}
	m := makers()["RocksDB 5"]
	m.layout = ""
	part := m.block(buildFast(someKeys(100))).encode()
	index := m.block(rowBlock([]pair{{internal([]byte("a")), part}, {internal([]byte("b")), part}}, true))
	m.meta = append(m.meta, pair{[]byte("partitionedfilter." + policyRocks), index.encode()})
	table, err := open(m.make(someKeys(100)))
	must(t, err)
	if err := table.FilterErr(); !errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), "index of filters") {
		t.Errorf("a partition that is named twice: error %v", err)
	}
}

func TestFuseFieldsAreChecked(t *testing.T) {
	// 1 + 2 segments of four fingerprints of eight bits.
	good := slices.Concat(make([]byte, 12), binary.LittleEndian.AppendUint64(nil, 7), []byte{1, 0, 0, 0, 2, 8})
	f := &file{name: "000005.sst"}
	u, err := newFuse(f, block{good, 0})
	must(t, err)
	if rate, exact := u.rate(); rate != 1.0/256 || !exact {
		t.Errorf("rate %g, want %g", rate, 1.0/256)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"no segments":         func(b []byte) []byte { b[20] = 0; return b },
		"many segments":       func(b []byte) []byte { b[23] = 0xff; return b },
		"long segments":       func(b []byte) []byte { b[24] = 3; return b },
		"endless segments":    func(b []byte) []byte { b[24] = 64; return b },
		"short fingerprints":  func(b []byte) []byte { b[25] = 4; return b },
		"another fingerprint": func(b []byte) []byte { b[25] = 9; return b },
		"a byte more":         func(b []byte) []byte { return append([]byte{0}, b...) },
		"a byte less":         func(b []byte) []byte { return b[1:] },
	} {
		_, err := newFuse(f, block{change(bytes.Clone(good)), 0})
		if !errors.Is(err, corrupt.Err) && !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: error %v, want damage", name, err)
		}
	}
	if u, err := newFuse(f, block{good[12:], 0}); err != nil || u.ask(1, nil) {
		t.Errorf("a filter without fingerprints says maybe, or %v", err)
	}
}

// TestFingerprintsAreFoundByBits stores fingerprint i, which is i+1, where Pebble does: bit i·width of the array.
func TestFingerprintsAreFoundByBits(t *testing.T) {
	for width, spare := range map[int]int{4: 0, 8: 0, 10: 3, 12: 1, 16: 0} {
		const places = 3 << 2
		b := make([]byte, (places*width+7)/8+spare)
		for i := range places {
			for bit := range width {
				b[(i*width+bit)/8] |= byte((i + 1) >> bit & 1 << ((i*width + bit) % 8))
			}
		}
		b = slices.Concat(b, make([]byte, 8), []byte{1, 0, 0, 0, 2, byte(width)})
		u, err := newFuse(&file{}, block{b, 0})
		must(t, err)
		for i := range places {
			fuse, _ := u.asker.(*fuseFilter)
			if got := fuse.fingerprint(uint64(i)); got != uint64(i+1) {
				t.Errorf("%d bits: fingerprint %d is %d, want %d", width, i, got, i+1)
			}
		}
	}
}

// Pebble 8 adds columns to data blocks and changes nothing else that is read. No release writes it.
func TestPebble8IsReadAsPebble7(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "pebble7.sst"))
	must(t, err)
	footer := b[len(b)-rocksFooterLen-8:]
	at := len(footer) - magicLen - 8 // of the checksum, and then the version
	footer[at+4] = 8
	rest := slices.Concat(footer[:at], footer[at+4:])
	binary.LittleEndian.PutUint32(footer[at:], crc32c.of(rest))
	f, err := open(b)
	must(t, err)
	if f.Format != "Pebble 8" || f.FilterErr() != nil {
		t.Errorf("format %s, filter %v", f.Format, f.FilterErr())
	}
	var all [][]byte
	must(t, f.EachKey(func(key []byte, _ bool) bool { all = append(all, bytes.Clone(key)); return true }))
	checkKeys(t, f, all)
}

// TestAFilterIsShownWithoutDataBlocks damages the first data block: the filter's figures and answers remain.
func TestAFilterIsShownWithoutDataBlocks(t *testing.T) {
	m := makers()["RocksDB 5"]
	m.extra = map[string]string{propFilterEntries: string(binary.AppendUvarint(nil, 1000))}
	all := someKeys(1000)
	b := m.make(all)
	b[10] ^= 1
	f, err := open(b)
	must(t, err)
	x, err := f.Examine(t.Context(), Limits{Blocks: 1000, Drawn: 1000, Absent: 1000})
	if !errors.Is(err, corrupt.Err) || x == nil {
		t.Fatalf("%+v, error %v, want %v", x, err, corrupt.Err)
	}
	if x.Complete || x.Between != nil || x.Why == "" || x.BitsPerKey < 10 || x.Fill < 0.3 || x.FromBits < 0.001 {
		t.Errorf("%+v", x)
	}
	a, err := f.Ask(t.Context(), all[0])
	if !errors.Is(err, corrupt.Err) || a.Found != "unknown" || !a.Asked || !a.Maybe {
		t.Errorf("%+v, error %v", a, err)
	}
}
