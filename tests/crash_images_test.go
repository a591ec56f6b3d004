package tests

import (
	"fmt"
	"hash/maphash"
	"path/filepath"
	"sync"

	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// Crashes at different operations often leave the same bytes. A store with these bytes is recovered only once; each
// crash is judged by the result of that recovery.

// An image is a file system left by one or more crashes.
type image struct {
	fs    *vfstest.Mem
	once  sync.Once
	found finding
}

// A finding is the state of a store after its recovery.
type finding struct {
	contents map[string]string // for tests that do not identify them by the number of commits
	commits  int64
	after    bool // the write of an earlier recovery is present
	err      error
}

// recovered returns the result of calling f with the image; f is called only once per image.
func (i *image) recovered(f func(*vfstest.Mem) finding) finding {
	i.once.Do(func() { i.found, i.fs = f(i.fs), nil })
	return i.found
}

// images is a set of file systems, identified by the names and bytes of the files in "db". The zero value is ready for
// use. It is safe for concurrent use.
type images struct {
	mu sync.Mutex
	by map[uint64]*image
}

// of returns the image with these bytes. Which of them are durable makes no difference.
func (m *images) of(fsys *vfstest.Mem) *image {
	d := hashOfFiles(fsys)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[uint64]*image{}
	}
	if m.by[d] == nil {
		m.by[d] = &image{fs: fsys}
	}
	return m.by[d]
}

func (m *images) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.by)
}

var filesSeed = maphash.MakeSeed()

// hashOfFiles returns a hash of the names and bytes of all files in "db", and of the error, if one occurs.
func hashOfFiles(fsys *vfstest.Mem) uint64 {
	var h maphash.Hash
	h.SetSeed(filesSeed)
	names, err := fsys.List("db")
	maphash.WriteComparable(&h, fmt.Sprint(names, err))
	buf := make([]byte, 16<<10)
	for _, name := range names {
		f, err := fsys.Open(filepath.Join("db", name))
		if err != nil { // not a regular file
			maphash.WriteComparable(&h, err.Error())
			continue
		}
		size, err := f.Size()
		for at := int64(0); at < size && err == nil; at += int64(len(buf)) {
			buf = buf[:min(int64(cap(buf)), size-at)]
			_, err = f.ReadAt(buf, at)
			_, _ = h.Write(buf)
		}
		maphash.WriteComparable(&h, fmt.Sprint(size, err, f.Close()))
	}
	return h.Sum64()
}
