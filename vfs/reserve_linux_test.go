package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// mapped returns a file whose next bytes are mapped and populated, and the number of bytes written.
func mapped(t *testing.T) (f *osFile, name string, written int) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "a")
	file, err := OS.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	f = file.(*osFile) //nolint:errcheck,forcetypeassert // what OS makes
	if err := f.Reserve(1 << 20); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	for f.reserved.ready-f.reserved.end < 4*pageSize {
		n, err := f.Write(bytes.Repeat([]byte{'x'}, 100))
		if written += n; err != nil {
			t.Fatal(err)
		}
		if written > 1<<19 {
			t.Skip("pages cannot be populated")
		}
	}
	return f, name, written
}

func TestAFaultIsAnErrorOfTheWrite(t *testing.T) {
	f, name, _ := mapped(t)
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	n, err := f.Write([]byte("lost"))
	var at *fs.PathError
	if n != 0 || !errors.Is(err, unix.EIO) || !errors.As(err, &at) || at.Path != name {
		t.Fatalf("got %d, %v, want an EIO of %s", n, err, name)
	}
	if debug.SetPanicOnFault(false) {
		t.Error("faults of this goroutine are panics from now on")
	}
	if n, err := f.Write([]byte("there")); n != 5 || err != nil {
		t.Errorf("after the fault: %d, %v", n, err)
	}
}

// A fault in the caller's bytes returns the error of a system call, and does not stop the use of the mapping.
func TestAFaultOfTheSourceIsNoErrorOfTheFile(t *testing.T) {
	f, _, _ := mapped(t)
	g, name, _ := mapped(t)
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write(g.reserved.mapped[:100]); n != 0 || !errors.Is(err, unix.EFAULT) {
		t.Errorf("got %d, %v, want %v", n, err, unix.EFAULT)
	}
	if n, err := f.Write([]byte("x")); n != 1 || err != nil {
		t.Errorf("then: %d, %v", n, err)
	}
}

// dirty returns how many KiB of a mapping the system still has to write back.
func dirty(t *testing.T, mapped []byte) (kib int) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	_, of, found := strings.Cut(string(smaps), fmt.Sprintf("\n%x-", reflect.ValueOf(mapped).Pointer()))
	if !found {
		t.Fatal("the mapping is not there")
	}
	of, _, _ = strings.Cut(of, "VmFlags")
	for line := range strings.Lines(of) {
		if name, value, _ := strings.Cut(line, ":"); name == "Shared_Dirty" || name == "Private_Dirty" {
			var n int
			if _, err := fmt.Sscan(value, &n); err != nil {
				t.Fatal(err)
			}
			kib += n
		}
	}
	return kib
}

func TestSyncReachesWhatWasCopied(t *testing.T) {
	f, name, _ := mapped(t)
	var of unix.Statfs_t
	if err := unix.Statfs(name, &of); err != nil || of.Type == unix.TMPFS_MAGIC {
		t.Skip("a file system in memory: ", err)
	}
	if dirty(t, f.reserved.mapped) == 0 {
		t.Fatal("nothing is dirty before the Sync")
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if n := dirty(t, f.reserved.mapped); n != 0 {
		t.Errorf("%d KiB are dirty after the Sync", n)
	}
}

// After a Sync the pages are read-only for the processor, so they do not count as populated, and at most as much is
// populated as was written since.
func TestAfterASyncNothingIsTakenForPopulated(t *testing.T) {
	f, _, _ := mapped(t)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	for written := 0; written < 40_000; written += 100 {
		if _, err := f.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		ready := int(f.reserved.ready - f.reserved.end)
		if ready > 0 && written < populateAfter || ready > written+int(2*pageSize) {
			t.Fatalf("%d bytes after the Sync %d are ready", written, ready)
		}
	}
	if f.reserved.ready <= f.reserved.end {
		t.Error("nothing is populated 40,000 bytes after the Sync")
	}
}

// A Write populates at most 64 KiB if it is small, since it waits for that, and up to 256 KiB if it is larger.
func TestSmallWritesPopulateLittleAtOnce(t *testing.T) {
	for _, tt := range []struct {
		size int
		most int64
	}{{100, populateLeast}, {1000, 128_000}, {2048, populateMost}, {copyLimit, populateMost}} {
		f, _, _ := mapped(t)
		if err := f.Reserve(8 << 20); err != nil {
			t.Skip(err)
		}
		largest := int64(0)
		for written := 0; written < 2<<20; written += tt.size {
			ready := f.reserved.ready
			if n, err := f.Write(make([]byte, tt.size)); n != tt.size || err != nil {
				t.Fatal(n, err)
			}
			largest = max(largest, f.reserved.ready-max(ready, f.reserved.end-int64(tt.size)))
		}
		if largest < tt.most-pageSize || largest > tt.most+pageSize {
			t.Errorf("Writes of %d bytes populate up to %d bytes at once, want %d", tt.size, largest, tt.most)
		}
	}
}

func TestWhereNothingCanBeMappedItIsWritten(t *testing.T) {
	f, name, written := mapped(t)
	f.reserved.unmap()
	for range 1000 {
		if n, err := f.Write(bytes.Repeat([]byte{'x'}, 10)); n != 10 || err != nil {
			t.Fatal(n, err)
		}
	}
	got, err := os.ReadFile(name)
	want := bytes.Repeat([]byte{'x'}, written+10_000)
	if err != nil || !bytes.Equal(bytes.TrimRight(got, "\x00"), want) || len(got) != 1<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestMoreThanIsMappedCanBeReserved(t *testing.T) {
	f, _, _ := mapped(t)
	if err := f.Reserve(mapMost + 1<<20); errors.Is(err, unix.ENOSPC) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	if f.reserved.mapped != nil && len(f.reserved.mapped) != mapMost {
		t.Errorf("%d bytes mapped, want %d", len(f.reserved.mapped), mapMost)
	}
	if size, err := f.Size(); size != f.reserved.end+mapMost+1<<20 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	big := make([]byte, mapMost-10_000)
	if _, err := f.Write(big); err != nil {
		t.Fatal(err)
	}
	for range 300 { // across the end of the mapping
		if _, err := f.Write(big[:100]); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADiskThatIsFullIsAnError(t *testing.T) {
	f, name, written := mapped(t)
	err := f.Reserve(1 << 50)
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EFBIG) || errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("got %v, want a full disk", err)
	}
	if n, err := f.Write([]byte("on")); n != 2 || err != nil {
		t.Errorf("got %d, %v, want a write", n, err)
	}
	got, err := os.ReadFile(name)
	if want := strings.Repeat("x", written) + "on"; err != nil || string(bytes.TrimRight(got, "\x00")) != want {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// Close waits for a Write, which could otherwise copy to memory that was mapped for something else.
func TestCloseDuringWrites(t *testing.T) {
	for range 20 {
		f, _, _ := mapped(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 5000 {
				if n, err := f.Write([]byte("0123456789")); err != nil {
					if n != 0 || !errors.Is(err, fs.ErrClosed) {
						t.Errorf("got %d, %v, want %v", n, err, fs.ErrClosed)
					}
					return
				}
			}
		})
		wg.Go(func() { _ = f.Sync() })
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if f.reserved.mapped != nil {
			t.Error("still mapped after Close")
		}
	}
}
