package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// mapTestFile maps a file of the given number of pages, all zeros. The system has a page in memory once it was read.
func mapTestFile(t *testing.T, pages int) (name string, m Mapping) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "a")
	testkit.Must(t, os.WriteFile(name, nil, 0o600))
	testkit.Must(t, os.Truncate(name, int64(pages)*pageSize))
	f, err := OS.Open(name)
	testkit.Must(t, err)
	defer f.Close()
	m, err = f.(*osFile).Map(pages * int(pageSize)) //nolint:errcheck,forcetypeassert // what OS makes
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	testkit.Must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return name, m
}

func TestReadingWhereAMappedFileWasTruncatedIsAnError(t *testing.T) {
	name, m := mapTestFile(t, 3)
	read := func(from, to int64) error {
		return ReadMapped(func() {
			for _, b := range m.Bytes()[from:to] {
				if b != 0 {
					t.Error("the file had zeros")
				}
			}
		})
	}
	testkit.Must(t, read(0, 3*pageSize))
	testkit.Must(t, os.Truncate(name, pageSize))
	if err := read(0, pageSize); err != nil {
		t.Error(err)
	}
	if err := read(pageSize, 2*pageSize); !errors.Is(err, ErrMapped) {
		t.Errorf("got %v, want that the page cannot be read", err)
	}
	buf := make([]byte, 10)
	if err := ReadMapped(func() { copy(buf, m.Bytes()[2*pageSize:]) }); !errors.Is(err, ErrMapped) {
		t.Errorf("a copy: got %v, want that the page cannot be read", err)
	}
	testkit.Must(t, m.Close())
	if err := m.Close(); err == nil {
		t.Error("closed twice")
	}
	opened, err := OS.Open(name)
	testkit.Must(t, err)
	f := opened.(*osFile) //nolint:errcheck,forcetypeassert // what OS makes
	one, err := f.Map(1)
	testkit.Must(t, err)
	if len(one.Bytes()) != 1 {
		t.Errorf("%d bytes are mapped, want 1", len(one.Bytes()))
	}
	testkit.Must(t, errors.Join(one.Close(), f.Close()))
	if _, err := f.Map(1); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a file that is closed: %v", err)
	}
}

func TestBytesThatTheSystemDoesNotHaveAreNotInMemory(t *testing.T) {
	_, m := mapTestFile(t, 200)
	p := int(pageSize)
	for i := range 200 {
		if i != 100 && m.Bytes()[i*p] != 0 {
			t.Fatal("the file had zeros")
		}
	}
	pages := []byte{0} // asked of the system, not of InMemory
	_, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m.Bytes()[100*p])), 1,
		uintptr(unsafe.Pointer(&pages[0])))
	if e != 0 || pages[0]&1 != 0 {
		t.Skip("this file system reads ahead, or keeps files in memory")
	}
	for _, test := range []struct {
		from, to int
		want     bool
	}{
		{0, 100 * p, true},
		{0, 100*p + 1, false},
		{101*p - 1, 101*p + 1, false},
		{60 * p, 101 * p, false},
		{37 * p, 101 * p, false}, // the last page of the second call
		{36*p + 1, 100*p + 1, false},
		{101 * p, 200 * p, true},
		{0, 200 * p, false},
	} {
		if got := m.InMemory(test.from, test.to); got != test.want {
			t.Errorf("bytes %d to %d: in memory %v, want %v", test.from, test.to, got, test.want)
		}
	}
}
