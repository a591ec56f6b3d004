package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// reservation is the reserved part of a file. Where it is mapped, a small Write is a copy to memory.
//
// A store into a page that is not in memory, or that a Sync wrote back and so made read-only, faults into the kernel,
// and the Go runtime, which does not know, loses a processor meanwhile. So a system call populates pages before a Write
// copies into them, and after a Sync no page counts as populated. Populating costs more than a small pwrite, and the
// next Sync writes all populated pages: so the number of bytes populated is at most the number written since the last
// Sync, and the first writes after a Sync are pwrites. If the system writes a page back by itself, after half a minute,
// the next copy faults; this is accepted.
//
// Once enough is written without a Sync, a goroutine populates the pages ahead. Where all processors are in use it does
// not begin in time, and Write populates the pages as before.
//
// A copy is as good as a write: it is in the system's cache of the file, which ReadAt reads and which survives the
// process.
type reservation struct {
	mu sync.Mutex // held by Write, Reserve and Close: no Write copies to where another file was mapped since

	// guarded by mu
	end        int64  // offset of the next Write
	reservedTo int64  // end of the reserved bytes; 0 if nothing was reserved
	mapped     []byte // the file from base on; nil if it cannot be mapped
	base       int64  // offset of mapped, a multiple of the page size
	ready      int64  // the bytes from end to here are mapped and populated
	fresh      int64  // bytes written since the last Sync
	begun      int64  // the system was asked to begin writing the bytes before this one to the disk

	filling fillState
	filled  sync.Cond // on mu: filling is notFilling again

	synced atomic.Bool // a Sync ended since the last Write
}

// fillState tells whether a goroutine populates the pages from ready on.
type fillState uint8

const (
	notFilling   fillState = iota
	fillAsked              // the goroutine has not begun, and stops at once if it finds another state
	fillDenied             // it had not begun when a Write needed pages, and is not asked again before the next Reserve
	fillRunning            // it writes zeros from ready on, so that nothing else may write there
	fillStopping           // the same, and it stops after at most populateStep bytes
)

const (
	copyLimit     = 16 << 10  // a longer Write is a pwrite; both cost the same from 32 KiB on
	populateAfter = 4 << 10   // bytes written since a Sync before pages are populated
	populateStep  = 64 << 10  // bytes populated at once, in 15 µs
	populateAhead = 1 << 20   // bytes ahead of the writes, all of which the next Sync writes
	writeBackStep = 1 << 20   // bytes
	syncStep      = 128 << 10 // bytes that a Sync of more than writeBackStep begins to write at once
	mapMost       = 64 << 20  // bytes mapped of a reservation; the rest is written by pwrite
)

var (
	pageSize = int64(os.Getpagesize())
	zeros    [populateStep + 2*copyLimit]byte // more for a Write that needs it, and for the rounding to pages
)

// writeZeros is a variable so that tests can delay it and make it fail.
var writeZeros = (*os.File).WriteAt

// wasSynced is called at the end of a Sync, by any goroutine.
func (r *reservation) wasSynced() { r.synced.Store(true) }

// Reserve implements [Reserver.Reserve].
func (f *osFile) Reserve(n int64) error {
	r := &f.reserved
	r.mu.Lock()
	defer r.mu.Unlock()
	// The rest of the disk is for what frees space: tables that replace others, and the manifest.
	if free, err := freeSpaceOf(f.f); err == nil && uint64(n) > free/16 { //nolint:gosec // n > 0
		return &fs.PathError{Op: "fallocate", Path: f.f.Name(), Err: unix.ENOSPC}
	}
	err := withDescriptor(f.f, func(fd int) error { return unix.Fallocate(fd, 0, r.end, n) })
	switch {
	case errors.Is(err, unix.EINVAL):
		err = fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		fallthrough
	case err != nil: // EOPNOTSUPP and ENOSYS match ErrUnsupported already
		_ = f.f.Truncate(max(r.end, r.reservedTo)) // some file systems have taken all that there was
		return &fs.PathError{Op: "fallocate", Path: f.f.Name(), Err: err}
	}
	r.reservedTo = max(r.reservedTo, r.end+n)
	if r.filled.L == nil {
		r.filled.L = &r.mu
	}
	r.stopFilling()
	r.filling = notFilling
	if old := r.mapped; old != nil {
		r.mapped = nil
		go unmap(old) // 0.1 ms, for which the next Write need not wait
	}
	r.ready = r.end
	base := r.end &^ (pageSize - 1)
	_ = withDescriptor(f.f, func(fd int) error { // if it fails, Write uses pwrite
		r.mapped, err = unix.Mmap(fd, base, int(min(r.reservedTo-base, mapMost)),
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return err
	})
	r.base = base
	return nil
}

func (r *reservation) unmap() {
	if r.mapped != nil {
		unmap(r.mapped)
		r.mapped = nil
	}
	r.ready = r.end
}

func unmap(b []byte) { _ = unix.Munmap(b) } // it fails only for memory that is not mapped

func (f *osFile) Write(p []byte) (n int, err error) {
	r := &f.reserved
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.reservedTo == 0:
		n, err = f.f.Write(p)
		f.beginWriteBack(r.end + int64(n))
	case len(p) > 0 && len(p) <= copyLimit && f.prepare(int64(len(p))):
		if n, err = copyTo(r.mapped[r.end-r.base:], p); err != nil {
			r.stopFilling()
			r.unmap()
			err = &fs.PathError{Op: "write", Path: f.f.Name(), Err: err}
		}
	default:
		r.stopFilling()
		n, err = f.f.WriteAt(p, r.end)
	}
	r.end += int64(n)
	r.fresh += int64(n)
	if r.filling == notFilling && r.ready-r.end < r.ahead()/2 && r.toFill() > 0 {
		r.filling = fillAsked
		go f.fill()
	}
	return n, err
}

