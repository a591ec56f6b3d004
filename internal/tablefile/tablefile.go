// Package tablefile keeps the number of open table files within a limit that several stores may share. A file opens
// when it is read, and closes when the descriptor is needed for another file. Filters, indexes and files in memory do
// not depend on it.
package tablefile

import (
	"errors"
	"io"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/vfs"
)

// ErrClosed is returned by reads of a file that was closed for good.
var ErrClosed = errors.New("table file: closed")

// A Pool bounds the open table files of one store or of several. To open a file beyond the limit, it closes one that
// was not read lately. The pool holds its mutex over no call into a file system, so a store whose file system hangs
// does not stop another.
type Pool struct {
	Limit int // constant

	mappings atomic.Int64 // files in memory

	mu      sync.Mutex
	open    []*File // files with a descriptor, as a clock
	opening int     // descriptors reserved for files that are being opened
	hand    int     // of the clock
}

// NewPool returns a pool of at most limit descriptors.
func NewPool(limit int) *Pool { return &Pool{Limit: limit} }

// Usage returns the number of descriptors in use, and the number reserved for files that are being opened.
func (p *Pool) Usage() (open, opening int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open), p.opening
}

// maxMappings bounds the mapped files of a pool. Linux allows a process 65,530 mappings, and the Go runtime needs some.
const maxMappings = 16 << 10

// A Dir is the table files of one store.
type Dir struct {
	Domain *epoch.Domain // of the readers of the files

	pool   *Pool
	fs     vfs.FS
	dir    string
	closed bool           // guarded by pool.mu: nothing is opened or mapped any more
	mapped map[*File]bool // guarded by pool.mu; files that have a mapping

	files, open atomic.Int64 // files that are not closed for good; those of them with a descriptor
}

// NewDir returns the table files of the store in dir. Their descriptors belong to the pool.
func (p *Pool) NewDir(fsys vfs.FS, dir string, domain *epoch.Domain) *Dir {
	return &Dir{Domain: domain, pool: p, fs: fsys, dir: dir, mapped: map[*File]bool{}}
}

// Count returns the number of files that are not closed for good, and the number of those that have a descriptor.
func (d *Dir) Count() (files, open int) { return int(d.files.Load()), int(d.open.Load()) }

// File returns the file of the table with the given number. It is not opened before it is read.
func (d *Dir) File(number uint64) *File {
	d.files.Add(1)
	path := filename.Make(d.dir, filename.Table, number)
	return &File{Name: filepath.Base(path), Path: path, dir: d}
}

// A File reads one table's file and opens it when needed. It is safe for concurrent use.
type File struct {
	Name string // base name
	Path string

	dir     *Dir
	handle  atomic.Pointer[handle]  // nil while closed; a handle is closed once no reader uses it
	mapping atomic.Pointer[mapping] // nil until it is asked for, and after Close
	lately  atomic.Bool             // read through the handle since the clock's hand passed

	mu   sync.Mutex // held while one reader opens or maps the file and the others wait
	gone bool       // guarded by mu: closed for good
}

var _ io.ReaderAt = (*File)(nil)

// A handle is an open file.
type handle struct{ vfs.File }

// A mapping is a file in memory, which it stays without a descriptor, or says that the file could not be mapped.
type mapping struct {
	vfs.Mapping // nil if the file could not be mapped

	bytes []byte
	again time.Time // when to try again; zero: never
}

// mapAgain is the time after which a file that could not be mapped is tried again: the process may have had too many
// mappings, or too little memory.
var mapAgain = 10 * time.Second

// ReadAt implements io.ReaderAt. After Close of the file or of its Dir the error is ErrClosed.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	g := f.dir.Domain.Enter()
	defer g.Leave()
	h := f.handle.Load()
	if h == nil {
		var err error
		if h, err = f.open(); err != nil {
			return 0, err
		}
	}
	if !f.lately.Load() {
		f.lately.Store(true)
	}
	return h.ReadAt(p, off)
}

// Mapped returns n bytes of the file from off on as memory, to be read inside [vfs.ReadMapped] and before the caller
// leaves the guard of the Dir's domain that it is in. The result is nil if the file cannot be mapped or was not open
// when it was first asked for, or, if inMemory is true, if the system would have to read it from the disk.
func (f *File) Mapped(off int64, n int, inMemory bool) []byte {
	m := f.mapping.Load()
	if m == nil || !m.again.IsZero() && time.Now().After(m.again) {
		h := f.handle.Load()
		if h == nil {
			return nil
		}
		m = f.mapHandle(h, m)
	}
	if off > int64(len(m.bytes)-n) || inMemory && !m.InMemory(int(off), int(off)+n) {
		return nil
	}
	return m.bytes[off : off+int64(n) : off+int64(n)]
}

