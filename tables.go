package bloomkv

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/compaction"
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

	// How many units of its filter there is room for: what Resources have left it, and Options.FilterMemory. MaxUnits is for all.
	kept, planned atomic.Int32

	damaged atomic.Bool // a filter of it is, as far as they were read

	loading sync.Mutex // one load at a time, so that each is accounted for once
	counted tableBytes // guarded by loading: what Resources know of

	tableCounts
}

// tableBytes is what a table has in memory.
type tableBytes struct{ filter, prefix, index, rangeDeletes int64 }

func newTable(meta *manifest.Table, files *tableFiles, blocks *cache.Cache) *table {
	t := &table{meta: meta, file: files.file(meta.Number)}
	t.kept.Store(bloomblock.MaxUnits)
	t.planned.Store(bloomblock.MaxUnits)
	m := sstable.Meta{Name: t.file.base, Size: meta.Size, ID: meta.ID, TailLen: meta.TailLen, FilterLen: meta.FilterLen}
	if meta.Flags&manifest.SeqOverridden != 0 {
		m.Seq = meta.MaxSeq
	}
	m.Check = func(i sstable.Info) error { return agrees(meta, i) }
	t.reader = sstable.NewReader(t.file, m, blocks, files.domain)
	return t
}

// agrees compares what a table's file says of itself with what the manifest says of it.
func agrees(meta *manifest.Table, i sstable.Info) error {
	i.FilterRate = meta.FilterRate // which the tail does not say
	t := compaction.Table(meta.Number, i)
	t.Flags |= meta.Flags & (manifest.SeqOverridden | manifest.Superseded)
	if t.Flags&manifest.SeqOverridden != 0 {
		t.MinSeq, t.MaxSeq = meta.MaxSeq, meta.MaxSeq
	}
	if !t.Equal(meta) {
		return fmt.Errorf("holds %v, the manifest has %v", t, meta)
	}
	return nil
}

// descriptors bounds the open files of tables, of one store or of several. A file that was not read lately is closed for
// one that is; reading it again opens it again. Its private mutex is held over no call out of here: a store whose file
// system hangs must not stop another.
type descriptors struct {
	limit int // constant

	mu      sync.Mutex
	open    []*tableFile // with a descriptor; a clock
	opening int          // those about to join
	hand    int
}

// tableFiles are the table files of one store.
type tableFiles struct {
	set    *descriptors
	fs     vfs.FS
	dir    string
	domain *epoch.Domain // of those who read them
	closed bool          // guarded by set.mu: no more opening

	there, open atomic.Int64 // files that are on the disk for a table; those of them with a descriptor
}

// A tableFile reads one table's file, opening it where needed.
type tableFile struct {
	files  *tableFiles
	base   string                   // name without directory
	path   string                   //
	handle atomic.Pointer[vfs.File] // nil while closed; what it points to is closed only after readers left
	lately atomic.Bool              // read since the clock's hand passed

	mu   sync.Mutex // one opens it at a time, and who else wants to read it waits
	gone bool       // guarded by mu: no more opening
}

func (fs *tableFiles) path(number uint64) string {
	return filename.Make(fs.dir, filename.Table, number)
}

func (fs *tableFiles) file(number uint64) *tableFile {
	fs.there.Add(1)
	path := fs.path(number)
	return &tableFile{files: fs, base: filepath.Base(path), path: path}
}

var _ io.ReaderAt = (*tableFile)(nil)

// ReadAt reads as io.ReaderAt says. It is safe for concurrent use.
func (f *tableFile) ReadAt(p []byte, off int64) (int, error) {
	g := f.files.domain.Enter()
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
	return (*h).ReadAt(p, off)
}

func (f *tableFile) open() (*vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.handle.Load(); h != nil {
		return h, nil
	}
	if f.gone {
		return nil, ErrClosed
	}
	set := f.files.set
	set.makeRoom()
	file, err := f.files.fs.Open(f.path)
	if err != nil {
		set.cancel()
		return nil, err
	}
	if !set.add(f, &file) {
		return nil, errors.Join(ErrClosed, file.Close())
	}
	return &file, nil
}

// makeRoom reserves a descriptor. Where all there may be are just being opened there is one more for the moment: nobody
// waits for somebody else's file system.
func (d *descriptors) makeRoom() {
	type closing struct {
		file   *tableFile
		handle *vfs.File
	}
	var evicted []closing
	d.mu.Lock()
	d.opening++
	for len(d.open) > 0 && len(d.open)+d.opening > d.limit {
		d.hand %= len(d.open)
		f := d.open[d.hand]
		if f.lately.Swap(false) {
			d.hand++
			continue
		}
		evicted = append(evicted, closing{f, d.drop(f, d.hand)})
	}
	d.mu.Unlock()
	for _, e := range evicted { // without the lock: releases of other things may run here
		e.file.files.domain.Retire(func() { _ = (*e.handle).Close() }) // a file that was only read has nothing to lose
	}
}

// cancel gives back what makeRoom reserved.
func (d *descriptors) cancel() {
	d.mu.Lock()
	d.opening--
	d.mu.Unlock()
}

// add puts a file that has been opened into the clock, in the place that makeRoom reserved, unless its store is closed.
func (d *descriptors) add(f *tableFile, h *vfs.File) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opening--
	if f.files.closed {
		return false
	}
	f.handle.Store(h)
	f.files.open.Add(1)
	d.open = append(d.open, f)
	return true
}

// drop takes the descriptor from f, and f, at place i, from the clock. mu is held.
func (d *descriptors) drop(f *tableFile, i int) *vfs.File {
	last := len(d.open) - 1
	d.open[i], d.open[last] = d.open[last], nil
	d.open = d.open[:last]
	f.files.open.Add(-1)
	return f.handle.Swap(nil)
}

// close lets the file's descriptor go for good. Readers have left.
func (f *tableFile) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return nil
	}
	f.gone = true
	f.files.there.Add(-1)
	d := f.files.set
	d.mu.Lock()
	var h *vfs.File
	if i := slices.Index(d.open, f); i >= 0 {
		h = d.drop(f, i)
	}
	d.mu.Unlock()
	if h == nil {
		return nil
	}
	return (*h).Close()
}

// close closes every descriptor of the store. Readers have left; later reads answer ErrClosed.
func (fs *tableFiles) close() error {
	var handles []*vfs.File
	d := fs.set
	d.mu.Lock()
	fs.closed = true
	for i, f := range slices.Backward(d.open) { // drop fills a place from the end, which has been looked at
		if f.files == fs {
			handles = append(handles, d.drop(f, i))
		}
	}
	d.mu.Unlock()
	var errs []error
	for _, h := range handles {
		errs = append(errs, (*h).Close())
	}
	return errors.Join(errs...)
}
