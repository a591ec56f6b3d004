package tree

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

type observer struct{ causes []error }

func (o *observer) ReadOnly(cause error) { o.causes = append(o.causes, cause) }

// newTree returns an empty tree, already begun, in a directory of fsys.
func newTree(t *testing.T, fsys vfs.FS) (*Tree, *observer) {
	t.Helper()
	must(t, fsys.Mkdir("db"))
	o, domain := new(observer), new(epoch.Domain)
	tree := New(Config{
		FS: fsys, Dir: "db", Failed: o.ReadOnly, Filters: manifest.Filters{FPR: 0.01, Ratio: 10},
		Shared: Shared{
			Domain: domain, Files: tablefile.NewPool(8).NewDir(fsys, "db", domain), Blocks: cache.New(1<<20, domain),
			Parts: sstable.NewPartPool(1 << 20),
		},
	})
	must(t, tree.Create(1, 7))
	tree.Begin(tree.FirstState(nil, 1<<16), 0)
	return tree, o
}

func TestAFailureIsKeptAndToldOnce(t *testing.T) {
	tree, o := newTree(t, vfstest.NewMem())
	first, second := errors.New("first"), errors.New("second")
	for _, cause := range []error{first, second} {
		if err := tree.Fail(cause); !errors.Is(err, first) || errors.Is(err, second) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("got %v, want ErrReadOnly with the first cause", err)
		}
	}
	tree.mu.Lock() // each write calls Writable, which must not wait
	if err := tree.Writable(); !errors.Is(err, first) {
		t.Errorf("writable: %v, want the first cause", err)
	}
	tree.mu.Unlock()
	if len(o.causes) != 1 || !errors.Is(o.causes[0], first) {
		t.Errorf("the observer was called with %v, want the first cause", o.causes)
	}
	unfit := &manifest.Edit{Deleted: []manifest.Deleted{{Number: 9}}}
	if err := tree.Record(unfit); err == nil || errors.Is(err, first) {
		t.Errorf("an edit that does not fit: %v", err)
	}
	if err := tree.Record(&manifest.Edit{}); !errors.Is(err, first) {
		t.Errorf("record: %v, want the first cause", err)
	}
	if !tree.Close() {
		t.Error("the first Close returns false")
	}
	if err := tree.Writable(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
	if tree.Close() {
		t.Error("the second Close returns true")
	}
}

func TestConditionsAreLookedAtAgainAfterEachChange(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	frozen := make(chan error)
	go func() {
		frozen <- tree.Wait(t.Context(), func(v View) bool { return v.Flushing.Mem != nil && len(v.State.Frozen) == 1 })
	}()
	tree.Freeze(nil, 5, batch.Mark{}, 1<<16)
	if err := <-frozen; err != nil {
		t.Error(err)
	}
	if v := tree.View(); v.Flushing.Last != 5 || v.State.Mem == v.Flushing.Mem {
		t.Errorf("the frozen memtable ends at %d, want 5", v.Flushing.Last)
	}
	old, now, _, err := tree.Install(&manifest.Edit{LastSeq: 5}, nil, Change{Flushed: true, Seq: 6})
	must(t, err)
	v := tree.View()
	if v.Flushing.Mem != nil || len(now.Frozen) != 0 || len(old.Frozen) != 1 || tree.NewestSeq() != ikey.Seq(6) {
		t.Errorf("after the flush: %v waits, %d and before %d are in the state, the newest sequence is %d",
			v.Flushing, len(now.Frozen), len(old.Frozen), tree.NewestSeq())
	}
}

// TestAManifestOfManyEditsStaysSmall records 50,000 edits: each Open reads the whole manifest.
func TestAManifestOfManyEditsStaysSmall(t *testing.T) {
	fsys := vfstest.NewMem()
	tree, _ := newTree(t, fsys)
	most := int64(0)
	for range 50_000 {
		must(t, tree.Record(&manifest.Edit{}))
		info, err := fsys.Stat(filename.Make("db", filename.Manifest, tree.recorded.ManifestNumber))
		must(t, err)
		most = max(most, info.Size())
	}
	if want := int64(256 << 10); most < want || most > want+1000 {
		t.Errorf("a manifest of up to %d bytes, want about %d", most, want)
	}
}

