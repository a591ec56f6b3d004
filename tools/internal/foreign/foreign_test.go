package foreign

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

func someKeys(n int) (all [][]byte) {
	for i := range n {
		all = append(all, fmt.Appendf(nil, "key %05d", 10*i))
	}
	return all
}

// buildFast builds a fastFilter of six probes.
func buildFast(keys [][]byte) []byte {
	lines := (10*len(keys) + 511) / 512
	b := make([]byte, 64*lines)
	for _, key := range keys {
		h := xxph3(key)
		line := b[64*(h&0xffffffff*uint64(lines)>>32):]
		v := uint32(h >> 32)
		for range 6 {
			line[v>>26] |= 1 << (v >> 23 & 7)
			v *= 0x9e3779b9
		}
	}
	return append(b, 0xff, 0, 6, 0, 0)
}

// buildLines builds a bloomFilter with lines, of six probes.
func buildLines(keys [][]byte) []byte {
	lines := uint32(10*len(keys)+511)/512 | 1
	b := make([]byte, 64*lines)
	for _, key := range keys {
		h := signedTail.of(key)
		line := b[64*(h%lines):]
		step := h>>17 | h<<15
		for range 6 {
			line[h%512/8] |= 1 << (h % 8)
			h += step
		}
	}
	return binary.LittleEndian.AppendUint32(append(b, 6), lines)
}

func levelFilter(keys [][]byte) []byte { return buildPlain(keys, 10, unsignedTail) }

// makers returns one maker for each of some formats.
func makers() map[string]*maker {
	return map[string]*maker{
		"LevelDB": {
			magic: levelMagic, checksum: crc32c, policy: policyLevel, layout: PerRange, filter: levelFilter,
			perBlock: 20,
		},
		"LevelDB without a filter": {magic: levelMagic, checksum: crc32c, perBlock: 20},
		"RocksDB 2": {
			magic: rocksMagic, version: 2, checksum: crc32c, policy: policyRocks, layout: Full, filter: buildLines,
			perBlock: 30,
		},
		"RocksDB 5": {
			magic: rocksMagic, version: 5, checksum: xxHash64, policy: policyRocks, layout: Full, filter: buildFast,
			perBlock: 30, delta: true,
		},
		"RocksDB 5 in partitions": {
			magic: rocksMagic, version: 5, checksum: xxHash64, policy: policyRocks, layout: Partitioned,
			filter: buildFast, perBlock: 30,
		},
		"RocksDB 6": {
			magic: rocksMagic, version: 6, checksum: xxHash3, context: 0x12345678, policy: policyRocks, layout: Full,
			filter: buildFast, perBlock: 30, delta: true,
		},
		"Pebble 4": {
			magic: pebbleMagic, version: 4, checksum: crc32c, policy: policyRocks, layout: Full, filter: buildLines,
			perBlock: 30,
		},
	}
}

func open(b []byte) (*Table, error) { return Open(bytes.NewReader(b), int64(len(b)), "dir/000005.sst") }

func TestTablesMadeByHandAreRead(t *testing.T) {
	for name, m := range makers() {
		t.Run(name, func(t *testing.T) {
			all := someKeys(1000)
			f, err := open(m.make(all))
			must(t, err)
			must(t, f.FilterErr())
			checkKeys(t, f, all)
			x, err := f.Examine(t.Context(), Limits{Blocks: 1 << 20, Drawn: 1 << 18, Absent: 1 << 16})
			must(t, err)
			if !x.Complete || x.Keys != 1000 || f.Blocks != uint64((1000+m.perBlock-1)/m.perBlock) {
				t.Errorf("%d keys in %d blocks, complete %v", x.Keys, f.Blocks, x.Complete)
			}
			if m.filter == nil {
				if f.Filter != nil || x.Between != nil || x.Why == "" {
					t.Errorf("a filter %+v, measured %+v, want none", f.Filter, x.Between)
				}
				return
			}
			if x.BitsPerKey < 9 || x.BitsPerKey > 16 || x.Fill < 0.3 || x.Fill > 0.6 {
				t.Errorf("%.1f bits per key, fill %.2f", x.BitsPerKey, x.Fill)
			}
			if x.FromBits < 0.002 || x.FromBits > 0.03 || math.Abs(x.Between.Rate-x.FromBits) > 0.2*x.FromBits {
				t.Errorf("rate from bits %g, between keys %+v", x.FromBits, x.Between)
			}
			u, _, err := f.filters.unit(0)
			must(t, err)
			if n := testing.AllocsPerRun(100, func() { u.ask(12345, nil) }); n != 0 {
				t.Errorf("asking the filter allocates %v times, want 0", n)
			}
		})
	}
}

