package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// crashes collects what crashes before each changing operation leave, while it is armed.
type crashes struct {
	armed atomic.Bool
	mu    sync.Mutex
	mem   *vfstest.Mem
	found []crashImage
}

type crashImage struct {
	fs   *vfstest.Mem
	what string
}

func (c *crashes) hook(op vfstest.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed.Load() || !op.Kind.Changes() {
		return nil
	}
	at := func(kind string) string { return fmt.Sprintf("before operation %d (%s), %s", len(c.found), op, kind) }
	seed := uint64(len(c.found))
	c.found = append(c.found,
		crashImage{c.mem.Kill(), at("process death")},
		crashImage{c.mem.Crash(vfstest.KeepNothing), at("nothing kept")},
		crashImage{c.mem.Crash(vfstest.KeepAll), at("all kept")},
		crashImage{c.mem.Crash(vfstest.KeepSome(seed, 50)), at("half kept")})
	return nil
}

// take ends the collection and returns what was collected.
func (c *crashes) take() []crashImage {
	c.armed.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.found
	c.found = nil
	return found
}

// sources returns the streams of a store, whole and since the whole one, and what they contain. The second needs the
// first.
func sources(t *testing.T) (whole, more []byte, first, second map[string]string) {
	t.Helper()
	db, want := grown(t, vfstest.NewMem())
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{})) // so that no follower compacts
	storetest.Settle(t, db)
	whole, first = exported(t, db, bloomkv.ExportOptions{}), maps.Clone(want)
	has, err := bloomkv.ReadInventory(bytes.NewReader(whole))
	must(t, err)
	for i := range 50 {
		must(t, db.Put(fmt.Appendf(nil, "new%03d", i), []byte("v")))
		want[fmt.Sprintf("new%03d", i)] = "v"
	}
	more = exported(t, db, bloomkv.ExportOptions{Since: has})
	must(t, db.Close())
	return whole, more, first, want
}

// TestACrashDuringAnImportIntoAnOpenStoreLeavesTheOldStoreOrTheNew imports a whole export, then an incremental one.
func TestACrashDuringAnImportIntoAnOpenStoreLeavesTheOldStoreOrTheNew(t *testing.T) {
	whole, more, first, second := sources(t)
	mem := vfstest.NewMem()
	c := crashes{mem: mem}
	db, old := grown(t, vfstest.NewHook(mem, c.hook)) // with writes in memory
	must(t, storetest.PutWith(db, bloomkv.DurabilitySync, []byte("own"), []byte("v")))
	old["own"] = "v"
	storetest.Settle(t, db)
	for _, step := range []struct {
		stream      []byte
		before, now map[string]string
	}{{whole, old, first}, {more, first, second}} {
		c.armed.Store(true)
		must(t, db.Import(t.Context(), bytes.NewReader(step.stream), bloomkv.ImportOptions{Replace: true}))
		must(t, c.hook(vfstest.Op{Kind: vfstest.OpSync})) // after the last one
		found := c.take()
		must(t, holds(mem.Crash(vfstest.KeepNothing), "db", step.now))
		olds, news := 0, 0
		for i, s := range found {
			if i%(20/storetest.AtStride(20)) > 0 {
				continue
			}
			before, after := holds(s.fs.Kill(), "db", step.before), error(nil)
			if before != nil {
				after = holds(s.fs, "db", step.now)
				news++
			} else {
				olds++
			}
			if after != nil {
				t.Fatalf("%s: neither the old store: %v\nnor the new one: %v", s.what, before, after)
			}
		}
		t.Logf("%d states with the old store, %d with the new one", olds, news)
		if storetest.AtStride(20) == 20 && (olds == 0 || news == 0) {
			t.Error("want some of both")
		}
	}
	must(t, db.Close())
}

