package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// mapped returns a file whose next bytes are mapped and populated, and the number of bytes written.
func mapped(t *testing.T) (f *osFile, name string, written int) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "a")
	file, err := OS.Create(name)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	f = file.(*osFile) //nolint:errcheck,forcetypeassert // what OS makes
	if err := f.Reserve(1 << 20); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else {
		testkit.Must(t, err)
	}
	for f.reserved.ready-f.reserved.end < 4*pageSize {
		n, err := f.Write(bytes.Repeat([]byte{'x'}, 100))
		if written += n; err != nil {
			t.Fatal(err)
		}
		if written > 1<<19 {
			if populates(t, name+"-other") {
				t.Fatal("no page is populated, and the system can")
			}
			t.Skip("pages cannot be populated")
		}
	}
	return f, name, written
}

// populates reports whether the system populates the pages of a new file.
func populates(t *testing.T, name string) bool {
	t.Helper()
	f, err := os.Create(name)
	testkit.Must(t, err)
	defer f.Close()
	testkit.Must(t, f.Truncate(pageSize))
	b, err := unix.Mmap(int(f.Fd()), 0, int(pageSize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return false
	}
	defer unmap(b)
	return unix.Madvise(b, unix.MADV_POPULATE_WRITE) == nil
}

func TestAFaultIsAnErrorOfTheWrite(t *testing.T) {
	f, name, _ := mapped(t)
	testkit.Must(t, os.Truncate(name, 0))
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
	testkit.Must(t, os.Truncate(name, 0))
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
	for tries := 0; dirty(t, f.reserved.mapped) == 0; tries++ { // the system may have written all of it
		if tries == 100 {
			t.Fatal("nothing is dirty before the Sync")
		}
		if _, err := f.Write([]byte("more")); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, f.Sync())
	if n := dirty(t, f.reserved.mapped); n != 0 {
		t.Errorf("%d KiB are dirty after the Sync", n)
	}
}

func TestASyncOfMuchBeginsInSteps(t *testing.T) {
	f, name, _ := mapped(t)
	var of unix.Statfs_t
	if err := unix.Statfs(name, &of); err != nil || of.Type == unix.TMPFS_MAGIC {
		t.Skip("a file system in memory: ", err)
	}
	if err := f.Reserve(8 << 20); err != nil {
		t.Skip(err)
	}
	for range 6 << 10 {
		if _, err := f.Write(make([]byte, 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	waitForFill(f)
	left := -1
	flush := flushFile
	defer func() { flushFile = flush }()
	flushFile = func(fd int) error {
		left = dirty(t, f.reserved.mapped)
		return flush(fd)
	}
	before := dirty(t, f.reserved.mapped)
	testkit.Must(t, f.Sync())
	if before < 6<<10 {
		t.Skipf("%d KiB are dirty before the Sync: the system has written some already", before)
	}
	if most := (populateAhead + syncStep) >> 10; left < 0 || left > most {
		t.Errorf("%d KiB are dirty before the Sync, and %d when it waits, want at most %d", before, left, most)
	}
}

// After a Sync the pages are read-only for the processor, so they do not count as populated, and at most as much is
// populated as was written since.
func TestAfterASyncNothingIsTakenForPopulated(t *testing.T) {
	f, _, _ := mapped(t)
	testkit.Must(t, f.Sync())
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

// waitForFill waits until no goroutine populates pages.
func waitForFill(f *osFile) {
	f.reserved.mu.Lock()
	defer f.reserved.mu.Unlock()
	for f.reserved.filling == fillAsked || f.reserved.filling >= fillRunning {
		f.reserved.filled.Wait()
	}
}

// Once 64 KiB are written, as much as was written is populated ahead, up to 1 MiB, and never less than half of it.
func TestPagesArePopulatedAheadOfWrites(t *testing.T) {
	for _, size := range []int{100, 1000, 2048, copyLimit} {
		f, _, _ := mapped(t)
		if err := f.Reserve(16 << 20); err != nil {
			t.Skip(err)
		}
		r, checked := &f.reserved, 0
		for written := 0; written < 8<<20; written += size {
			if n, err := f.Write(make([]byte, size)); n != size || err != nil {
				t.Fatal(n, err)
			}
			waitForFill(f) // at once, so that no Write finds that the goroutine has not begun
			if written < 2*populateStep {
				continue
			}
			ready, want := r.ready-r.end, min(r.fresh, populateAhead)
			if ready < want/2-pageSize || ready > want+pageSize {
				t.Fatalf("after %d bytes in Writes of %d, %d are populated ahead, want %d to %d",
					r.fresh, size, ready, want/2, want)
			}
			checked++
		}
		if checked < 200 {
			t.Errorf("checked %d times", checked)
		}
	}
}

// Writes of all sizes, syncs and reservations beside the goroutine that writes zeros ahead of them, and sometimes
// fails, lose no byte.
func TestNothingIsLostBesideThePopulatingOfPages(t *testing.T) {
	defer func() { writeZeros = (*os.File).WriteAt }()
	var calls atomic.Int64
	var fails atomic.Bool
	writeZeros = func(f *os.File, b []byte, off int64) (int, error) {
		time.Sleep(50 * time.Microsecond)
		if fails.Load() && calls.Add(1)%40 == 0 {
			return 0, unix.ENOSPC
		}
		return f.WriteAt(b, off)
	}
	seeds := uint64(20)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 5))
		fails.Store(false)
		f, name, _ := mapped(t)
		fails.Store(true)
		want, err := os.ReadFile(name)
		testkit.Must(t, err)
		want = want[:f.reserved.end]
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for seed%2 == 1 {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if err := f.Sync(); err != nil {
					t.Error(err)
				}
			}
		}()
		for len(want) < 2<<20 {
			switch rng.IntN(100) {
			case 0:
				testkit.Must(t, f.Sync())
			case 1, 2:
				testkit.Must(t, f.Reserve(1<<20))
			default:
				piece := make([]byte, 1+rng.IntN([]int{200, 10_000, 2 * copyLimit, 200_000}[rng.IntN(4)]))
				for i := range piece {
					piece[i] = byte(1 + rng.IntN(255))
				}
				if n, err := f.Write(piece); n != len(piece) || err != nil {
					t.Fatal(n, err)
				}
				want = append(want, piece...)
			}
			if rng.IntN(4) == 0 {
				time.Sleep(10 * time.Microsecond) // the goroutine begins
			}
		}
		close(stop)
		<-stopped
		testkit.Must(t, f.Close())
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got[:min(len(got), len(want))], want) ||
			len(bytes.Trim(got[len(want):], "\x00")) > 0 {
			t.Fatalf("seed %d: the file has %d bytes and differs from the %d written: %v",
				seed, len(got), len(want), err)
		}
	}
}

