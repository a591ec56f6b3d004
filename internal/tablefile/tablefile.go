// Package tablefile keeps the number of open table files, and the bytes of those that are mapped into memory, within
// limits that several stores may share. A file opens when it is read, and closes when the descriptor is needed for
// another file. Filters, indexes and mapped files do not depend on it.
package tablefile

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/vfs"
)

// ErrClosed is returned by reads of a file that was closed for good.
var ErrClosed = errors.New("table file: closed")

// A Pool bounds the open and the mapped table files of one store or of several. To open a file beyond the limit, it
// closes one that was not read lately. The pool holds its mutex over no call into a file system, so a store whose file
// system hangs does not stop another.
type Pool struct {
	// constant
	Limit     int   // descriptors
	MaxMapped int64 // bytes of mapped files; 0 means that no file is mapped

	mappings    atomic.Int64 // files that are mapped
	mappedBytes atomic.Int64 // bytes of these files
	leaving     atomic.Int64 // files among these that are evicted, and that readers may still see

	mu       step.Mutex
	open     []*File // files with a descriptor, as a clock
	opening  int     // descriptors reserved for files that are being opened
	hand     int     // of the clock of open files
	mapped   []*File // files with a mapping, as a clock
	mapsHand int     // of the clock of mapped files
}

// NewPool returns a pool of at most limit descriptors, which maps no files unless MaxMapped is set.
func NewPool(limit int) *Pool { return &Pool{Limit: limit} }

// Usage returns the number of descriptors in use, and the number reserved for files that are being opened.
func (p *Pool) Usage() (open, opening int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open), p.opening
}

// A Dir is the table files of one store.
type Dir struct {
	Domain *epoch.Domain // of the readers of the files

	pool   *Pool
	fs     vfs.FS
	dir    string
	closed bool // guarded by pool.mu: nothing is opened or mapped any more

	closing     step.WaitGroup // evicted files that are still open; added to under pool.mu, until closed is set
	files, open atomic.Int64   // files that are not closed for good; those of them with a descriptor
	mappedBytes atomic.Int64   // part of those of the pool
}

// NewDir returns the table files of the store in dir. Their descriptors belong to the pool.
func (p *Pool) NewDir(fsys vfs.FS, dir string, domain *epoch.Domain) *Dir {
	return &Dir{Domain: domain, pool: p, fs: fsys, dir: dir}
}

// Count returns the number of files that are not closed for good, and the number of those that have a descriptor.
func (d *Dir) Count() (files, open int) { return int(d.files.Load()), int(d.open.Load()) }

// Mapped returns the bytes of files that are mapped.
func (d *Dir) Mapped() int64 { return d.mappedBytes.Load() }

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

	mu   step.Mutex // held while one reader opens or maps the file and the others wait
	gone bool       // guarded by mu: closed for good
}

var _ io.ReaderAt = (*File)(nil)

// A handle is an open file.
type handle struct{ vfs.File }

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
	step.At("file: read")
	if !f.lately.Load() {
		f.lately.Store(true)
	}
	return h.ReadAt(p, off)
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
		p.mu.Lock()
		p.opening--
		p.mu.Unlock()
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
		f.dir.closing.Add(1)
	}
	p.mu.Unlock()
	for _, v := range evicted { // without the lock: Retire may release other things here
		v.dir.Domain.Retire(func() {
			step.Go(func() { // any store may call this, and the file system of the file may hang
				defer v.dir.closing.Done()
				_ = v.handle.Close() // a file that was only read has nothing to lose
			})
		})
	}
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
	var m *mapping
	if i := slices.Index(p.mapped, f); i >= 0 {
		m = p.dropMapping(i, nil)
	}
	p.mu.Unlock()
	step.At("file: closed")
	f.dir.unmap(m)
	if h != nil {
		return h.Close()
	}
	return nil
}

// Close closes all descriptors of the Dir, also that of a file that a reader is opening, and waits for those that were
// evicted. A reader that is inside ReadAt gets an error. Mapped memory stays until the readers inside a guard have
// left.
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
	for i, f := range slices.Backward(p.mapped) {
		if f.dir == d {
			mappings = append(mappings, p.dropMapping(i, nil))
		}
	}
	p.mu.Unlock()
	var errs []error
	for _, h := range handles {
		errs = append(errs, h.Close())
	}
	d.Domain.Retire(func() {
		for _, m := range mappings {
			d.unmap(m)
		}
	})
	d.Domain.WaitLater()
	d.closing.Wait()
	return errors.Join(errs...)
}
