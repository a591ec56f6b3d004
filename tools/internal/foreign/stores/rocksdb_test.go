//go:build rocksdb

package foreign_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv/tools/internal/foreign"
	rocks "github.com/bloomkv/bloomkv/tools/internal/foreign/stores"
)

// rocksRows are the rows of the table that are cases of the test.
var rocksRows = map[string]string{
	"format 4":        "RocksDB, Bloom, 10 bits, format 4",
	"format 5":        "RocksDB, Bloom, 10 bits, format 5",
	"Ribbon, 10 bits": "RocksDB, Ribbon, “10 bits”",
}

func TestRocksDBAgrees(t *testing.T) {
	cases := map[string]rocks.RocksOptions{
		"hash index in data blocks": {Format: 5, Bits: 10, HashIndex: true, Checksum: 1},
		"XXH32":                     {Format: 5, Bits: 10, Checksum: 2},
		"XXH64":                     {Format: 5, Bits: 10, Checksum: 3},
		"XXH3":                      {Format: 5, Bits: 10, Checksum: 4},
		"no checksum":               {Format: 5, Bits: 10},
		"large blocks":              {Format: 5, Bits: 10, Checksum: 1, Block: 64 << 10},
		"two levels, 5":             {Format: 5, Bits: 10, Checksum: 1, TwoLevel: true, Restart: 16},
		"two levels, 2":             {Format: 2, Bits: 10, Checksum: 1, TwoLevel: true},
		"restarts in the index":     {Format: 4, Bits: 10, Checksum: 1, Restart: 16},
		"partitions, 5":             {Format: 5, Bits: 10, Checksum: 4, Partitioned: true, Restart: 16},
		"partitions, 3":             {Format: 3, Bits: 10, Checksum: 1, Partitioned: true},
		"Ribbon in partitions":      {Format: 5, Bits: 10, Checksum: 1, Partitioned: true, Ribbon: true},
		"Ribbon, 10 bits":           {Format: 5, Bits: 10, Checksum: 1, Ribbon: true},
		"Ribbon, 7 bits":            {Format: 5, Bits: 7, Checksum: 1, Ribbon: true},
		"Ribbon, 15.5 bits":         {Format: 5, Bits: 15.5, Checksum: 1, Ribbon: true},
		"64-bit hash, 16 bits":      {Format: 5, Bits: 16, Checksum: 1},
		"64-bit hash, 5 bits":       {Format: 5, Bits: 5, Checksum: 1},
		"32-bit hash, 15 bits":      {Format: 4, Bits: 15, Checksum: 1},
	}
	for format := 2; format <= 5; format++ {
		cases[fmt.Sprintf("format %d", format)] = rocks.RocksOptions{Format: format, Bits: 10, Checksum: 1}
	}
	for name, o := range cases {
		t.Run(name, func(t *testing.T) {
			all := keys(*presents)
			file := filepath.Join(t.TempDir(), "000009.sst")
			must(t, rocks.WriteRocksDB(file, all, value, o))
			b, err := os.ReadFile(file)
			must(t, err)
			f := open(t, b, file, all)
			if f.Entries != uint64(len(all)) {
				t.Errorf("%d entries by the properties, want %d", f.Entries, len(all))
			}
			if want := o.Partitioned; want != (f.Filter.Layout == foreign.Partitioned) {
				t.Errorf("layout %s, want partitions %v", f.Filter.Layout, want)
			}
			store := filepath.Join(t.TempDir(), "store")
			db, err := rocks.OpenRocksDB(store, file, o)
			must(t, err)
			defer db.Close()
			first, last := string(all[0]), string(all[len(all)-1])
			r := compare(t, f, all, *absents, func(key []byte) bool {
				maybe, asked, err := db.Maybe(key)
				must(t, err)
				if inside := first <= string(key) && string(key) <= last; !asked && inside {
					t.Fatalf("key %q: no filter was asked", key)
				}
				if !asked { // outside of the table
					maybe, err = f.MayContain(key)
					must(t, err)
				}
				return maybe
			})
			if row := rocksRows[name]; row != "" {
				results[row] = r
				checkStore(t, store, len(all))
			}
		})
	}
	small := keys(sampleKeys)
	for name, o := range map[string]rocks.RocksOptions{
		"rocksdb4.sst":      {Format: 4, Bits: 10, Checksum: 1, Block: 512, Restart: 4},
		"rocksdb5.sst":      {Format: 5, Bits: 10, Checksum: 4, Block: 512},
		"rocksdb-parts.sst": {Format: 5, Bits: 10, Checksum: 3, Block: 512, Partitioned: true},
	} {
		file := filepath.Join(t.TempDir(), name)
		must(t, rocks.WriteRocksDB(file, small, value, o))
		b, err := os.ReadFile(file)
		must(t, err)
		sample(t, name, b)
	}
}
