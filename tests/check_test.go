package tests

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A countdown is a context whose end comes when its Err is called for the nth time; never if n is 0.
type countdown struct {
	context.Context
	n, calls int
	each     func(call int) // nil, or called by Err
}

func (c *countdown) Err() error {
	c.calls++
	if c.each != nil {
		c.each(c.calls)
	}
	if c.n > 0 && c.calls >= c.n {
		return context.Canceled
	}
	return nil
}

// newCheckStore makes a store that was not closed: with tables on several levels, of which some must be compared key by
// key, since sequence numbers do not tell which is newer, and with a log. It returns options to open it.
func newCheckStore(t *testing.T) *bloomkv.Options {
	t.Helper()
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.Durability, o.Compactions = bloomkv.DurabilityNoSync, 1
	db := storetest.Open(t, "db", o)
	defer db.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 6_050 {
		must(t, db.Put(fmt.Appendf(nil, "key%05d", rng.IntN(6000)), fmt.Appendf(nil, "%090d", i)))
		if i%50 == 49 && i < 6000 { // so that each run makes the same tree
			must(t, db.Flush(t.Context()))
			storetest.Settle(t, db)
		}
	}
	must(t, db.Sync())
	o.FS = mem.Crash(vfstest.KeepNothing)
	return o
}

// TestCheckLooksAtItsContextWhereverItTakesLong ends the context in each function in which Check looks at it: at the
// first look and at the last.
func TestCheckLooksAtItsContextWhereverItTakesLong(t *testing.T) {
	o := newCheckStore(t)
	check := func(ctx context.Context) error {
		_, err := bloomkv.Check(ctx, "db", bloomkv.CheckOptions{FS: o.FS})
		return err
	}
	first, last := map[string]int{}, map[string]int{} // by function
	look := func(call int) {
		pcs := make([]uintptr, 30)
		frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
			if last[name] = call; first[name] == 0 {
				first[name] = call
			}
		}
	}
	must(t, check(&countdown{Context: t.Context(), each: look}))
	for _, name := range []string{
		"recovery.Load", "recovery.Listing.lookAt", "check.Tables", "sstable.(*Reader).Verify",
		"sstable.(*tableFile).readTail", "check.(*checker).suspects", "check.(*suspect).load", "check.(*checker).order",
		"recovery.(*Logs).Check",
	} {
		if first[name] == 0 {
			t.Errorf("never looked in %s", name)
			continue
		}
		for _, n := range []int{first[name], last[name]} {
			ctx := &countdown{Context: t.Context(), n: n}
			err := check(ctx)
			if !errors.Is(err, context.Canceled) || errors.Is(err, bloomkv.ErrCorruption) {
				t.Errorf("ended at look %d, in %s: %v", n, name, err)
			}
			if more := ctx.calls - n; more > 3 {
				t.Errorf("ended at look %d, in %s: looked %d more times", n, name, more)
			}
		}
	}
}

// damagedWithLog returns a file system with a store "db" that has a damaged table and a log.
func damagedWithLog(t *testing.T) *vfstest.Mem {
	t.Helper()
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	must(t, errors.Join(db.Put([]byte("a"), nil), db.Flush(t.Context()), db.Put([]byte("b"), nil)))
	killed := mem.Kill()
	must(t, db.Close())
	for _, table := range storetest.Recorded(t, killed, "db").Version.Tables() {
		storetest.Rewrite(t, killed, filename.Make("db", filename.Table, table.Number), func(b []byte) []byte {
			b[0]++
			return b
		})
	}
	return killed
}

// TestACheckOfDamageThatIsEndedSaysOnlyThat ends the context at each look of a check of a damaged table and a log.
func TestACheckOfDamageThatIsEndedSaysOnlyThat(t *testing.T) {
	killed := damagedWithLog(t)
	for n, ended := 1, true; ended; n++ {
		ctx := &countdown{Context: t.Context(), n: n}
		_, err := bloomkv.Check(ctx, "db", bloomkv.CheckOptions{FS: killed})
		ended = ctx.calls >= n
		if errors.Is(err, context.Canceled) != ended || errors.Is(err, bloomkv.ErrCorruption) == ended {
			t.Errorf("ended at look %d: %v", n, err)
		}
	}
}

// TestADiskThatFailsEndsACheckOfDamageAlone has a damaged table, and cannot look at it or read the log.
func TestADiskThatFailsEndsACheckOfDamageAlone(t *testing.T) {
	killed := damagedWithLog(t)
	failed := errors.New("the disk fails")
	for _, fails := range []struct {
		kind vfstest.OpKind // 0 if none does
		ext  string
	}{{}, {vfstest.OpStat, ".sst"}, {vfstest.OpReadAt, ".log"}} {
		_, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{
			FS: vfstest.NewHook(killed, func(op vfstest.Op) error {
				if op.Kind == fails.kind && filepath.Ext(op.Name) == fails.ext {
					return failed
				}
				return nil
			}),
		})
		if alone := fails.kind != 0; errors.Is(err, failed) != alone || errors.Is(err, bloomkv.ErrCorruption) == alone {
			t.Errorf("%+v fails: %v", fails, err)
		}
	}
}