// beginWriteBack asks the system, at every writeBackStep, to begin writing what is before end to the disk. A Sync of a
// whole table then waits for its last part only: a flush takes a fifth less time.
func (f *osFile) beginWriteBack(end int64) {
	r := &f.reserved
	if end-r.begun < writeBackStep {
		return
	}
	f.startWriting(r.begun, end)
	r.begun = end
}

// writeInSteps begins to write what a Sync has to write, in small steps, if that is much. A system call keeps its
// processor for up to 20 ms, since the Go runtime does not know how long it will take, and with it the goroutines and
// timers that wait for that processor. Between the steps the processor is free.
func (f *osFile) writeInSteps() {
	r := &f.reserved
	r.mu.Lock()
	from, end := r.begun, r.end
	r.begun = end
	r.mu.Unlock()
	if end-from < writeBackStep {
		return
	}
	for ; from < end; from += syncStep {
		f.startWriting(from, min(from+syncStep, end))
		runtime.Gosched()
	}
}

// startWriting asks the system to begin writing the bytes between two offsets to the disk. It is a hint: the Sync
// returns errors. With a flag to wait, the system would report them here, and not again to the Sync.
func (f *osFile) startWriting(start, end int64) {
	_ = withDescriptor(f.f, func(fd int) error {
		return unix.SyncFileRange(fd, start, end-start, unix.SYNC_FILE_RANGE_WRITE)
	})
}

// prepare reports whether the next n bytes may be copied. It populates pages first if that pays.
func (f *osFile) prepare(n int64) bool {
	r := &f.reserved
	end := r.end + n
	synced := r.synced.Load()
	if end > r.ready || synced {
		if r.filling == fillAsked {
			r.filling = fillDenied
		}
		r.stopFilling()
	}
	if synced { // a Sync that ended meanwhile is noticed by the next Write
		r.synced.Store(false)
		r.ready, r.fresh = r.end, 0
	}
	if end <= r.ready {
		return true
	}
	from := max(r.ready, r.end)
	limit := min(r.base+int64(len(r.mapped)), from+int64(len(zeros)))
	if r.mapped == nil || end > limit || r.fresh < populateAfter {
		return false
	}
	to := min((max(end, from+min(r.fresh, populateStep))+pageSize-1)&^(pageSize-1), limit)
	if f.populate(r.mapped[from&^(pageSize-1)-r.base:to-r.base], from, to) != nil {
		r.unmap() // an old kernel, or no memory or disk; a pwrite returns the error, if there is one
		return false
	}
	r.ready = to
	return true
}

// populate makes the system have the pages of the file between two offsets in memory, where they are mapped.
func (f *osFile) populate(mapped []byte, start, end int64) error {
	// A fault makes one page and converts its reserved block into a written one; a pwrite does so for all pages at once
	// and leaves little to the faults: 960 ns a page instead of 2,550.
	if _, err := writeZeros(f.f, zeros[:end-start], start); err != nil {
		return err
	}
	return retry(func() error { return unix.Madvise(mapped, unix.MADV_POPULATE_WRITE) })
}

// ahead returns how many bytes ahead of the writes fill populates.
func (r *reservation) ahead() int64 { return min(r.fresh, populateAhead) }

// toFill returns how many bytes from ready on fill shall populate next. mu is held.
func (r *reservation) toFill() int64 {
	if r.mapped == nil || r.ready < r.end || r.fresh < populateStep || r.synced.Load() {
		return 0
	}
	to := min(r.end+r.ahead(), r.base+int64(len(r.mapped))) &^ (pageSize - 1)
	return min(to-r.ready, populateStep)
}

// fill populates the pages ahead, until a Write needs the file to itself.
func (f *osFile) fill() {
	r := &f.reserved
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.filling != fillAsked {
		return
	}
	r.filling = fillRunning
	for n := r.toFill(); n > 0 && r.filling == fillRunning; n = r.toFill() {
		from, to := r.ready, r.ready+n
		mapped := r.mapped[from&^(pageSize-1)-r.base : to-r.base]
		r.mu.Unlock()
		err := f.populate(mapped, from, to)
		r.mu.Lock()
		if err != nil {
			r.unmap() // as above
			break
		}
		r.ready = to
	}
	r.filling = notFilling
	r.filled.Broadcast()
}

// stopFilling returns once no goroutine populates pages. mu is held, and released meanwhile.
func (r *reservation) stopFilling() {
	if r.filling == fillAsked {
		r.filling = notFilling
	}
	for r.filling >= fillRunning {
		r.filling = fillStopping
		r.filled.Wait()
	}
}

// copyTo copies into mapped memory. A fault there, because the file was truncated or the disk fails, is returned as an
// error. A fault in p is returned as the error that a system call has for it.
func copyTo(mapped, p []byte) (n int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		fault, ok := recover().(interface{ Addr() uintptr }) // the copy cannot panic otherwise
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

// Close also unmaps the file, and gives back what is reserved and was not filled. Copied bytes belong to the file, so
// nothing is lost without a Sync.
func (f *osFile) Close() error {
	r := &f.reserved
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopFilling()
	r.unmap()
	if r.reservedTo > r.end {
		_ = f.f.Truncate(r.end) // if it fails, the zeros stay
	}
	return f.f.Close()
}
