package foreign

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheBitsOfBloomFiltersAreShown reads those of each kind of filter: the number of bytes of all units, and the
// length of a cache line.
func TestTheBitsOfBloomFiltersAreShown(t *testing.T) {
	for name, want := range map[string]struct{ bytes, line int }{
		"badger0.sst":       {35, 0}, // anywhere in the filter
		"goleveldb.ldb":     {50, 0},
		"pebble4.sst":       {64, 64},
		"rocksdb4.sst":      {64, 64},
		"rocksdb5.sst":      {64, 64},
		"rocksdb-parts.sst": {64, 64}, // one partition
		"pebble-fuse.sst":   {0, 0},   // not a Bloom filter
	} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		f, err := open(b)
		must(t, err)
		if bits, line := f.Bloom(); len(bits) != want.bytes || line != want.line {
			t.Errorf("%s: %d bytes in lines of %d, want %v", name, len(bits), line, want)
		}
	}
	two := &ranges{data: append(make([]byte, 6), 0, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0), offsets: 6, count: 2}
	if bits, line := (&Table{filters: two}).Bloom(); len(bits) != 4 || line != -1 {
		t.Errorf("filters for ranges: %d bytes in lines of %d, want 4 and -1", len(bits), line)
	}
}
