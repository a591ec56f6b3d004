package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/sstable"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/words"
)

// smallTable is a table of a few keys.
func smallTable(tb testing.TB, ribbon bool, keys ...string) []byte {
	tb.Helper()
	params, err := bloomblock.ParamsNested(0.05, 0.001)
	if ribbon {
		params, err = bloomblock.ParamsRibbon(0.05)
	}
	if err != nil {
		tb.Fatal(err)
	}
	var b bytes.Buffer
	w := sstable.NewWriter(&b, sstable.WriterOptions{ID: 7, Filter: params})
	for i, key := range keys {
		if err := w.Add(ikey.Key{User: []byte(key), Trailer: ikey.MakeTrailer(ikey.Seq(i+1), ikey.Set)}, []byte("value")); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// FuzzInspect: any file is an answer or an error that names it; nothing that is printed can drive a terminal.
func FuzzInspect(f *testing.F) {
	table := smallTable(f, false, "\x1b[2J", "a", "b\x00", "\xff")
	names := []string{"000001.sst", "000001.log", "MANIFEST-000001", "renamed"}
	for kind := range names {
		f.Add(table, uint8(kind), "a", false)
	}
	f.Add(smallTable(f, true, "a", "b"), uint8(0), "b", true)
	f.Add(table[:len(table)/2], uint8(0), "\x1b", true)
	f.Add([]byte(nil), uint8(0), "", false)
	f.Add([]byte("foreign"), uint8(0), "x", false)
	f.Add(bytes.Repeat([]byte{0}, 4096), uint8(1), "x", false)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file []byte, kind uint8, key string, repair bool) {
		if repair && len(file) >= footerBytes {
			file = bytes.Clone(file) // lets the fuzzer past the checksums
			reseal(file)
		}
		name := filepath.Join(dir, names[int(kind)%len(names)])
		if err := os.WriteFile(name, file, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"inspect", name, "--verify", "--hex", "--entries", "--key", string(words.AppendEscaped(nil, []byte(key)))},
			{"inspect", name, "--json", "--verify", "--key", string(words.AppendEscaped(nil, []byte(key)))},
		} {
			r := tool{}.run(t, args...)
			if r.code != exitOK && (r.code != exitTrouble || !strings.Contains(r.err, filepath.Base(name))) {
				t.Fatalf("%q: exit %d, %q", args, r.code, r.err)
			}
			for line := range strings.Lines(r.out + r.err) {
				if line = strings.TrimSuffix(line, "\n"); line != string(words.AppendPrintable(nil, []byte(line))) {
					t.Fatalf("%q: a line that could drive a terminal: %q", args, line)
				}
			}
		}
	})
}
