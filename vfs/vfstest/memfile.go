package vfstest

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/vfs"
)

const (
	sectorSize = 512
	// chunkSize is the size of a part of a file: small enough not to waste memory, large enough to be copied and found
	// quickly, and a multiple of the sector.
	chunkSize = 64 << 10
	// maxEnds bounds the number of unsynced writes whose ends are kept: those of the newest.
	maxEnds = 1024
)

// memFile is the content of a file. Written bytes never change, since a file only grows: the result of a crash shares
// them, and only lost sectors are copied. Reserved bytes behind them are a size only.
type memFile struct {
	mu       sync.RWMutex
	chunks   [][]byte // guarded by mu: the written bytes; all but the last hold chunkSize bytes
	written  int64    // guarded by mu
	size     int64    // guarded by mu: the written bytes and the reserved zeros behind them
	synced   int64    // guarded by mu: number of durable written bytes
	durable  int64    // guarded by mu: durable size
	ends     []int64  // guarded by mu: written after each write beyond synced, ascending; if many, only the newest
	reserves []int64  // guarded by mu: the size after each Reserve beyond durable, ascending
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
	if len(p) == 0 {
		return
	}
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
	if len(f.ends) == 2*maxEnds {
		f.ends = f.ends[:copy(f.ends, f.ends[maxEnds:])]
	}
	f.ends = append(f.ends, f.written)
}

// reserve extends the file to n bytes more than what was written, if it is shorter.
func (f *memFile) reserve(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.written+n > f.size {
		f.size = f.written + n
		f.reserves = append(f.reserves, f.size)
	}
}

func (f *memFile) sync() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced, f.durable = f.written, f.size
	f.ends, f.reserves = f.ends[:0], f.reserves[:0]
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

// ReadAt implements [io.ReaderAt.ReadAt].
func (h *memHandle) ReadAt(p []byte, off int64) (int, error) {
	if err := h.check("read"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: h.name, Err: fs.ErrInvalid}
	}
	return h.node.file.readAt(p, off)
}

// Write appends p to a file returned by Create. A file returned by Open refuses.
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

// Reserve implements [vfs.Reserver.Reserve]. There is always space.
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

// Sync implements [vfs.File.Sync]. A read-only handle syncs what other handles wrote, too.
func (h *memHandle) Sync() error {
	if err := h.check("sync"); err != nil {
		return err
	}
	h.m.mu.RLock()
	defer h.m.mu.RUnlock()
	h.node.file.sync()
	return nil
}

var _ vfs.Mapper = (*memHandle)(nil)

// memMapMost is the size of the largest file that Map copies. The tables of tests are smaller, and the data of a
// program is not in memory twice.
const memMapMost = 1 << 20

// Map implements [vfs.Mapper.Map] for files of at most 1 MiB, by a copy of what the file holds now. Close of the
// Mapping overwrites the copy, so that late reads are noticed.
func (h *memHandle) Map(n int) (vfs.Mapping, error) {
	size, err := h.Size()
	if err == nil && size > memMapMost {
		err = &fs.PathError{Op: "mmap", Path: h.name, Err: errors.ErrUnsupported}
	}
	if err == nil && (n <= 0 || int64(n) > size) {
		err = &fs.PathError{Op: "mmap", Path: h.name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = h.ReadAt(b, 0)
	return memMapping(b), err
}

type memMapping []byte

func (m memMapping) Bytes() []byte { return m }

func (m memMapping) InMemory(_, _ int) bool { return true }

func (m memMapping) Close() error {
	for i := range m {
		m[i] = 0xdb
	}
	return nil
}

// Size implements [vfs.File.Size].
func (h *memHandle) Size() (int64, error) {
	if err := h.check("stat"); err != nil {
		return 0, err
	}
	return h.node.file.length(), nil
}

// Close closes the handle. It makes nothing durable.
func (h *memHandle) Close() error {
	if h.closed.Swap(true) {
		return &fs.PathError{Op: "close", Path: h.name, Err: fs.ErrClosed}
	}
	return nil
}