// checkKeys checks that the table has these keys, and no keys between them.
func checkKeys(t *testing.T, f *Table, all [][]byte) {
	t.Helper()
	i := 0
	must(t, f.EachKey(func(key []byte, deleted bool) bool {
		if i < len(all) && (!bytes.Equal(key, all[i]) || deleted) {
			t.Fatalf("key %d is %q, want %q", i, key, all[i])
		}
		i++
		return true
	}))
	if i != len(all) {
		t.Fatalf("%d keys, want %d", i, len(all))
	}
	first, last, err := f.Bounds()
	must(t, err)
	if !bytes.Equal(first, all[0]) || !bytes.Equal(last, all[len(all)-1]) {
		t.Errorf("keys from %q to %q, want %q to %q", first, last, all[0], all[len(all)-1])
	}
	for i, key := range all {
		for _, k := range [][]byte{key, append(bytes.Clone(key), 'x'), key[:len(key)-1]} {
			a, err := f.Ask(t.Context(), k)
			must(t, err)
			maybe, err := f.MayContain(k)
			must(t, err)
			here := bytes.Equal(k, key) || i > 0 && bytes.Equal(k, all[i-1])
			if (a.Found == "value") != here || here && !maybe || a.Asked && a.Maybe != maybe {
				t.Fatalf("key %q: %+v, may contain %v, here %v", k, a, maybe, here)
			}
			if a.Asked && a.Maybe != a.Trace.allSet() {
				t.Fatalf("key %q: %+v, but the trace is %+v", k, a, a.Trace)
			}
		}
	}
}

// allSet reports whether nothing in the trace denies the key.
func (t *Trace) allSet() bool {
	for _, p := range t.Probes {
		if !p.Set {
			return false
		}
	}
	for _, right := range t.Columns {
		if !right {
			return false
		}
	}
	return len(t.Probes)+len(t.Columns) > 0
}

func TestSamplesOfTheStoresAreRead(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "*.*db"))
	must(t, err)
	more, err := filepath.Glob(filepath.Join("testdata", "*.sst"))
	must(t, err)
	for _, name := range append(names, more...) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			must(t, err)
			f, err := open(b)
			if strings.Contains(name, "encrypted") {
				if !errors.Is(err, ErrUnknown) {
					t.Errorf("error %v, want %v", err, ErrUnknown)
				}
				return
			}
			must(t, err)
			must(t, f.FilterErr())
			var all [][]byte
			must(t, f.EachKey(func(key []byte, _ bool) bool { all = append(all, bytes.Clone(key)); return true }))
			if len(all) != 40 {
				t.Errorf("%d keys, want 40", len(all))
			}
			checkKeys(t, f, all)
		})
	}
}

