package vfs

import (
	"io"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
)

const (
	sectorSize = 512
	// chunkSize is what a file grows by: small enough not to waste, large enough to be copied and found at once, and
	// a multiple of the sector.
	chunkSize = 64 << 10
	// maxEnds bounds what is remembered of the unsynced writes of a file: the ends of the newest.
	maxEnds = 1024
)

// memFile is the content of a file. Bytes once written never change, since a file only grows: a crash shares them with
// what it returns, and only its lost sectors are copied. So what is reserved behind them is a size and no bytes.
type memFile struct {
	mu      sync.RWMutex
	chunks  [][]byte // guarded by mu: what was written; all but the last hold chunkSize bytes
	written int64    // guarded by mu
	size    int64    // guarded by mu: what was written, and zeros that are reserved behind it
	synced  int64    // guarded by mu: this many written bytes are durable
	durable int64    // guarded by mu: as is this size
	ends    []int64  // guarded by mu: written, after each write beyond synced, ascending; with many, after the newest
	rooms   []int64  // guarded by mu: the size after each Reserve beyond durable, ascending
}

func (f *memFile) length() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.size
}

func (f *memFile) readAt(p []byte, off int64) (int, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n := 0
	for n < len(p) {
		var copied int
		switch {
		case off >= f.size:
			return n, io.EOF
		case off >= f.written:
			copied = int(min(int64(len(p)-n), f.size-off))
			clear(p[n:][:copied])
		default:
			copied = copy(p[n:], f.chunks[off/chunkSize][off%chunkSize:])
		}
		n += copied
		off += int64(copied)
	}
	return n, nil
}

func (f *memFile) write(p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.append(p)
	if len(p) == 0 {
		return
	}
	if len(f.ends) == 2*maxEnds {
		f.ends = f.ends[:copy(f.ends, f.ends[maxEnds:])]
	}
	f.ends = append(f.ends, f.written)
}

// reserve makes the file n bytes longer than what was written, if it is not.
func (f *memFile) reserve(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.written+n > f.size {
		f.size = f.written + n
		f.rooms = append(f.rooms, f.size)
	}
}

// append adds bytes behind those written. The caller holds the lock, or is the only one who knows the file.
func (f *memFile) append(p []byte) {
	f.written += int64(len(p))
	f.size = max(f.size, f.written)
	for len(p) > 0 {
		last := len(f.chunks) - 1
		if last < 0 || len(f.chunks[last]) == chunkSize {
			f.chunks = append(f.chunks, nil)
			last++
		}
		n := min(len(p), chunkSize-len(f.chunks[last]))
		f.chunks[last] = append(f.chunks[last], p[:n]...)
		p = p[n:]
	}
}

func (f *memFile) sync() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced, f.durable = f.written, f.size
	f.ends, f.rooms = f.ends[:0], f.rooms[:0]
}

// memHandle is an open file.
type memHandle struct {
	m        *Mem
	node     *inode
	name     string
	writable bool
	closed   atomic.Bool
}

func (h *memHandle) check(op string) error {
	if h.closed.Load() {
		return &fs.PathError{Op: op, Path: h.name, Err: fs.ErrClosed}
	}
	return nil
}

// ReadAt is [io.ReaderAt.ReadAt].
func (h *memHandle) ReadAt(p []byte, off int64) (int, error) {
	if err := h.check("read"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: h.name, Err: fs.ErrInvalid}
	}
	return h.node.file.readAt(p, off)
}

// Write appends all of p to a file from Create; one from Open refuses.
func (h *memHandle) Write(p []byte) (int, error) {
	if err := h.check("write"); err != nil {
		return 0, err
	}
	if !h.writable {
		return 0, &fs.PathError{Op: "write", Path: h.name, Err: fs.ErrPermission}
	}
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	h.node.file.write(p)
	return len(p), nil
}

// Reserve is [Reserver.Reserve]. There is always room.
func (h *memHandle) Reserve(n int64) error {
	if err := h.check("reserve"); err != nil {
		return err
	}
	if !h.writable {
		return &fs.PathError{Op: "reserve", Path: h.name, Err: fs.ErrPermission}
	}
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	if n <= 0 || n > math.MaxInt64-h.node.file.length() {
		return &fs.PathError{Op: "reserve", Path: h.name, Err: fs.ErrInvalid}
	}
	h.node.file.reserve(n)
	return nil
}

// Sync is [File.Sync]. A handle for reading syncs what others wrote, too.
func (h *memHandle) Sync() error {
	if err := h.check("sync"); err != nil {
		return err
	}
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	h.node.file.sync()
	return nil
}

// Size is [File.Size].
func (h *memHandle) Size() (int64, error) {
	if err := h.check("stat"); err != nil {
		return 0, err
	}
	return h.node.file.length(), nil
}

// Close ends the use of the handle. It makes nothing durable.
func (h *memHandle) Close() error {
	if h.closed.Swap(true) {
		return &fs.PathError{Op: "close", Path: h.name, Err: fs.ErrClosed}
	}
	return nil
}