// TestWritesAreRefusedBeforeCallsEnd closes a tree whose lock is held: neither a call nor a write may find it closed.
func TestWritesAreRefusedBeforeCallsEnd(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	call := func() error { return tree.Call(t.Context(), func(context.Context) error { return nil }) }
	tree.mu.Lock()
	closed := make(chan bool)
	go func() { closed <- tree.Close() }()
	for range 1000 {
		runtime.Gosched()
		if err := call(); err != nil && tree.Writable() == nil {
			t.Errorf("a call returns %v, but writes are not refused", err)
			break
		}
	}
	tree.mu.Unlock()
	if first, again := <-closed, tree.Close(); !first || again {
		t.Errorf("the first Close returns %v, the second %v, want true and false", first, again)
	}
	if err := call(); !errors.Is(err, ErrClosed) || !errors.Is(tree.Writable(), ErrClosed) {
		t.Errorf("after Close, a call returns %v, and writes get %v, want ErrClosed", err, tree.Writable())
	}
	tree.WaitForCalls()
}

func TestANewManifestTakesThePlaceOfTheOneBefore(t *testing.T) {
	fsys := vfstest.NewMem()
	tree, _ := newTree(t, fsys)
	for range 3 {
		must(t, tree.RenewManifest(tree.Load()))
		names, err := fsys.List("db")
		must(t, err)
		want := filename.Make("", filename.Manifest, tree.recorded.ManifestNumber)
		if !slices.Equal(names, []string{"CURRENT", want}) {
			t.Errorf("the files are %q, want CURRENT and %s", names, want)
		}
	}
}

func TestATreeWithoutAManifestIsNotCreated(t *testing.T) {
	fsys, o := vfstest.NewMem(), new(observer)
	must(t, fsys.Mkdir("db"))
	full := vfstest.NewHook(fsys, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpCreate {
			return syscall.ENOSPC
		}
		return nil
	})
	tree := New(Config{FS: full, Dir: "db", Failed: o.ReadOnly, Filters: manifest.Filters{FPR: 0.01, Ratio: 10}})
	if err := tree.Create(1, 7); !errors.Is(err, syscall.ENOSPC) || !errors.Is(tree.Writable(), ErrReadOnly) {
		t.Errorf("%v, writes: %v", err, tree.Writable())
	}
}

func TestTheContextOfACallEndsWithIt(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	var kept context.Context
	must(t, tree.Call(t.Context(), func(ctx context.Context) error {
		kept = ctx
		return ctx.Err()
	}))
	if kept.Err() == nil {
		t.Error("the context of a call goes on after it")
	}
}

func TestPinnedSequencesAreThoseOfThePresentTables(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	pin := func(seq ikey.Seq) *Pin {
		tree.Publish(seq)
		p, err := tree.Pin()
		must(t, err)
		return p
	}
	want := func(seqs ...ikey.Seq) {
		t.Helper()
		if got := tree.Pinned(); !slices.Equal(got, seqs) {
			t.Errorf("pinned are %d, want %d", got, seqs)
		}
	}
	flush := func(last ikey.Seq) {
		_, _, _, err := tree.Install(&manifest.Edit{LastSeq: last}, nil, Change{})
		must(t, err)
	}
	early := pin(2)
	tree.Publish(3)
	before := tree.changes
	must(t, tree.Unpin(early))
	if tree.changes != before {
		t.Error("waiting compactions are woken, though no table has a newer write than the pin")
	}
	first, second, later := pin(3), pin(3), pin(5)
	flush(5)
	want(3, 5)
	before = tree.changes
	must(t, tree.Unpin(first))
	want(3, 5)
	if tree.changes != before {
		t.Error("waiting compactions are woken, though another pin keeps the same")
	}
	must(t, tree.Unpin(second))
	want(5)
	if tree.changes == before {
		t.Error("waiting compactions are not woken")
	}
	before = tree.changes
	must(t, tree.Unpin(later))
	if want(); tree.changes != before {
		t.Error("waiting compactions are woken, though nothing is newer than the pin")
	}
	later = pin(5)
	_, _, _, err := tree.Install(&manifest.Edit{}, nil, Change{Replace: true})
	must(t, err)
	want()
	newest := pin(7)
	want(7)
	kept := later.Kept.Load()
	if count, opened := tree.OldestPin(); count != 2 || opened != later.Opened || newest.Kept.Load() != nil {
		t.Errorf("%d pins are open, the oldest since %v; want 2, since %v", count, opened, later.Opened)
	}
	_, _, _, err = tree.Install(&manifest.Edit{}, nil, Change{Replace: true})
	must(t, err)
	if later.Kept.Load() != kept || newest.Kept.Load() == nil {
		t.Error("after two replacements a pin does not keep the state before the first one")
	}
	must(t, tree.Unpin(later))
	must(t, tree.Unpin(newest))
	want()
	if err := tree.Unpin(newest); !errors.Is(err, ErrClosed) {
		t.Errorf("the second Unpin returns %v, want ErrClosed", err)
	}
}

