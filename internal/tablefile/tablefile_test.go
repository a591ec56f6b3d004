package tablefile

import (
	"errors"
	"testing"

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
