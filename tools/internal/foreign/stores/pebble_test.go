package foreign_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomkv/bloomkv/tools/internal/foreign"
	_ "github.com/bloomkv/bloomkv/tools/internal/foreign/minlz"
)

// pebbleTable returns a table with the given keys.
func pebbleTable(t *testing.T, all [][]byte, o sstable.WriterOptions) []byte {
	t.Helper()
	fs := vfs.NewMem()
	file, err := fs.Create("table", vfs.WriteCategoryUnspecified)
	must(t, err)
	if o.FilterType = sstable.TableFilter; o.FilterPolicy == nil {
		o.FilterPolicy = bloom.FilterPolicy(10)
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(file), o)
	for _, key := range all {
		must(t, w.Set(key, value(key)))
	}
	must(t, w.Close())
	file, err = fs.Open("table")
	must(t, err)
	info, err := file.Stat()
	must(t, err)
	b := make([]byte, info.Size())
	_, err = file.ReadAt(b, 0)
	must(t, err)
	return b
}

// pebbleFilter returns the filter block that Pebble's own reader finds. A schema of keys is nil for the default one.
func pebbleFilter(t *testing.T, b []byte, c *sstable.Comparer, schema *colblk.KeySchema) []byte {
	t.Helper()
	fs := vfs.NewMem()
	file, err := fs.Create("table", vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = file.Write(b)
	must(t, err)
	must(t, file.Close())
	file, err = fs.Open("table")
	must(t, err)
	readable, err := sstable.NewSimpleReadable(file)
	must(t, err)
	var schemas sstable.KeySchemas
	if schema != nil {
		schemas = sstable.MakeKeySchemas(schema)
	}
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{
		Filters:  map[string]sstable.FilterPolicy{bloom.FilterPolicy(10).Name(): bloom.FilterPolicy(10)},
		Comparer: c, KeySchemas: schemas,
	})
	must(t, err)
	defer r.Close()
	layout, err := r.Layout()
	must(t, err)
	if len(layout.Filter) != 1 {
		t.Fatalf("%d filters, want 1", len(layout.Filter))
	}
	h := layout.Filter[0]
	return b[h.Offset:][:h.Length]
}

func TestPebbleAgrees(t *testing.T) {
	policy := bloom.FilterPolicy(10)
	for format := sstable.TableFormatPebblev1; format <= sstable.TableFormatMax; format++ {
		for _, c := range []struct {
			name    string
			options sstable.WriterOptions
		}{
			{"snappy", sstable.WriterOptions{}},
			{"none, XXH64", sstable.WriterOptions{
				Compression: block.NoCompression, Checksum: block.ChecksumTypeXXHash64,
			}},
			{"zstd, small index blocks", sstable.WriterOptions{
				Compression: block.ZstdCompression, IndexBlockSize: 1 << 10,
			}},
			{"minlz", sstable.WriterOptions{Compression: block.MinLZCompression}},
		} {
			t.Run(fmt.Sprintf("format %s, %s", format, c.name), func(t *testing.T) {
				c.options.TableFormat = format
				all := keys(*presents)
				b := pebbleTable(t, all, c.options)
				f := open(t, b, "000005.sst", all)
				want := fmt.Sprintf("Pebble %d", format-sstable.TableFormatPebblev1+1)
				if f.Store != foreign.Pebble || f.Format != want {
					t.Errorf("store %s, format %s, want %s", f.Store, f.Format, want)
				}
				if f.Entries != uint64(len(all)) {
					t.Errorf("%d entries by the properties, want %d", f.Entries, len(all))
				}
				bits := pebbleFilter(t, b, nil, nil)
				n := *absents
				last := c.name == "snappy" && format == sstable.TableFormatMax
				if !last {
					n = min(n, 10_000) // the filter is the same
				}
				r := compare(t, f, all, n, func(key []byte) bool {
					return policy.MayContain(sstable.TableFilter, bits, key)
				})
				if last {
					results["Pebble, Bloom, 10 bits"] = r
				}
			})
		}
		o := sstable.WriterOptions{TableFormat: format, BlockSize: 512}
		name := fmt.Sprintf("pebble%d.sst", format-sstable.TableFormatPebblev1+1)
		sample(t, name, pebbleTable(t, keys(sampleKeys), o))
	}
}

