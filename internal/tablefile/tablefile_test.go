package tablefile

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

// TestAFileThatWasBeingOpenedWhenItsStoreClosedIsClosedToo makes a late reader, such as a scan, hang in the file
// system.
func TestAFileThatWasBeingOpenedWhenItsStoreClosedIsClosedToo(t *testing.T) {
	entered, gate, closed := make(chan struct{}), make(chan struct{}), 0
	mem := vfstest.NewMem()
	pool := NewPool(8)
	files := pool.NewDir(vfstest.NewHook(mem, func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpOpen:
			close(entered)
			<-gate
		case vfstest.OpClose:
			closed++
		default:
		}
		return nil
	}), ".", new(epoch.Domain))
	f := files.File(1)
	made, err := mem.Create(f.Path)
	must(t, err)
	must(t, made.Close())
	result := make(chan error)
	go func() {
		_, err := f.ReadAt(make([]byte, 1), 0)
		result <- err
	}()
	<-entered
	must(t, files.Close())
	close(gate)
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("the late reader got %v, want ErrClosed", err)
	}
	open, opening := pool.Usage()
	if _, n := files.Count(); n != 0 || closed != 1 || open != 0 || opening != 0 {
		t.Errorf("%d files stay open, %d were closed; the pool has %d, %d more are being opened",
			n, closed, open, opening)
	}
}

// TestDescriptorsStayWithinTheirLimit reads files in turn. The clock closes the one that was not read since it came by.
func TestDescriptorsStayWithinTheirLimit(t *testing.T) {
	opened := 0
	var closed atomic.Int64
	failure := errors.New("close")
	mem, pool := vfstest.NewMem(), NewPool(3)
	fsys := vfstest.NewHook(mem, func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpOpen:
			opened++
		case vfstest.OpClose:
			closed.Add(1)
			return failure
		default:
		}
		return nil
	})
	one, other := pool.NewDir(fsys, "one", new(epoch.Domain)), pool.NewDir(fsys, "other", new(epoch.Domain))
	must(t, errors.Join(mem.Mkdir("one"), mem.Mkdir("other")))
	var files []*File
	for i, d := range []*Dir{one, one, one, one, other} {
		f := d.File(uint64(i))
		made, err := mem.Create(f.Path)
		must(t, err)
		_, err = made.Write([]byte{'a' + byte(i)})
		must(t, errors.Join(err, made.Close()))
		files = append(files, f)
	}
	want := func(what string, open ...int) {
		t.Helper()
		one.Domain.Collect() // what was closed while its reader was inside
		other.Domain.Collect()
		one.closing.Wait()
		other.closing.Wait()
		for i, f := range files {
			if f.IsOpen() != slices.Contains(open, i) {
				t.Errorf("%s: file %d is open: %v", what, i, f.IsOpen())
			}
		}
		_, a := one.Count()
		_, b := other.Count()
		n, opening := pool.Usage()
		if n != len(open) || a+b != n || opening != 0 || opened-int(closed.Load()) != n {
			t.Errorf("%s: the pool has %d and opens %d, its stores have %d and %d; %d were opened, %d closed", what, n,
				opening, a, b, opened, closed.Load())
		}
	}
	for _, step := range []struct {
		read int
		open []int
	}{
		{0, []int{0}},
		{1, []int{0, 1}},
		{2, []int{0, 1, 2}},
		{3, []int{1, 2, 3}}, // all were read: the first one
		{2, []int{1, 2, 3}}, // the hand is at this file
		{4, []int{2, 3, 4}},
	} {
		b := []byte{0}
		if n, err := files[step.read].ReadAt(b, 0); err != nil || n != 1 || b[0] != 'a'+byte(step.read) {
			t.Errorf("file %d has %q: %v", step.read, b, err)
		}
		want(fmt.Sprint("after a read of ", step.read), step.open...)
	}
	if h, err := files[2].open(); err != nil || h != files[2].handle.Load() {
		t.Errorf("opened again: %v, %v; want what another reader has opened", h, err)
	}
	if _, err := one.File(9).ReadAt(nil, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read of a file that is absent: %v", err)
	}
	opened-- // which failed
	want("a descriptor was needed", 3, 4)
	if err := files[3].Close(); pool.open[0] != files[4] || !errors.Is(err, failure) {
		t.Errorf("Close of a file: %v, want the error of the system", err)
	}
	if _, err := files[3].ReadAt(nil, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
	want("a file was closed", 4)
	if _, err := files[0].ReadAt(nil, 0); err != nil {
		t.Error(err)
	}
	if err := one.Close(); !errors.Is(err, failure) {
		t.Errorf("Close of a store: %v, want the error of the system", err)
	}
	want("a store was closed", 4)
	if err := files[4].Close(); !errors.Is(err, failure) {
		t.Errorf("Close of the first file of the clock: %v, want the error of the system", err)
	}
	want("all were closed")
	for range 4 {
		pool.reserve()
	}
	if n, opening := pool.Usage(); n != 0 || opening != 4 {
		t.Errorf("%d descriptors, %d reserved; want 4, since no reader waits for another one's file system", n, opening)
	}
}

// TestNobodyWaitsForAnEvictedFileToCloseButItsStore has two stores share one descriptor, and the file system of one
// hang when a file is closed.
func TestNobodyWaitsForAnEvictedFileToCloseButItsStore(t *testing.T) {
	gate, mem, pool := make(chan struct{}), vfstest.NewMem(), NewPool(1)
	hangs := vfstest.NewHook(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpClose {
			<-gate
		}
		return nil
	})
	other, own := pool.NewDir(hangs, "other", new(epoch.Domain)), pool.NewDir(mem, "own", new(epoch.Domain))
	must(t, errors.Join(mem.Mkdir("other"), mem.Mkdir("own")))
	read := func(d *Dir, number uint64) {
		f := d.File(number)
		made, err := mem.Create(f.Path)
		must(t, err)
		_, err = made.Write([]byte{1})
		must(t, errors.Join(err, made.Close()))
		testkit.Within(t, "a read", func() { _, err = f.ReadAt(make([]byte, 1), 0) })
		must(t, err)
	}
	read(other, 1)
	read(other, 2) // evicts the first, which stays in the limbo of its readers
	read(own, 1)   // evicts the second, and releases both
	testkit.Within(t, "Close of the store whose files close", func() { must(t, own.Close()) })
	var closed atomic.Bool
	done := make(chan error, 1)
	go func() {
		err := other.Close()
		if !closed.Load() {
			err = errors.New("its files are open when Close returns")
		}
		done <- err
	}()
	time.AfterFunc(10*time.Millisecond, func() {
		closed.Store(true)
		close(gate)
	})
	must(t, <-done)
}