func TestFreshTablesAreAtTheirLevel(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	added := func(level int, number uint64) manifest.Added {
		return manifest.Added{Level: level, Run: 1, Table: &manifest.Table{Number: number}}
	}
	e := &manifest.Edit{Added: []manifest.Added{added(3, 5), added(4, 6)}}
	e.Deleted = []manifest.Deleted{{Number: 6}}
	fresh := tree.Fresh(e)
	if len(fresh) != 1 || fresh[0].Meta.Number != 5 || fresh[0].Level.Load() != 3 {
		t.Errorf("%d fresh tables, want number 5 at level 3: the other one only moves", len(fresh))
	}
}

func TestTheManifestIsClosedAndItsLockIsFree(t *testing.T) {
	fsys := vfstest.NewMem()
	tree, _ := newTree(t, fsys)
	must(t, tree.CloseManifest(tree.End()))
	if !tree.editMu.TryLock() {
		t.Error("the lock is held")
	}
	if tree.recorded.Version.NumTables() > 0 {
		t.Error("the list of tables is kept")
	}
}

func TestNumbersAreReservedAheadOfTheManifestsOwn(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	for range 3 {
		if got, want := tree.recorded.NextFile, tree.recorded.ManifestNumber+1+NumbersAhead; got != want {
			t.Errorf("the manifest covers the numbers below %d, want %d", got, want)
		}
		if n, err := tree.NewNumber(); err != nil || n <= tree.recorded.ManifestNumber {
			t.Errorf("after manifest %d a file has the number %d, %v", tree.recorded.ManifestNumber, n, err)
		}
		must(t, tree.RenewManifest(nil))
	}
}

// TestAManifestNeedsABlockWhereItsLastOneHasLittleSpace appends edits over several blocks of 4 KiB.
func TestAManifestNeedsABlockWhereItsLastOneHasLittleSpace(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	seen := map[int64]bool{}
	for tree.manifest.Size() < 10<<10 {
		must(t, tree.Record(&manifest.Edit{}))
		left, want := 4<<10-tree.manifest.Size()%(4<<10), int64(0)
		if left < 1<<10 {
			want = 4 << 10
		}
		_, tail := tree.ManifestSpace()
		if seen[tail] = true; tail != want {
			t.Fatalf("%d bytes of the last block are left: it needs %d, want %d", left, tail, want)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the space that is needed is always the same: %v", seen)
	}
	unused := New(Config{})
	unused.Recover(manifest.State{Version: &manifest.Version{}})
	if _, tail := unused.ManifestSpace(); tail != 0 {
		t.Errorf("without a manifest it needs %d bytes", tail)
	}
}

// TestTheSpaceOfAManifestIsMeasuredOnce asks for it while nothing changes, and after tables and a mark were added.
func TestTheSpaceOfAManifestIsMeasuredOnce(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	before, _ := tree.ManifestSpace()
	if n := testing.AllocsPerRun(10, func() { tree.ManifestSpace() }); n > 0 {
		t.Errorf("%v allocations without a change", n)
	}
	long := make([]byte, 1000)
	table := &manifest.Table{Number: 50, Size: 100, Entries: 1, Smallest: long, Largest: long}
	mark := batch.Mark{Seq: 1, Bytes: long[:batch.MaxMark]}
	must(t, tree.Record(&manifest.Edit{Added: []manifest.Added{{Level: 1, Run: 50, Table: table}}}))
	must(t, tree.Record(&manifest.Edit{LastSeq: 1}))
	must(t, tree.RecordLog(manifest.LogMark{Number: 60}))
	must(t, tree.Record(&manifest.Edit{Mark: mark}))
	after, _ := tree.ManifestSpace()
	if whole := int64(len(manifest.AppendEdit(nil, tree.recorded.Snapshot()))); after < whole || after < before+2000 {
		t.Errorf("%d bytes are needed, and %d before; the snapshot has %d", after, before, whole)
	}
	must(t, tree.CloseManifest(nil))
	if tree.measured != nil {
		t.Error("a closed store keeps its tables")
	}
}

// TestAnEditThatIsTooLargeIsInANewManifest has the manifest refuse an edit, as one with the bounds of thousands of
// tables with long keys.
func TestAnEditThatIsTooLargeIsInANewManifest(t *testing.T) {
	refuse := false
	tree, o := newTree(t, vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if refuse && op.Kind == vfstest.OpWrite {
			refuse = false
			return manifest.ErrTooLarge
		}
		return nil
	}))
	number := tree.recorded.ManifestNumber
	for _, refuse = range []bool{true, false} {
		must(t, tree.Record(&manifest.Edit{LastSeq: tree.recorded.LastSeq + 1}))
	}
	s, err := manifest.Load(tree.FS, "db")
	must(t, err)
	if s.ManifestNumber == number || s.LastSeq != 2 || len(o.causes) > 0 {
		t.Errorf("%+v after manifest %d, failures %v", s, number, o.causes)
	}
}