// A Write that needs pages before the goroutine has begun populates 64 KiB itself.
func TestAWriteDoesNotWaitForPagesThatNobodyPopulates(t *testing.T) {
	f, _, _ := mapped(t)
	if err := f.Reserve(8 << 20); err != nil {
		t.Skip(err)
	}
	r := &f.reserved
	for range 1000 {
		if _, err := f.Write(make([]byte, 200)); err != nil {
			t.Fatal(err)
		}
	}
	waitForFill(f)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.filling = fillAsked // and the goroutine does not come
	before := r.ready
	r.end = before - 50
	if !f.prepare(100) || r.filling != fillDenied || r.ready-before < 50 || r.ready-before > populateStep+pageSize {
		t.Errorf("a Write populates %d bytes, state %d", r.ready-before, r.filling)
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
	} else {
		testkit.Must(t, err)
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

func TestOldMappingsOfAFileGo(t *testing.T) {
	f, name, _ := mapped(t)
	mappings := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip(err)
		}
		return strings.Count(string(maps), name+"\n")
	}
	for range 10 {
		testkit.Must(t, f.Reserve(1<<20))
	}
	testkit.Soon(t, "the file is mapped once", func() bool { return mappings() == 1 })
	if err := f.Close(); err != nil || mappings() != 0 {
		t.Errorf("after Close, %v, the file is mapped %d times", err, mappings())
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

// TestAReservationLeavesTheDiskToOthers reserves more than a sixteenth of what is free, and then nothing that it does
// not fill.
func TestAReservationLeavesTheDiskToOthers(t *testing.T) {
	f, name, written := mapped(t)
	before, err := f.Size()
	testkit.Must(t, err)
	free, err := freeSpaceOf(f.f)
	if err != nil {
		t.Skip(err)
	}
	if err := f.Reserve(int64(free / 15)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a fifteenth of the free space: %v, want %v", err, unix.ENOSPC)
	}
	if err := f.Reserve(0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("what the system says is invalid: %v, want that it is unsupported", err)
	}
	if size, err := f.Size(); size != before || err != nil {
		t.Errorf("%d bytes, %v, want %d still", size, err, before)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(name); err != nil || info.Size() != int64(written) {
		t.Errorf("%d bytes after Close, %v, want the %d written", info.Size(), err, written)
	}
	if n, err := freeSpaceOf(f.f); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%d bytes are free for a file that is closed: %v", n, err)
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
