package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// room is what was reserved of a file, of which the part behind what was written is mapped: a small Write is a copy.
//
// A store into a page that is not in memory, or that a Sync wrote back and with that made read-only, stops in the kernel,
// and with it a processor of the Go runtime, which knows nothing of it. So pages are populated by a system call before a
// Write copies into them, and not taken for populated any more after a Sync. To populate costs more than a small pwrite,
// and has the next Sync write all of it: so as much is populated as was written since the last Sync, and after it the
// first writes are pwrites. That the system writes a page back by itself, after half a minute, is left to the fault.
//
// A copy is as good as a write: it is in the system's cache of the file, which ReadAt reads and the end of the process
// leaves alone.
type room struct {
	mu sync.Mutex // of Write, Reserve and Close, so that no Write copies where another file was mapped meanwhile

	// guarded by mu
	end      int64  // where the next Write goes
	reserved int64  // up to here; 0 as long as nothing was
	mapped   []byte // the file from base on; nil where it cannot be
	base     int64  // a multiple of the page
	ready    int64  // what lies between end and here is mapped and populated
	fresh    int64  // bytes written since the last Sync

	synced atomic.Bool // since the last Write looked
}

const (
	copyLimit     = 16 << 10  // a longer Write is a pwrite, which costs the same from 32 KiB on
	populateAfter = 4 << 10   // bytes written since a Sync
	populateMost  = 256 << 10 // at once, which takes 60 µs; with 64 KiB a Write of 2,000 bytes takes a sixth longer
	mapMost       = 64 << 20  // of what is reserved; the rest is written by pwrite
)

var (
	pageSize = int64(os.Getpagesize())
	zeros    [populateMost + 64<<10]byte // a page of the system's
)

// wasSynced is called by a Sync after it, by whatever goroutine.
func (r *room) wasSynced() { r.synced.Store(true) }

// Reserve is [Reserver.Reserve].
func (f *osFile) Reserve(n int64) error {
	r := &f.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if n <= 0 || n > math.MaxInt64-r.end {
		return &fs.PathError{Op: "fallocate", Path: f.f.Name(), Err: unix.EFBIG}
	}
	err := f.control(func(fd int) error {
		return retry(func() error { return unix.Fallocate(fd, 0, r.end, n) })
	})
	switch {
	case errors.Is(err, unix.EINVAL):
		err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		fallthrough
	case err != nil: // EOPNOTSUPP and ENOSYS are ErrUnsupported by themselves
		return &fs.PathError{Op: "fallocate", Path: f.f.Name(), Err: err}
	}
	r.reserved = max(r.reserved, r.end+n)
	r.unmap()
	base := r.end &^ (pageSize - 1)
	_ = f.control(func(fd int) error { // where it fails there is pwrite
		r.mapped, err = unix.Mmap(fd, base, int(min(r.reserved-base, mapMost)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return err
	})
	r.base = base
	return nil
}

// control calls with the descriptor, which a Close cannot give away meanwhile.
func (f *osFile) control(call func(fd int) error) error {
	raw, err := f.f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err = raw.Control(func(fd uintptr) { callErr = call(int(fd)) }); err != nil {
		return fs.ErrClosed // all that Control itself can fail by
	}
	return callErr
}

func (r *room) unmap() {
	if r.mapped != nil {
		_ = unix.Munmap(r.mapped) // it fails for what is not mapped
		r.mapped = nil
	}
	r.ready = r.end
}

func (f *osFile) Write(p []byte) (n int, err error) {
	r := &f.room
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.reserved == 0:
		n, err = f.f.Write(p)
	case len(p) > 0 && len(p) <= copyLimit && f.prepare(int64(len(p))):
		if n, err = copyTo(r.mapped[r.end-r.base:], p); err != nil {
			r.unmap()
			err = &fs.PathError{Op: "write", Path: f.f.Name(), Err: err}
		}
	default:
		n, err = f.f.WriteAt(p, r.end)
	}
	r.end += int64(n)
	r.fresh += int64(n)
	return n, err
}

// prepare says whether the next n bytes may be copied, and has them populated where that pays.
func (f *osFile) prepare(n int64) bool {
	r := &f.room
	if r.synced.Load() {
		r.synced.Store(false)
		r.ready, r.fresh = r.end, 0
	}
	end := r.end + n
	if end <= r.ready {
		return true
	}
	from := max(r.ready, r.end)
	limit := min(r.base+int64(len(r.mapped)), from+int64(len(zeros)))
	if r.mapped == nil || end > limit || r.fresh < populateAfter {
		return false
	}
	to := min((max(end, from+min(r.fresh, populateMost))+pageSize-1)&^(pageSize-1), limit)
	// Faults make a page each, and reserved blocks into written ones for each; a pwrite does all at once, and leaves little
	// to the faults: 960 ns a page instead of 2,550.
	_, err := f.f.WriteAt(zeros[:to-from], from)
	if err == nil {
		err = retry(func() error {
			return unix.Madvise(r.mapped[from&^(pageSize-1)-r.base:to-r.base], unix.MADV_POPULATE_WRITE)
		})
	}
	if err != nil {
		r.unmap() // an old kernel, or no memory or disk: the pwrite says what is wrong, if anything is
		return false
	}
	r.ready = to
	return true
}

// copyTo copies into what is mapped. A fault there, because the file was cut or the disk fails, is an error; one of p is the
// error that a system call has for it.
func copyTo(mapped, p []byte) (n int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		fault, ok := recover().(interface{ Addr() uintptr }) // the copy can end in nothing else
		if !ok {
			return
		}
		n, err = 0, unix.EFAULT
		if at := fault.Addr() - reflect.ValueOf(mapped).Pointer(); at < uintptr(len(mapped)) {
			err = fmt.Errorf("%w: fault in the mapped file", unix.EIO)
		}
	}()
	return copy(mapped, p), nil
}

// Close ends the mapping, too, which no Sync needs: what was copied is the file's.
func (f *osFile) Close() error {
	r := &f.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unmap()
	return f.f.Close()
}
