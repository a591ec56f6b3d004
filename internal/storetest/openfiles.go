package storetest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// OpenFiles is a file system that tracks open files and held locks.
type OpenFiles struct {
	vfs.FS

	mu   sync.Mutex
	open map[string]int // by name
}

// TrackOpen returns a file system that tracks the open files and held locks of fsys.
func TrackOpen(fsys vfs.FS) *OpenFiles {
	o := &OpenFiles{open: map[string]int{}}
	o.FS = vfstest.NewHook(fsys, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpClose {
			o.count(op.Name, -1)
		}
		return nil
	})
	return o
}

func (o *OpenFiles) count(name string, more int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[name] += more; o.open[name] == 0 {
		delete(o.open, name)
	}
}

// opened counts the result of an operation, unless it has failed.
func opened[T any](o *OpenFiles, name string, result T, err error) (T, error) {
	if err == nil {
		o.count(name, 1)
	}
	return result, err
}

// Create implements [vfs.FS].
func (o *OpenFiles) Create(name string) (vfs.File, error) {
	f, err := o.FS.Create(name)
	return opened(o, name, f, err)
}

// Open implements [vfs.FS].
func (o *OpenFiles) Open(name string) (vfs.File, error) {
	f, err := o.FS.Open(name)
	return opened(o, name, f, err)
}

// Lock implements [vfs.FS].
func (o *OpenFiles) Lock(name string) (vfs.Lock, error) {
	l, err := o.FS.Lock(name)
	return opened(o, name, l, err)
}

// LockShared implements [vfs.FS].
func (o *OpenFiles) LockShared(name string) (vfs.Lock, error) {
	l, err := o.FS.LockShared(name)
	return opened(o, name, l, err)
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

// Left returns an error that names what is open, or was closed twice, or nil.
func (o *OpenFiles) Left() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) == 0 {
		return nil
	}
	return fmt.Errorf("still open, or closed twice if below 0: %v", o.open)
}
