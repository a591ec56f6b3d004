package bloomkv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestAnInstallThatFailsLeavesNoTable(t *testing.T) {
	mem := vfstest.NewMem()
	fails := 3
	opts := storetest.Small(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen && strings.HasSuffix(op.Name, ".sst") && fails > 0 {
			fails--
			return errors.New("no descriptor is left")
		}
		return nil
	}))
	opts.TableSize = 16 << 10
	opts.Compression = bloomkv.CompressionNone
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	for i := range 20 {
		must(t, db.Put(fmt.Appendf(nil, "%04d", i), make([]byte, 1000)))
	}
	must(t, db.Flush(t.Context()))
	names, err := mem.List("db")
	must(t, err)
	tables := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			tables++
		}
	}
	if want := db.Metrics().Levels[0].Tables; tables != want || fails != 0 {
		t.Errorf("%d tables on the disk, want %d; %d failures to come, want 0", tables, want, fails)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestALargeManifestIsNotBegunAnewAtEveryEdit(t *testing.T) {
	manifests := 0
	opts := storetest.Small(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpCreate && strings.Contains(op.Name, "MANIFEST-") {
			manifests++
		}
		return nil
	}))
	opts.MemtableSize, opts.Durability = 2<<20, bloomkv.DurabilityNoSync
	db, err := bloomkv.Open("db", opts)
	must(t, err)
	key := bytes.Repeat([]byte("k"), 60_000) // bounds that fill a manifest
	for i := range 80 {
		must(t, db.Put(fmt.Appendf(key, "%04d", i), make([]byte, 20_000)))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	version := db.Recorded().Version
	if tables := len(version.Levels[bloomkv.Bottom][0].Tables); tables < 40 {
		t.Fatalf("%d bytes in %d tables, want 40", version.Bytes(bloomkv.Bottom), tables)
	}
	before := manifests
	for i := range 20 {
		must(t, db.Put(fmt.Appendf(nil, "%04d", i), nil))
		must(t, db.Flush(t.Context()))
	}
	if manifests-before > 3 {
		t.Errorf("%d manifests for some 25 small edits", manifests-before)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// asking is a slog.Handler that calls methods of the store at each record.
type asking struct {
	slog.Handler

	db    *bloomkv.DB
	heard int
}

func (a *asking) Enabled(context.Context, slog.Level) bool { return true }
func (a *asking) Handle(context.Context, slog.Record) error {
	if a.db != nil {
		a.heard++
		_ = a.db.Metrics()
	}
	return nil
}

// TestRunsThatDoNotChangeAreKept: a flush adds one run and keeps the others.
func TestRunsThatDoNotChangeAreKept(t *testing.T) {
	db, err := bloomkv.Open("db", &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync})
	must(t, err)
	defer func() { _ = db.Close() }()
	for i := range 3 {
		before := db.Tree().Load().Runs
		must(t, errors.Join(db.Put([]byte("k"), nil), db.Flush(t.Context())))
		if after := db.Tree().Load().Runs; len(after) != i+1 || !slices.Equal(after[1:], before) {
			t.Errorf("flush %d: the runs are not the previous ones and a new one", i+1)
		}
	}
}
