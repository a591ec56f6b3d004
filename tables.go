package bloomkv

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// A table is one file of the tree while any state names it: its reader, which stays, and its descriptor, which comes and
// goes. It is removed from the disk when the last state that names it is released.
type table struct {
	meta   *manifest.Table // immutable
	reader *sstable.Reader
	file   *tableFile
	refs   atomic.Int64 // states that name it
	level  atomic.Int32 // where it is now
	shed   atomic.Bool  // its filter does not fit the memory budget

	loading sync.Mutex // one load at a time, so that each is accounted for once
	counted int64      // guarded by loading: bytes in memory that the budget knows of
	damaged bool       // guarded by loading: its filter's damage was logged

	truePositives, falsePositives, unfiltered atomic.Uint64
}

func newTable(meta *manifest.Table, files *descriptors, blocks *cache.Cache) *table {
	t := &table{meta: meta, file: files.file(meta.Number)}
	t.reader = sstable.NewReader(t.file, sstable.Meta{
		Name: t.file.base, Size: meta.Size, ID: meta.ID, TailLen: meta.TailLen, FilterLen: meta.FilterLen,
	}, blocks, files.domain)
	return t
}

// descriptors bounds the open files of tables. A file that was not read lately is closed for one that is; reading it again
// opens it again. Its private mutex is held over the open and close of a table's file, never over a call upward.
type descriptors struct {
	fs     vfs.FS
	dir    string
	domain *epoch.Domain
	limit  int

	mu     sync.Mutex
	open   []*tableFile // with a descriptor; a clock
	hand   int
	closed bool
}

// A tableFile reads one table's file, opening it where needed.
type tableFile struct {
	set     *descriptors
	base    string                   // name without directory
	path    string                   //
	handle  atomic.Pointer[vfs.File] // nil while closed; what it points to is closed only after readers left
	lately  atomic.Bool              // read since the clock's hand passed
	removed bool                     // guarded by set.mu: no more opening
}

func (d *descriptors) file(number uint64) *tableFile {
	base := filename.Base(filename.Table, number)
	return &tableFile{set: d, base: base, path: filename.Make(d.dir, filename.Table, number)}
}

var _ io.ReaderAt = (*tableFile)(nil)

// ReadAt reads as io.ReaderAt says. It is safe for concurrent use.
func (f *tableFile) ReadAt(p []byte, off int64) (int, error) {
	g := f.set.domain.Enter()
	defer g.Leave()
	h := f.handle.Load()
	if h == nil {
		var err error
		if h, err = f.set.openFile(f); err != nil {
			return 0, err
		}
	}
	if !f.lately.Load() {
		f.lately.Store(true)
	}
	return (*h).ReadAt(p, off)
}

func (d *descriptors) openFile(f *tableFile) (*vfs.File, error) {
	h, evicted, err := d.openLocked(f)
	for _, e := range evicted { // without the lock: releases of other things may run here
		d.domain.Retire(func() { _ = (*e).Close() }) // a file that was only read has nothing to lose
	}
	return h, err
}

func (d *descriptors) openLocked(f *tableFile) (h *vfs.File, evicted []*vfs.File, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := f.handle.Load(); h != nil {
		return h, nil, nil
	}
	if d.closed || f.removed {
		return nil, nil, ErrClosed
	}
	for len(d.open) >= d.limit {
		evicted = append(evicted, d.evict())
	}
	file, err := d.fs.Open(f.path)
	if err != nil {
		return nil, evicted, err
	}
	h = &file
	f.handle.Store(h)
	d.open = append(d.open, f)
	return h, evicted, nil
}

// evict takes the descriptor from a file that was not read lately. mu is held.
func (d *descriptors) evict() *vfs.File {
	for {
		d.hand %= len(d.open)
		if f := d.open[d.hand]; !f.lately.Swap(false) {
			return d.drop(f)
		}
		d.hand++
	}
}

// drop takes the descriptor from f, and f from the clock. mu is held.
func (d *descriptors) drop(f *tableFile) *vfs.File {
	i, last := slices.Index(d.open, f), len(d.open)-1
	if i < 0 {
		return nil
	}
	d.open[i], d.open[last] = d.open[last], nil
	d.open = d.open[:last]
	return f.handle.Swap(nil)
}

// close lets the file's descriptor go for good. Readers have left.
func (f *tableFile) close() error {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.removed = true
	if h := f.set.drop(f); h != nil {
		return (*h).Close()
	}
	return nil
}

// close closes every descriptor. Readers have left; later reads answer ErrClosed.
func (d *descriptors) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	var errs []error
	for _, f := range d.open {
		errs = append(errs, (*f.handle.Swap(nil)).Close())
	}
	d.open = nil
	return errors.Join(errs...)
}
