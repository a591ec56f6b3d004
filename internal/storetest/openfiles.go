package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/bloomkv/bloomkv/vfs"
)

// OpenFiles is a file system that tracks open files and held locks.
type OpenFiles struct {
	vfs.FS

	mu   sync.Mutex
	open map[string]int // by name
}

// TrackOpen returns a file system that tracks the open files and held locks of fsys.
func TrackOpen(fsys vfs.FS) *OpenFiles { return &OpenFiles{FS: fsys, open: map[string]int{}} }

// An openFile is an open file of an OpenFiles.
type openFile struct {
	vfs.File

	closed func()
}

func (o *OpenFiles) opened(name string) (closed func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[name]++
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.open[name]--; o.open[name] == 0 {
			delete(o.open, name)
		}
	})
}

func (o *OpenFiles) file(f vfs.File, err error, name string) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &openFile{f, o.opened(name)}, nil
}

// Create implements [vfs.FS].
func (o *OpenFiles) Create(name string) (vfs.File, error) {
	f, err := o.FS.Create(name)
	return o.file(f, err, name)
}

// Open implements [vfs.FS].
func (o *OpenFiles) Open(name string) (vfs.File, error) {
	f, err := o.FS.Open(name)
	return o.file(f, err, name)
}

// Lock implements [vfs.FS].
func (o *OpenFiles) Lock(name string) (vfs.Lock, error) {
	l, err := o.FS.Lock(name)
	return o.lock(l, err, name)
}

// LockShared implements [vfs.FS].
func (o *OpenFiles) LockShared(name string) (vfs.Lock, error) {
	l, err := o.FS.LockShared(name)
	return o.lock(l, err, name)
}

func (o *OpenFiles) lock(l vfs.Lock, err error, name string) (vfs.Lock, error) {
	if err != nil {
		return nil, err
	}
	return countedLock{l, o.opened(name)}, nil
}

type countedLock struct {
	vfs.Lock
	closed func()
}

func (l countedLock) Close() error { l.closed(); return l.Lock.Close() }

func (f *openFile) Close() error { f.closed(); return f.File.Close() }

func (f *openFile) Reserve(n int64) error {
	if r, ok := f.File.(vfs.Reserver); ok {
		return r.Reserve(n)
	}
	return errors.ErrUnsupported
}

// Of returns the number of open files whose names have the suffix.
func (o *OpenFiles) Of(suffix string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, count := range o.open {
		if strings.HasSuffix(name, suffix) {
			n += count
		}
	}
	return n
}

// Left returns an error that names what is open, or nil.
func (o *OpenFiles) Left() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) == 0 {
		return nil
	}
	return fmt.Errorf("still open: %q", slices.Sorted(maps.Keys(o.open)))
}
