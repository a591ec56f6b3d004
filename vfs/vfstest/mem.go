package vfstest

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bloomkv/bloomkv/vfs"
)

// Mem is a file system in memory. Its root is an empty directory; a relative name begins at the root.
//
// Besides the content that every reader sees, it keeps track of what a loss of power would leave, for [Mem.Crash]:
//
//   - the content of a file, by sectors of 512 bytes, and its size are durable once the file is synced; a reserved size
//     can survive without the content written into it, which then reads as zeros, and losing the size loses that
//     content;
//   - a change of a name in a directory (made, linked, renamed, removed) is durable once that directory is synced, but
//     not by a sync of the file;
//   - a rename is one change: it shows at both names or at neither, so that a sync of either directory makes it
//     durable.
//
// Nothing else is durable: of two changes of different names in one directory, either may survive without the other. A
// directory can only be renamed within its parent.
//
// All methods are safe for concurrent use. A read of a file waits only for writes of the same file.
type Mem struct {
	// mu is held for writing by changes of names and by Crash, and for reading by writes and syncs of files, so that a
	// crash sees one moment of the whole. It is taken before the lock of a file.
	mu      sync.RWMutex
	root    *inode
	pending []change       // guarded by mu: changes of names that are not synced, oldest first
	locked  map[*inode]int // guarded by mu: number of holders of a file's shared lock, or exclusive
}

// inode is a file or a directory.
type inode struct {
	made  time.Time         // constant
	names map[string]*inode // a directory's, nil for a file; guarded by Mem.mu
	file  memFile           // a file's
}

// slot identifies one name in one directory.
type slot struct {
	dir  *inode
	name string
}

var (
	errNotDir   = errors.New("not a directory")
	errNotEmpty = errors.New("directory not empty")
)

// NewMem returns an empty file system.
func NewMem() *Mem { return &Mem{root: newDir(time.Now()), locked: map[*inode]int{}} }

func newDir(made time.Time) *inode { return &inode{made: made, names: map[string]*inode{}} }

// find returns the slot of a name and the inode there, nil for none. The slot of the root has no directory. The caller
// holds mu.
func (m *Mem) find(name string) (slot, *inode, error) {
	rest := filepath.Clean(name)
	rest = rest[len(filepath.VolumeName(rest)):]
	at, node := slot{}, m.root
	for rest != "" {
		var element string
		element, rest, _ = strings.Cut(rest, string(filepath.Separator))
		if element == "" || element == "." || element == ".." { // Clean leaves these only at the beginning
			continue
		}
		if node == nil {
			return slot{}, nil, fs.ErrNotExist
		}
		if node.names == nil {
			return slot{}, nil, errNotDir
		}
		at = slot{node, element}
		node = node.names[element]
	}
	return at, node, nil
}

// lookup calls find for a name that must exist.
func (m *Mem) lookup(op, name string) (slot, *inode, error) {
	at, node, err := m.find(name)
	if err == nil && node == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return slot{}, nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return at, node, nil
}

// vacant calls find for a name that must not exist.
func (m *Mem) vacant(op, name string) (slot, error) {
	at, node, err := m.find(name)
	if err == nil && node != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return slot{}, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return at, nil
}

// Create implements [vfs.FS.Create]. The file can be read too.
func (m *Mem) Create(name string) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.vacant("open", name)
	if err != nil {
		return nil, err
	}
	node := &inode{made: time.Now()}
	m.change(change{op: OpCreate, name: name, sets: []setting{{at: at, node: node}}})
	return &memHandle{m: m, node: node, name: name, writable: true}, nil
}

// Open implements [vfs.FS.Open].
func (m *Mem) Open(name string) (vfs.File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, node, err := m.lookup("open", name)
	if err != nil {
		return nil, err
	}
	if node.names != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: vfs.ErrNotRegular}
	}
	return &memHandle{m: m, node: node, name: name}, nil
}

// Remove implements [vfs.FS.Remove]. Open handles of the file can still read and write it.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, node, err := m.lookup("remove", name)
	if err != nil {
		return err
	}
	switch {
	case at.dir == nil:
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrInvalid}
	case len(node.names) > 0:
		return &fs.PathError{Op: "remove", Path: name, Err: errNotEmpty}
	}
	m.change(change{op: OpRemove, name: name, sets: []setting{{at: at}}})
	return nil
}