// TestAFailureToReadEndsACheckAlone removes a table, which is damage, and cannot read another.
func TestAFailureToReadEndsACheckAlone(t *testing.T) {
	mem := vfstest.NewMem()
	_, _ = storetest.Layered(t, mem)
	var tables []string
	for _, table := range storetest.Recorded(t, mem, "db").Version.Tables() {
		tables = append(tables, filename.Make("db", filename.Table, table.Number))
	}
	must(t, mem.Remove(tables[0]))
	failed := errors.New("no read")
	fails := false
	check := func() (bloomkv.CheckReport, error) {
		return bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{
			FS: vfstest.NewHook(mem, func(op vfstest.Op) error {
				if fails && op.Kind == vfstest.OpReadAt && op.Name == tables[1] {
					return failed
				}
				return nil
			}),
		})
	}
	if report, err := check(); !errors.Is(err, bloomkv.ErrCorruption) || report.Tables != len(tables) {
		t.Errorf("%+v, %v; want %d tables, of which one is missing", report, err, len(tables))
	}
	fails = true
	report, err := check()
	if !errors.Is(err, failed) || errors.Is(err, bloomkv.ErrCorruption) {
		t.Errorf("%+v, %v; want %v alone", report, err, failed)
	}
}

// TestCheckOfAnOpenStoreStopsSoon ends the context at each call of progress by DB.Check.
// TestADirectoryInPlaceOfATableIsDamage has another table that is missing, which is not hidden by it.
func TestADirectoryInPlaceOfATableIsDamage(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", &bloomkv.Options{FS: mem})
	for range 2 {
		must(t, db.Put([]byte("key"), nil))
		must(t, db.Flush(t.Context()))
	}
	tables := db.Tables()
	must(t, db.Close())
	for _, table := range tables {
		must(t, mem.Remove(filepath.Join("db", table.File)))
	}
	must(t, mem.Mkdir(filepath.Join("db", tables[0].File)))
	_, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: mem})
	for _, table := range tables {
		if !errors.Is(err, bloomkv.ErrCorruption) || !strings.Contains(err.Error(), table.File) {
			t.Errorf("%v, want that %s is damaged", err, table.File)
		}
	}
}

func TestCheckNamesTheDirectory(t *testing.T) {
	_, err := bloomkv.Check(t.Context(), "none", bloomkv.CheckOptions{FS: vfstest.NewMem()})
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "bloomkv: check none: ") {
		t.Errorf("got %v, want the directory, and that it does not exist", err)
	}
}

// TestCheckAndCheckpointLetTheirTablesGo rewrites all tables afterwards.
func TestCheckAndCheckpointLetTheirTablesGo(t *testing.T) {
	db := storetest.OpenTiny(t)
	defer db.Close()
	must(t, db.Put([]byte("key"), []byte("value")))
	must(t, db.Checkpoint(t.Context(), "copy"))
	_, err := db.Check(t.Context(), bloomkv.CheckOptions{})
	must(t, err)
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}))
	testkit.Soon(t, "no table is kept", func() bool { return db.Metrics().Files.Obsolete == 0 })
}

func TestCheckOfAnOpenStoreStopsSoon(t *testing.T) {
	o := newCheckStore(t)
	o.ReadOnly = true // its tables stay the same
	db := storetest.Open(t, "db", o)
	defer db.Close()
	var done []uint64
	report, err := db.Check(t.Context(), bloomkv.CheckOptions{Progress: func(n, total uint64) {
		if n > total || len(done) > 0 && n < done[len(done)-1] {
			t.Errorf("progress: %d of %d after %d", n, total, done)
		}
		done = append(done, n)
	}})
	if err != nil || len(done) < report.Tables || done[len(done)-1] != report.Bytes {
		t.Errorf("%+v, %v, progress %d", report, err, done)
	}
	for n := range done {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		_, err := db.Check(ctx, bloomkv.CheckOptions{Progress: func(uint64, uint64) {
			if calls++; calls == n+1 {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) || calls != n+1 {
			t.Errorf("ended at call %d of progress: %v, %d calls", n+1, err, calls)
		}
	}
}

// TestCheckFindsAByteThatFlipsWhileTheStoreIsOpen flips bytes of loaded and cached tables, one at a time, and restores
// them.
func TestCheckFindsAByteThatFlipsWhileTheStoreIsOpen(t *testing.T) {
	mem := vfstest.NewMem()
	o, want := storetest.Layered(t, mem)
	db := storetest.Open(t, "db", o)
	defer db.Close()
	if got, err := storetest.Contents(db); err != nil || storetest.Diff(got, want) != "" {
		t.Fatal(err, storetest.Diff(got, want))
	}
	var names []string
	for _, table := range db.Tables() {
		names = append(names, table.File)
	}
	for i, name := range names {
		for _, at := range []int{0, 1, 2, 3} { // beginning, middle, filter and tail
			flip := func(b []byte) []byte {
				b[[]int{3, len(b) / 3, len(b) * 2 / 3, len(b) - 90}[at]] ^= 1 << (i % 8)
				return b
			}
			storetest.Rewrite(t, mem, filepath.Join("db", name), flip)
			_, err := db.Check(t.Context(), bloomkv.CheckOptions{})
			var damage *bloomkv.CorruptionError
			if !errors.As(err, &damage) || damage.File != name {
				t.Errorf("%s, position %d: %v, want damage in this file", name, at, err)
			}
			storetest.Rewrite(t, mem, filepath.Join("db", name), flip)
		}
	}
	report, err := db.Check(t.Context(), bloomkv.CheckOptions{})
	if err != nil || report.Tables != len(names) {
		t.Errorf("all bytes restored: %+v, %v, want %d tables", report, err, len(names))
	}
}
