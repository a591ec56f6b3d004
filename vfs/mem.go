package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mem is a file system in memory. Its root is an empty directory; a relative name begins there as well.
//
// Beside what every reader sees it knows what of that a loss of power would leave, which is what [Mem.Crash] returns:
//
//   - the content of a file, by sectors of 512 bytes, and its size are durable once the file is synced; a size that was
//     reserved can survive without what was written into it, which then reads as zeros, and is lost with what lies there;
//   - a name in a directory (made, linked, renamed, removed) is durable once that directory is synced, and not by a sync of
//     the file that it names;
//   - a rename is one change: both names show it, or neither, so that a sync of either directory makes it durable.
//
// Nothing else is durable: two changes of different names in one directory may survive the one without the other, in either
// order. A directory can only be renamed within its parent.
//
// All methods are safe for concurrent use; reads of files wait only for writes of the same file.
type Mem struct {
	// mu is held for writing by what changes names and by Crash, and for reading by what writes and syncs files, so that a
	// crash sees one moment of the whole. It is taken before the lock of a file.
	mu      sync.RWMutex
	root    *inode
	pending []change       // guarded by mu: changes of names that are not synced, oldest first
	locked  map[*inode]int // guarded by mu: how many share the lock of a file, or exclusive
}

// inode is a file or a directory.
type inode struct {
	made  time.Time         // constant
	names map[string]dirent // a directory's, nil for a file; guarded by Mem.mu
	file  memFile           // a file's
}

// dirent is what a name in a directory means. An entry without either is as good as none.
type dirent struct {
	now     *inode // nil: no such name
	durable *inode // what it means after a loss of power in which no unsynced change survives
}

// slot is the place of one name.
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

func newDir(made time.Time) *inode { return &inode{made: made, names: map[string]dirent{}} }

// find returns the place of a name, and what is there, nil for nothing. The root has a place without a directory. The
// caller holds mu.
func (m *Mem) find(name string) (slot, *inode, error) {
	rest := filepath.Clean(name)
	rest = rest[len(filepath.VolumeName(rest)):]
	at, node := slot{}, m.root
	for rest != "" {
		var element string
		element, rest, _ = strings.Cut(rest, string(filepath.Separator))
		if element == "" || element == "." || element == ".." { // Clean leaves these at the beginning only
			continue
		}
		if node == nil {
			return slot{}, nil, fs.ErrNotExist
		}
		if node.names == nil {
			return slot{}, nil, errNotDir
		}
		at = slot{node, element}
		node = node.names[element].now
	}
	return at, node, nil
}

// lookup is find for a name that must exist.
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

// vacant is find for a name that must not exist.
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

// Create is [FS.Create]. The file can be read too.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.vacant("open", name)
	if err != nil {
		return nil, err
	}
	node := &inode{made: time.Now()}
	m.change(change{op: OpCreate, name: name, sets: [2]setting{{at, node}}})
	return &memHandle{m: m, node: node, name: name, writable: true}, nil
}

// Open is [FS.Open].
func (m *Mem) Open(name string) (File, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, node, err := m.lookup("open", name)
	if err != nil {
		return nil, err
	}
	if node.names != nil {
		return nil, notRegular("open", name)
	}
	return &memHandle{m: m, node: node, name: name}, nil
}

// Remove is [FS.Remove]. Who has the file open can go on reading and writing it.
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
	case len(node.list()) > 0:
		return &fs.PathError{Op: "remove", Path: name, Err: errNotEmpty}
	}
	m.change(change{op: OpRemove, name: name, sets: [2]setting{{at, nil}}})
	return nil
}

// Rename is [FS.Rename]. Where both are names of one file it does nothing, as POSIX has it.
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
	m.change(change{op: OpRename, name: oldname, to: newname, sets: [2]setting{{from, nil}, {to, node}}})
	return nil
}

// Link is [FS.Link].
func (m *Mem) Link(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, node, err := m.lookup("link", oldname)
	if err != nil {
		return err
	}
	if node.names != nil {
		return notRegular("link", oldname)
	}
	at, err := m.vacant("link", newname)
	if err != nil {
		return err
	}
	m.change(change{op: OpLink, name: oldname, to: newname, sets: [2]setting{{at, node}}})
	return nil
}

// Mkdir is [FS.Mkdir].
func (m *Mem) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.vacant("mkdir", name)
	if err != nil {
		return err
	}
	m.change(change{op: OpMkdir, name: name, sets: [2]setting{{at, newDir(time.Now())}}})
	return nil
}

// List is [FS.List].
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	node, err := m.lookupDir("open", dir)
	if err != nil {
		return nil, err
	}
	names := node.list()
	slices.Sort(names)
	return names, nil
}

// list returns the names that a directory has now, in no order; a file has none.
func (n *inode) list() []string {
	var names []string
	for name, e := range n.names {
		if e.now != nil {
			names = append(names, name)
		}
	}
	return names
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

// Stat is [FS.Stat]. The time of modification is that of creation.
func (m *Mem) Stat(name string) (os.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, node, err := m.lookup("lstat", name)
	if err != nil {
		return nil, err
	}
	info := memInfo{name: filepath.Base(name), mode: fileMode, made: node.made}
	if node.names != nil {
		info.mode = fs.ModeDir | dirMode
	} else {
		info.size = node.file.length()
	}
	return info, nil
}

// SyncDir is [FS.SyncDir].
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

// exclusive is in place of the number of those who share a lock.
const exclusive = -1

// Lock is [FS.Lock], against other calls on the same Mem; what [Mem.Crash] returns has no locks.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, node, err := m.find(name)
	if err == nil && node == nil {
		node = &inode{made: time.Now()}
		m.change(change{op: OpCreate, name: name, sets: [2]setting{{at, node}}})
	}
	return m.lock(name, node, err, m.locked[node] == 0, exclusive)
}

// LockShared is [FS.LockShared], as Lock is FS.Lock.
func (m *Mem) LockShared(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, node, err := m.find(name)
	if err == nil && node == nil {
		err = fs.ErrNotExist
	}
	sharers := m.locked[node]
	return m.lock(name, node, err, sharers >= 0, sharers+1)
}

// lock has the file that find found locked so, if it is one and the lock is free for that. The caller holds mu.
func (m *Mem) lock(name string, node *inode, err error, free bool, locked int) (io.Closer, error) {
	switch {
	case err != nil:
	case node.names != nil:
		err = ErrNotRegular
	case !free:
		err = ErrLocked
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	m.locked[node] = locked
	return &memLock{m: m, node: node, name: name}, nil
}

// memLock is a lock that is held.
type memLock struct {
	m      *Mem
	node   *inode
	name   string
	closed bool // guarded by m.mu
}

// Close releases the lock, once.
func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.closed {
		return &fs.PathError{Op: "close", Path: l.name, Err: fs.ErrClosed}
	}
	l.closed = true
	if l.m.locked[l.node]--; l.m.locked[l.node] <= 0 { // the last who shared it, or the only one
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