func TestACrashDuringAnImportLeavesTheWholeStoreOrNone(t *testing.T) {
	whole, more, first, second := sources(t)
	mem := vfstest.NewMem()
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(whole), "base", bloomkv.NewStoreOptions{FS: mem}))
	for _, step := range []struct {
		stream []byte
		base   string
		want   map[string]string
	}{{whole, "", first}, {more, "base", second}} {
		c := crashes{mem: mem.Kill()}
		c.armed.Store(true)
		o := bloomkv.NewStoreOptions{FS: vfstest.NewHook(c.mem, c.hook), Base: step.base}
		must(t, bloomkv.Import(t.Context(), bytes.NewReader(step.stream), "copy", o))
		found := c.take()
		must(t, holds(c.mem.Crash(vfstest.KeepNothing), "copy", step.want))
		wholes := 0
		for i, s := range found {
			if i%(20/storetest.AtStride(20)) > 0 {
				continue
			}
			there, err := wholeOrNone(s.fs, step.want)
			if err != nil {
				t.Fatalf("%s: %v", s.what, err)
			}
			if there {
				wholes++
			}
			if step.base != "" {
				must(t, holds(s.fs, "base", first))
			}
		}
		t.Logf("%d of %d states have a store", wholes, len(found))
		if storetest.AtStride(20) == 20 && (wholes == 0 || wholes > len(found)/2) {
			t.Errorf("%d of %d states have a store, want a few", wholes, len(found))
		}
	}
}

// TestEveryFailedOperationOfAnImportLeavesTheStoreAsItWas fails each operation in turn.
func TestEveryFailedOperationOfAnImportLeavesTheStoreAsItWas(t *testing.T) {
	whole, more, first, second := sources(t)
	source := vfstest.NewMem()
	must(t, bloomkv.Import(t.Context(), bytes.NewReader(whole), "db", bloomkv.NewStoreOptions{FS: source}))
	for _, kind := range []fault{
		{"EIO once", syscall.EIO, 1, vfstest.OpKind.Changes},
		{"EIO from then on", syscall.EIO, forEver, vfstest.OpKind.Changes},
		{"a full disk from then on", syscall.ENOSPC, forEver, needsSpace},
	} {
		t.Run(kind.name, func(t *testing.T) {
			at := int64(0)
			for done := false; !done; at += int64(5 / storetest.AtStride(5)) {
				f := &faulty{fault: kind, first: at}
				var err error
				if done, err = failedImport(source.Kill(), f, more, first, second); err != nil {
					t.Fatalf("operation %d, %v: %v", at, f.where.Load(), err)
				}
			}
			if at < 5 {
				t.Errorf("only %d operations failed", at)
			}
		})
	}
}

// failedImport imports under a fault; done is true if the fault did not strike.
func failedImport(mem *vfstest.Mem, f *faulty, stream []byte, old, now map[string]string) (done bool, err error) {
	var armed atomic.Bool
	db, err := bloomkv.Open("db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if !armed.Load() {
			return nil
		}
		return f.hook(op)
	})))
	if err != nil {
		return false, err
	}
	for m := db.Metrics(); !m.Warm || !m.Settled; m = db.Metrics() {
	}
	names, err := mem.List("db")
	if err != nil {
		return false, err
	}
	armed.Store(true)
	failed := db.Import(context.Background(), bytes.NewReader(stream), bloomkv.ImportOptions{Replace: true})
	armed.Store(false)
	want := old
	if failed == nil {
		want = now
	} else if !f.struck.Load() || !errors.Is(failed, f.err) {
		return false, fmt.Errorf("%w, which is not the cause", failed)
	}
	if err := contains(db, want); err != nil {
		return false, err
	}
	// A failure that did not make the store read-only leaves nothing, unless files cannot be removed.
	writable := db.Put([]byte("k"), nil) == nil
	if writable {
		if err := db.Delete([]byte("k")); err != nil {
			return false, err
		}
	}
	if failed != nil && writable && (f.last == 1 || errors.Is(f.err, syscall.ENOSPC)) {
		after, err := mem.List("db")
		if tables(after) != tables(names) {
			return false, fmt.Errorf("left %q, %w, want %q", after, err, names)
		}
	}
	if err := db.Close(); err != nil && writable {
		return false, err
	}
	err = holds(mem.Kill(), "db", want)
	if err != nil && failed != nil && !writable { // the edit may be in the manifest
		err = holds(mem, "db", now)
	}
	return !f.struck.Load(), err
}

// tables returns the names of tables, joined.
func tables(names []string) string {
	var all []string
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") {
			all = append(all, n)
		}
	}
	return strings.Join(all, " ")
}