func TestWhatIsNotKnownIsNamed(t *testing.T) {
	const at = "000005.sst: offset "
	for _, test := range []struct {
		name   string
		change func(m *maker)
		want   string
	}{
		{
			"a later version of RocksDB", func(m *maker) { m.version = 8 },
			"table format version 8 of RocksDB, want 1..7",
		},
		{
			"a later version of Pebble", func(m *maker) { m.magic, m.version = pebbleMagic, 9 },
			"table format version 9 of Pebble, want 1..8",
		},
		{"a plain table", func(m *maker) { m.magic = "\x64\xf9\x6b\x66\x29\x22\x42\x82" }, "a plain table of RocksDB"},
		{
			"an index of another type",
			func(m *maker) { m.extra = map[string]string{propIndexType: "\x04\x00\x00\x00"} },
			"index type 04 00 00 00",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := makers()["RocksDB 5"]
			test.change(m)
			_, err := open(m.make(someKeys(100)))
			if !errors.Is(err, ErrUnknown) || errors.Is(err, corrupt.Err) || !strings.HasPrefix(err.Error(), at) ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	t.Run("a filter policy", func(t *testing.T) {
		m := makers()["RocksDB 5"]
		m.policy = "own.Filter"
		f, err := open(m.make(someKeys(100)))
		must(t, err)
		err = f.FilterErr()
		if !errors.Is(err, ErrUnknown) || !strings.Contains(f.Filter.Unread, "filter policy own.Filter") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("an order of keys", func(t *testing.T) {
		m := makers()["RocksDB 5"]
		m.extra = map[string]string{propComparator: "own.Order"}
		f, err := open(m.make(someKeys(100)))
		must(t, err)
		x, err := f.Examine(t.Context(), Limits{Blocks: 10, Drawn: 100, Absent: 100})
		must(t, err)
		a, err := f.Ask(t.Context(), []byte("key 00010"))
		must(t, err)
		if x.Between != nil || !strings.Contains(x.Why, "own.Order") || a.Found != "value" || !a.Asked || !a.Maybe {
			t.Errorf("%+v, %+v", x, a)
		}
	})
}

func TestAnotherFileIsNotForeign(t *testing.T) {
	for _, b := range [][]byte{nil, []byte("x"), []byte("bloomsst"), make([]byte, 8), make([]byte, 100)} {
		if _, err := open(b); !errors.Is(err, ErrNotForeign) {
			t.Errorf("%q: error %v, want %v", b, err, ErrNotForeign)
		}
	}
}

// TestDamageIsAnError changes each byte of a table: the result is an error with an address, or the same keys.
func TestDamageIsAnError(t *testing.T) {
	for name, m := range makers() {
		t.Run(name, func(t *testing.T) {
			all := someKeys(100)
			b := m.make(all)
			for i := range b {
				b[i] ^= 1
				readAll(t, b, all)
				b[i] ^= 1
			}
			for n := range len(b) {
				readAll(t, b[:n], all)
			}
		})
	}
}

func readAll(t *testing.T, b []byte, all [][]byte) {
	t.Helper()
	f, err := open(b)
	n := 0
	if err == nil {
		err = f.EachKey(func(key []byte, _ bool) bool {
			if n >= len(all) || !bytes.Equal(key, all[n]) {
				t.Fatalf("key %d is %q", n, key)
			}
			n++
			return true
		})
	}
	if err == nil && f.FilterErr() == nil && n == len(all) {
		return
	}
	if err == nil {
		err = f.FilterErr()
	}
	if !errors.Is(err, corrupt.Err) && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotForeign) {
		t.Fatalf("%d keys, error %v", n, err)
	}
}

func FuzzOpen(f *testing.F) {
	for _, m := range makers() {
		f.Add(m.make(someKeys(30)))
	}
	for _, pattern := range []string{"*.ldb", "*.sst"} {
		names, err := filepath.Glob(filepath.Join("testdata", pattern))
		must(f, err)
		for _, name := range names {
			b, err := os.ReadFile(name)
			must(f, err)
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) { _ = readForged(t, b) })
}

// readForged asks for everything in a table whose bytes may be anything. Each error must be one that this package
// names.
func readForged(t *testing.T, b []byte) error {
	t.Helper()
	table, err := open(b)
	errs := []error{err}
	if err == nil {
		_, err = table.Examine(t.Context(), Limits{Blocks: 100, Drawn: 100, Absent: 100})
		_, _, bounds := table.Bounds()
		_, asked := table.Ask(t.Context(), []byte("key 00010"))
		_, may := table.MayContain([]byte("key"))
		errs = []error{err, bounds, asked, may}
	}
	for _, err := range errs {
		named := errors.Is(err, corrupt.Err) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrNotForeign)
		if err != nil && !named {
			t.Errorf("error %v", err)
		}
	}
	return errors.Join(errs...)
}