// mapHandle maps the file, whose handle is h, if that is possible. It replaces last, which is nil or has no memory.
func (f *File) mapHandle(h *handle, last *mapping) *mapping {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.mapping.Load(); m != last {
		if m == nil { // closed meanwhile
			m = new(mapping)
		}
		return m
	}
	m, p := new(mapping), f.dir.pool
	if mapper, ok := h.File.(vfs.Mapper); ok {
		size, err := h.Size()
		if p.mappings.Add(1) <= maxMappings && err == nil && size <= math.MaxInt {
			if k, err := mapper.Map(int(size)); err == nil {
				m.Mapping, m.bytes = k, k.Bytes()
			}
		}
		if m.Mapping == nil {
			p.mappings.Add(-1)
			m.again = time.Now().Add(mapAgain)
		}
	}
	p.mu.Lock()
	closed := f.dir.closed || f.gone
	if !closed {
		f.mapping.Store(m)
		f.dir.mapped[f] = true
	}
	p.mu.Unlock()
	if closed {
		_ = p.unmap(m) // nobody has seen it
		return new(mapping)
	}
	return m
}

// unmap removes a file's memory, if there is some. No reader may use it.
func (p *Pool) unmap(m *mapping) error {
	if m == nil || m.Mapping == nil {
		return nil
	}
	p.mappings.Add(-1)
	return m.Close()
}

// IsOpen reports whether the file has a descriptor.
func (f *File) IsOpen() bool { return f.handle.Load() != nil }

func (f *File) open() (*handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.handle.Load(); h != nil {
		return h, nil
	}
	if f.gone {
		return nil, ErrClosed
	}
	p := f.dir.pool
	p.reserve()
	file, err := f.dir.fs.Open(f.Path)
	if err != nil {
		p.cancel()
		return nil, err
	}
	h := &handle{file}
	if !p.add(f, h) {
		return nil, errors.Join(ErrClosed, h.Close())
	}
	return h, nil
}

// reserve reserves a descriptor and evicts others to stay within the limit. If all descriptors are reserved for files
// that are being opened, it exceeds the limit for the moment: no reader waits for another one's file system.
func (p *Pool) reserve() {
	type victim struct {
		dir    *Dir
		handle *handle
	}
	var evicted []victim
	p.mu.Lock()
	p.opening++
	for len(p.open) > 0 && len(p.open)+p.opening > p.Limit {
		p.hand %= len(p.open)
		f := p.open[p.hand]
		if f.lately.Swap(false) {
			p.hand++
			continue
		}
		evicted = append(evicted, victim{f.dir, p.drop(f, p.hand)})
	}
	p.mu.Unlock()
	for _, v := range evicted { // without the lock: Retire may release other things here
		v.dir.Domain.Retire(func() { _ = v.handle.Close() }) // a file that was only read has nothing to lose
	}
}

// cancel gives back what reserve reserved.
func (p *Pool) cancel() {
	p.mu.Lock()
	p.opening--
	p.mu.Unlock()
}

// add puts an opened file into the clock, on the descriptor that reserve reserved. It reports false if the Dir is
// closed.
func (p *Pool) add(f *File, h *handle) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening--
	if f.dir.closed {
		return false
	}
	f.handle.Store(h)
	f.dir.open.Add(1)
	p.open = append(p.open, f)
	return true
}

// drop takes the descriptor from f, which is at index i of the clock, and f from the clock. mu is held.
func (p *Pool) drop(f *File, i int) *handle {
	last := len(p.open) - 1
	p.open[i], p.open[last] = p.open[last], nil
	p.open = p.open[:last]
	f.dir.open.Add(-1)
	return f.handle.Swap(nil)
}

// Close closes the file for good. No reader may be inside ReadAt. Another Close does nothing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return nil
	}
	f.gone = true
	f.dir.files.Add(-1)
	p := f.dir.pool
	p.mu.Lock()
	var h *handle
	if i := slices.Index(p.open, f); i >= 0 {
		h = p.drop(f, i)
	}
	delete(f.dir.mapped, f)
	p.mu.Unlock()
	err := p.unmap(f.mapping.Swap(nil))
	if h == nil {
		return err
	}
	return errors.Join(h.Close(), err)
}

// Close closes all descriptors of the Dir, also that of a file that a reader is opening. A reader that is inside
// ReadAt gets an error. Mapped memory stays until the readers inside a guard have left.
func (d *Dir) Close() error {
	var handles []*handle
	var mappings []*mapping
	p := d.pool
	p.mu.Lock()
	d.closed = true
	for i, f := range slices.Backward(p.open) { // drop fills index i from the end, which was looked at before
		if f.dir == d {
			handles = append(handles, p.drop(f, i))
		}
	}
	for f := range d.mapped {
		mappings = append(mappings, f.mapping.Swap(nil))
	}
	clear(d.mapped)
	p.mu.Unlock()
	var errs []error
	for _, h := range handles {
		errs = append(errs, h.Close())
	}
	d.Domain.Retire(func() {
		for _, m := range mappings {
			_ = p.unmap(m) // it fails only for memory that is not mapped
		}
	})
	d.Domain.WaitLater()
	return errors.Join(errs...)
}