// Rename implements [vfs.FS.Rename]. If both names refer to one file it does nothing, as POSIX requires.
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, node, err := m.lookup("rename", oldname)
	if err != nil {
		return err
	}
	to, target, err := m.find(newname)
	switch {
	case err != nil:
	case node == target:
		return nil
	case from.dir == nil || to.dir == nil:
		err = fs.ErrInvalid
	case target != nil && target.names != nil:
		err = fs.ErrExist
	case target != nil && node.names != nil:
		err = errNotDir
	case node.names != nil && from.dir != to.dir:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldname, New: newname, Err: err}
	}
	m.change(change{op: OpRename, name: oldname, to: newname, sets: []setting{{at: from}, {at: to, node: node}}})
	return nil
}

// Link implements [vfs.FS.Link].
func (m *Mem) Link(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, node, err := m.lookup("link", oldname)
	if err != nil {
		return err
	}
	if node.names != nil {
		return &fs.PathError{Op: "link", Path: oldname, Err: vfs.ErrNotRegular}
	}
	at, err := m.vacant("link", newname)
	if err != nil {
		return err
	}
	m.change(change{op: OpLink, name: oldname, to: newname, sets: []setting{{at: at, node: node}}})
	return nil
}

// Mkdir implements [vfs.FS.Mkdir].
func (m *Mem) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.vacant("mkdir", name)
	if err != nil {
		return err
	}
	m.change(change{op: OpMkdir, name: name, sets: []setting{{at: at, node: newDir(time.Now())}}})
	return nil
}

// List implements [vfs.FS.List].
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.lookupDir("open", dir)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(node.names)), nil
}

func (m *Mem) lookupDir(op, dir string) (*inode, error) {
	_, node, err := m.lookup(op, dir)
	if err != nil {
		return nil, err
	}
	if node.names == nil {
		return nil, &fs.PathError{Op: op, Path: dir, Err: errNotDir}
	}
	return node, nil
}

// Stat implements [vfs.FS.Stat]. The modification time is the time of creation.
func (m *Mem) Stat(name string) (os.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, node, err := m.lookup("lstat", name)
	if err != nil {
		return nil, err
	}
	info := memInfo{name: filepath.Base(name), mode: 0o600, made: node.made}
	if node.names != nil {
		info.mode = fs.ModeDir | 0o700
	} else {
		info.size = node.file.length()
	}
	return info, nil
}

// SyncDir implements [vfs.FS.SyncDir].
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.lookupDir("sync", dir)
	if err != nil {
		return err
	}
	m.settle(node)
	return nil
}

// exclusive stands for an exclusive lock, in place of the number of holders of a shared one.
const exclusive = -1

// Lock implements [vfs.FS.Lock], against other calls on the same Mem. The result of [Mem.Crash] has no locks.
func (m *Mem) Lock(name string) (vfs.Lock, error) { return m.lock(name, false) }

// LockShared implements [vfs.FS.LockShared], against other calls on the same Mem.
func (m *Mem) LockShared(name string) (vfs.Lock, error) { return m.lock(name, true) }

func (m *Mem) lock(name string, shared bool) (vfs.Lock, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, node, err := m.find(name)
	if err == nil && node == nil && !shared {
		node = &inode{made: time.Now()}
		m.change(change{op: OpCreate, name: name, sets: []setting{{at: at, node: node}}})
	}
	holders := m.locked[node]
	switch {
	case err != nil:
	case node == nil:
		err = fs.ErrNotExist
	case node.names != nil:
		err = vfs.ErrNotRegular
	case holders == exclusive || holders > 0 && !shared:
		err = vfs.ErrLocked
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	if m.locked[node]++; !shared {
		m.locked[node] = exclusive
	}
	return &memLock{m: m, node: node, name: name}, nil
}

// memLock is a held lock.
type memLock struct {
	m      *Mem
	node   *inode
	name   string
	closed bool // guarded by m.mu
}

// Check implements [vfs.Lock.Check].
func (l *memLock) Check() error {
	l.m.mu.RLock()
	defer l.m.mu.RUnlock()
	if _, node, err := l.m.find(l.name); err != nil || node != l.node {
		return &fs.PathError{Op: "lock", Path: l.name, Err: vfs.ErrLockLost}
	}
	return nil
}

// Close releases the lock, once.
func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.closed {
		return &fs.PathError{Op: "close", Path: l.name, Err: fs.ErrClosed}
	}
	l.closed = true
	if l.m.locked[l.node]--; l.m.locked[l.node] <= 0 { // the last holder
		delete(l.m.locked, l.node)
	}
	return nil
}

// memInfo describes a name.
type memInfo struct {
	name string
	size int64
	mode fs.FileMode
	made time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.made }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
