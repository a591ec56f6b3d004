package tree

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

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
		FS: fsys, Dir: "db", Observer: o, Filters: manifest.Filters{FPR: 0.01, Ratio: 10},
		Shared: Shared{
			Domain: domain, Files: tablefile.NewPool(8).NewDir(fsys, "db", domain), Blocks: cache.New(1<<20, domain),
			Parts: sstable.NewPartPool(1 << 20),
		},
	})
	must(t, tree.Create(1, 7))
	tree.Begin(tree.FirstState(nil, 1<<16), 0)
	return tree, o
}

func locked(mu interface {
	TryLock() bool
	Unlock()
},
) bool {
	ok := mu.TryLock()
	if ok {
		mu.Unlock()
	}
	return !ok
}

// A reader of the list that does not find a pin has no version newer than the pin.
func TestAPinTakesItsSequenceUnderTheLockOfTheList(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	tree.Publish(3)
	reads := 0
	tree.SeqGate = func(read func() uint64) uint64 {
		reads++
		if !locked(&tree.snapshots.mu) || !locked(&tree.mu) {
			t.Error("the sequence of a pin is read without a lock")
		}
		return read()
	}
	p, err := tree.Pin()
	must(t, err)
	if got := tree.Pinned(); reads != 1 || len(got) != 1 || got[0] != 3 || p.Seq != 3 {
		t.Errorf("a pin at %d after %d readings, the list has %v, want 3", p.Seq, reads, got)
	}
	tree.SeqGate = nil

	// A pin that waits for the list includes what becomes visible while the list is locked.
	tree.snapshots.mu.Lock()
	taken := make(chan *Pin)
	go func() {
		p, err := tree.Pin()
		if err != nil {
			t.Error(err)
		}
		taken <- p
	}()
	for !locked(&tree.mu) { // the other goroutine has it, and waits for the list
		time.Sleep(time.Millisecond)
	}
	tree.Publish(4)
	tree.snapshots.mu.Unlock()
	if late := <-taken; late.Seq != 4 {
		t.Errorf("a pin at %d, want 4, which was visible before the pin was in the list", late.Seq)
	}
}

func TestWhatIsRecordedAndItsStateAreTakenBetweenTwoEdits(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	held := false
	gate := func() { held = locked(&tree.editMu) }
	tree.HoldGate.Store(&gate)
	recorded, s := tree.Recorded()
	if !held {
		t.Error("the state is taken without the lock of edits")
	}
	if s.Version != recorded.Version {
		t.Error("the state is of another version than what is recorded")
	}
	tree.Release(s)
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