func TestAFlushDoesNotSetAnOlderMark(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	tree.SetMark(batch.Mark{Seq: 5, Bytes: []byte("new")})
	tree.Publish(5)
	e := &manifest.Edit{LastSeq: 3, Mark: batch.Mark{Seq: 3, Bytes: []byte("old")}}
	_, _, _, err := tree.Install(e, nil, Change{Flushed: true})
	must(t, err)
	if m := tree.Mark(); m.Seq != 5 {
		t.Errorf("the mark is %q of sequence %d, want the newest", m.Bytes, m.Seq)
	}
}

// TestOnlyATreeThatIsWellRenewsItsManifest closes one that has failed, and one without a state.
func TestOnlyATreeThatIsWellRenewsItsManifest(t *testing.T) {
	for _, c := range []struct{ failed, last, renewed bool }{
		{false, true, true}, {true, true, false}, {false, false, false},
	} {
		tree, _ := newTree(t, vfstest.NewMem())
		number := tree.recorded.ManifestNumber
		if c.failed {
			_ = tree.Fail(errors.New("cause"))
		}
		last := tree.End()
		if !c.last {
			last = nil
		}
		must(t, tree.CloseManifest(last))
		if renewed := tree.recorded.ManifestNumber != number; renewed != c.renewed {
			t.Errorf("failed %v, with a state %v: renewed %v, want %v", c.failed, c.last, renewed, c.renewed)
		}
	}
}

func TestAFileThatCannotBeRemovedIsTriedAgain(t *testing.T) {
	mem := vfstest.NewMem()
	failing := false
	tree, _ := newTree(t, vfstest.NewHook(mem, func(op vfstest.Op) error {
		if failing && op.Kind == vfstest.OpRemove {
			return syscall.EBUSY
		}
		return nil
	}))
	if err := tree.Remove("db/none"); !errors.Is(err, fs.ErrNotExist) || len(tree.left) > 0 {
		t.Errorf("a file that is not there: %v, %q are left", err, tree.left)
	}
	must(t, vfs.WriteFileAtomic(mem, "db", "tmp", "busy", nil))
	failing = true
	if err := tree.Remove("db/busy"); !errors.Is(err, syscall.EBUSY) || !slices.Equal(tree.left, []string{"db/busy"}) {
		t.Errorf("a busy file: %v, %q are left", err, tree.left)
	}
	failing = false
	tree.RemoveLeft()
	if _, err := mem.Stat("db/busy"); !errors.Is(err, fs.ErrNotExist) || len(tree.left) > 0 {
		t.Errorf("a file that was busy: %v, %q are left", err, tree.left)
	}
}
