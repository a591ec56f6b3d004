package bloomkv

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
)

func TestApproximateSizesAddUp(t *testing.T) {
	mem := vfs.NewMem()
	o := tiny(mem)
	o.Compression, o.Durability = NoCompression, NoSync
	db, err := Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
	const n = 3000
	for i := range n {
		if err := db.Put(key(i*7919%n), []byte(strings.Repeat("v", 100))); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	size := func(lo, hi []byte) int64 {
		t.Helper()
		s, err := db.ApproximateSize(lo, hi)
		if err != nil {
			t.Fatal(err)
		}
		return int64(s)
	}
	tree := int64(0)
	for _, l := range db.Metrics().Levels {
		tree += int64(l.Bytes)
	}
	whole := size(nil, nil)
	if whole != tree {
		t.Errorf("the whole is %d bytes, the tables have %d", whole, tree)
	}
	if s := size(key(10), key(10)); s != 0 {
		t.Errorf("an empty range has %d bytes", s)
	}
	if s := size(key(20), key(10)); s != 0 {
		t.Errorf("an inverted range has %d bytes", s)
	}
	last := int64(0)
	for i := 0; i <= n; i += 100 {
		up, down := size(nil, key(i)), size(key(i), nil)
		if up < last || up+down > whole+whole/50 || up+down < whole-whole/10 {
			t.Errorf("at %d: %d and %d of %d bytes, before it %d", i, up, down, whole, last)
		}
		if want := whole * int64(i) / n; up < want-whole/20 || up > want+whole/20 {
			t.Errorf("at %d: %d bytes, want about %d", i, up, want)
		}
		last = up
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ApproximateSize(nil, nil); err != ErrClosed { //nolint:errorlint // it is returned bare
		t.Errorf("after Close: %v", err)
	}
}

// TestCheckFindsDamageInAnOpenStore damages one table of a store that is in use.
func TestCheckFindsDamageInAnOpenStore(t *testing.T) {
	d := newDamageStore(t, true)
	db, err := Open("db", d.options(d.fs))
	if err != nil {
		t.Fatal(err)
	}
	report, err := db.Check(t.Context())
	if err != nil || report.Tables == 0 || report.Entries == 0 {
		t.Errorf("a whole store: %+v, %v", report, err)
	}
	file := filepath.Base(db.state.Load().runs[0].tables[0].file.base)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, err = Open("db", d.options(d.damaged(t, file, func(b []byte) []byte { b[len(b)/3] ^= 1; return b })))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Check(t.Context())
	var c *CorruptionError
	if !errors.As(err, &c) || c.File != file {
		t.Errorf("a damaged store: %v, want damage in %s", err, file)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Check(t.Context()); err != ErrClosed { //nolint:errorlint // it is returned bare
		t.Errorf("after Close: %v", err)
	}
}