// TestPebblesPrefixesAreAsked has a comparer whose prefixes of keys, up to "@", are in the filter.
func TestPebblesPrefixesAreAsked(t *testing.T) {
	comparer := *sstable.DefaultComparer
	comparer.Name = "test.At"
	comparer.Split = func(key []byte) int {
		if n := bytes.IndexByte(key, '@'); n >= 0 {
			return n
		}
		return len(key)
	}
	schema := colblk.DefaultKeySchema(&comparer, 16)
	var all [][]byte
	for i, key := range keys(1000) {
		all = append(all, fmt.Appendf(nil, "%s@%d", key[:16], i%3), fmt.Appendf(nil, "%s@%d", key[:16], 3+i%3))
	}
	b := pebbleTable(t, all, sstable.WriterOptions{
		Comparer: &comparer, KeySchema: &schema, TableFormat: sstable.TableFormatMax,
	})
	f := open(t, b, "000005.sst", all)
	bits := pebbleFilter(t, b, &comparer, &schema)
	for i, key := range all {
		a, err := f.Ask(t.Context(), key)
		must(t, err)
		prefix := key[:comparer.Split(key)]
		if a.Found != "value" || !a.Asked || !a.Maybe ||
			!bloom.FilterPolicy(10).MayContain(sstable.TableFilter, bits, prefix) {
			t.Fatalf("key %q: %+v", key, a)
		}
		if a, err = f.Ask(t.Context(), absent(i)); err != nil || a.Found != "nothing" || a.Asked || a.Why == "" {
			t.Fatalf("an absent key: %+v, error %v", a, err)
		}
	}
	x, err := f.Examine(t.Context(), foreign.Limits{Blocks: 1000, Drawn: 1 << 20, Absent: 1 << 16})
	must(t, err)
	if x.Keys != 1000 || x.Entries != 2000 {
		t.Errorf("%d prefixes of %d keys, want 1000 of 2000", x.Keys, x.Entries)
	}
}

// pebbleSamples returns tables in Pebble's own directory of samples, among them one with an index of two levels.
func pebbleSamples(t *testing.T) map[string][]byte {
	t.Helper()
	const module = "github.com/cockroachdb/pebble/v2"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	must(t, err)
	names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "sstable", "testdata", "h-*", "*.sst"))
	must(t, err)
	if len(names) == 0 {
		t.Skip("Pebble has no samples")
	}
	all := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(t, err)
		all[filepath.Base(filepath.Dir(name))] = b
	}
	return all
}

func TestPebblesOwnSamplesAreRead(t *testing.T) {
	for name, b := range pebbleSamples(t) {
		f, err := foreign.Open(bytes.NewReader(b), int64(len(b)), name)
		must(t, err)
		n := 0
		must(t, f.EachKey(func(key []byte, _ bool) bool {
			n++
			if f.Filter != nil && f.Filter.Unread == "" {
				if maybe, err := f.MayContain(key); err != nil || !maybe {
					t.Errorf("%s: key %q: %v, %v", name, key, maybe, err)
				}
			}
			return true
		}))
		x, err := f.Examine(t.Context(), foreign.Limits{Blocks: 1 << 20, Drawn: 1 << 20, Absent: 1 << 16})
		must(t, err)
		t.Logf("%s: %s, %s, %d keys, filter %+v, %+v", name, f.Store, f.Format, n, f.Filter, x)
		if n == 0 || f.Entries != 0 && f.Entries != uint64(n) {
			t.Errorf("%s: %d keys, want %d", name, n, f.Entries)
		}
	}
}
