package tablefile

import (
	"errors"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestAFileThatWasBeingOpenedWhenItsStoreClosedIsClosedToo makes a late reader, such as a scan, hang in the file
// system.
func TestAFileThatWasBeingOpenedWhenItsStoreClosedIsClosedToo(t *testing.T) {
	entered, gate, closed := make(chan struct{}), make(chan struct{}), 0
	mem := vfs.NewMem()
	pool := NewPool(8)
	files := pool.NewDir(vfs.NewHook(mem, func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpOpen:
			close(entered)
			<-gate
		case vfs.OpClose:
			closed++
		default:
		}
		return nil
	}), ".", new(epoch.Domain))
	f := files.File(1)
	made, err := mem.Create(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		_, err := f.ReadAt(make([]byte, 1), 0)
		result <- err
	}()
	<-entered
	if err := files.Close(); err != nil {
		t.Error(err)
	}
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

func TestAMappingNeedsNoDescriptor(t *testing.T) {
	mem := vfs.NewMem()
	d := new(epoch.Domain)
	files := NewPool(1).NewDir(mem, ".", d)
	var of [2]*File
	for i := range of {
		of[i] = files.File(uint64(i) + 1)
		made, err := mem.Create(of[i].Path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := made.Write([]byte{'a' + byte(i), 'b', 'c'}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(f *File) {
		if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
			t.Error(err)
		}
	}
	if b := of[0].Mapped(0, 1, false); b != nil {
		t.Errorf("a file that is not open is in memory: %q", b)
	}
	read(of[0])
	b := of[0].Mapped(0, 2, true)
	if string(b) != "ab" || cap(b) != 2 {
		t.Errorf("got %q of capacity %d, want the first two bytes", b, cap(b))
	}
	for _, outside := range [][2]int{{2, 2}, {0, 4}, {4, 0}} {
		if b := of[0].Mapped(int64(outside[0]), outside[1], false); b != nil {
			t.Errorf("%d bytes at %d, beyond the end: %q", outside[1], outside[0], b)
		}
	}
	read(of[1]) // takes the descriptor
	d.Wait()
	if again := of[0].Mapped(1, 2, true); of[0].IsOpen() || string(again) != "bc" || string(b) != "ab" {
		t.Errorf("without a descriptor: %q and %q, open: %v", again, b, of[0].IsOpen())
	}
	if err := of[0].Close(); err != nil {
		t.Error(err)
	}
	if of[0].Mapped(0, 1, false) != nil || string(b) == "ab" {
		t.Errorf("after Close of the file: %q", b)
	}
	c := of[1].Mapped(0, 1, false)
	if err := files.Close(); err != nil {
		t.Error(err)
	}
	if of[1].Mapped(0, 1, false) != nil || string(c) == "b" {
		t.Errorf("after Close of the directory: %q", c)
	}
}

// openABC returns a new file with the contents "abc", which is open.
func openABC(t *testing.T, files *Dir) *File {
	t.Helper()
	f := files.File(1)
	made, err := files.fs.Create(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

// A denier has files that cannot be mapped while denied is true.
type denier struct {
	vfs.FS

	denied bool
	asked  int
}

type denierFile struct {
	vfs.File

	d *denier
}

func (d *denier) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return denierFile{f, d}, err
}

func (f denierFile) Map(n int) (vfs.Mapping, error) {
	f.d.asked++
	if f.d.denied {
		return nil, errors.New("no memory")
	}
	return f.File.(vfs.Mapper).Map(n) //nolint:errcheck,forcetypeassert // files in memory can be mapped
}

func TestAFileThatCannotBeMappedIsTriedAgain(t *testing.T) {
	defer func(last time.Duration) { mapAgain = last }(mapAgain)
	mapAgain = time.Hour
	fsys := &denier{FS: vfs.NewMem(), denied: true}
	pool := NewPool(1)
	files := pool.NewDir(fsys, ".", new(epoch.Domain))
	f := openABC(t, files)
	for range 3 {
		if b := f.Mapped(0, 3, false); b != nil || fsys.asked != 1 || pool.mappings.Load() != 0 {
			t.Errorf("got %q, asked %d times, want once", b, fsys.asked)
		}
	}
	f.mapping.Load().again = time.Now().Add(-1) // nobody else reads the file
	mapAgain = -1
	for n := range 3 {
		if b := f.Mapped(0, 3, false); b != nil || fsys.asked != n+2 {
			t.Errorf("got %q, asked %d times, want %d", b, fsys.asked, n+2)
		}
	}
	fsys.denied = false
	for range 3 {
		if b := f.Mapped(0, 3, false); string(b) != "abc" || fsys.asked != 5 || pool.mappings.Load() != 1 {
			t.Errorf("got %q, asked %d times, want 5", b, fsys.asked)
		}
	}
	if err := files.Close(); err != nil || pool.mappings.Load() != 0 {
		t.Errorf("%v, %d mappings", err, pool.mappings.Load())
	}
}

func TestAMappingOutlivesCloseUntilItsReadersHaveLeft(t *testing.T) {
	d := new(epoch.Domain)
	files := NewPool(1).NewDir(vfs.NewMem(), ".", d)
	f := openABC(t, files)
	g := d.Enter()
	b := f.Mapped(0, 3, true)
	if err := files.Close(); err != nil {
		t.Error(err)
	}
	if f.Mapped(0, 3, false) != nil || string(b) != "abc" {
		t.Errorf("after Close the mapping is found, or was taken from its reader: %q", b)
	}
	g.Leave()
	d.Wait()
	if string(b) == "abc" {
		t.Error("the mapping stays after its reader has left")
	}
}
