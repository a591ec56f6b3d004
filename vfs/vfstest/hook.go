package vfstest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/bloomkv/bloomkv/vfs"
)

// OpKind is a kind of operation on a [vfs.FS] or a [vfs.File].
type OpKind uint8

// The operations. OpClose is the Close of a file or of a lock.
const (
	OpCreate OpKind = iota + 1
	OpOpen
	OpRemove
	OpRename
	OpLink
	OpMkdir
	OpList
	OpStat
	OpSyncDir
	OpLock
	OpLockShared
	OpFreeSpace
	OpReadAt
	OpWrite
	OpReserve
	OpSync
	OpSize
	OpClose
	OpHold
)

// ErrShortWrite is returned, wrapped or not, by the hook of [NewHook] to have half of the bytes written before the
// write fails.
var ErrShortWrite = errors.New("short write")

var opNames = [...]string{
	OpCreate: "create", OpOpen: "open", OpRemove: "remove", OpRename: "rename", OpLink: "link", OpMkdir: "mkdir",
	OpList: "list", OpStat: "stat", OpSyncDir: "syncdir", OpLock: "lock", OpLockShared: "lockshared",
	OpFreeSpace: "freespace", OpReadAt: "readat", OpWrite: "write", OpReserve: "reserve", OpSync: "sync",
	OpSize: "size", OpClose: "close", OpHold: "hold",
}

// String returns the operation's name in lower case.
func (k OpKind) String() string {
	if int(k) < len(opNames) && opNames[k] != "" {
		return opNames[k]
	}
	return fmt.Sprintf("OpKind(%d)", uint8(k))
}

// Changes reports whether the operation can change what a crash leaves: all operations except those that only read.
func (k OpKind) Changes() bool {
	switch k {
	case OpCreate, OpRemove, OpRename, OpLink, OpMkdir, OpSyncDir, OpLock, OpWrite, OpReserve, OpSync:
		return true
	case OpOpen, OpList, OpStat, OpLockShared, OpFreeSpace, OpReadAt, OpSize, OpClose, OpHold:
	}
	return false
}

// Op is an operation about to be performed.
type Op struct {
	Kind   OpKind
	Name   string // of the file or directory, as the caller passed it; the old name of a rename or a link
	To     string // the new name of a rename or a link
	Offset int64  // of a ReadAt
	Size   int    // bytes of a ReadAt, a Write or a Reserve, capped at the largest int
}

// String returns the operation and its arguments, for a test's log.
func (o Op) String() string {
	switch o.Kind {
	case OpRename, OpLink:
		return fmt.Sprintf("%v %s %s", o.Kind, o.Name, o.To)
	case OpReadAt:
		return fmt.Sprintf("%v %s %d+%d", o.Kind, o.Name, o.Offset, o.Size)
	case OpWrite, OpReserve:
		return fmt.Sprintf("%v %s %d", o.Kind, o.Name, o.Size)
	case OpCreate, OpOpen, OpRemove, OpMkdir, OpList, OpStat, OpSyncDir, OpLock, OpLockShared, OpFreeSpace, OpSync,
		OpSize, OpClose, OpHold:
	}
	return fmt.Sprintf("%v %s", o.Kind, o.Name)
}

// NewHook returns an FS that calls hook before each operation on fsys and its files. If hook returns an error, the
// operation is not performed and returns that error, unwrapped, with two exceptions: a write whose hook error matches
// [ErrShortWrite] writes half of its bytes, rounded down; and a close that fails has closed all the same, like the
// system's.
//
// The hook runs on the goroutine of the operation, so it must be safe for concurrent use. It may use fsys, wait, crash
// it ([Mem.Crash]), or not return.
func NewHook(fsys vfs.FS, hook func(Op) error) vfs.FS { return &hookFS{fsys, hook} }

type hookFS struct {
	fsys vfs.FS
	hook func(Op) error
}

// hooked performs an operation on one name, unless the hook fails.
func hooked[T any](h *hookFS, kind OpKind, name string, do func(name string) (T, error)) (result T, err error) {
	if err = h.hook(Op{Kind: kind, Name: name}); err == nil {
		result, err = do(name)
	}
	return result, err
}

// change is hooked for an operation without a result.
func (h *hookFS) change(kind OpKind, name string, do func(name string) error) error {
	if err := h.hook(Op{Kind: kind, Name: name}); err != nil {
		return err
	}
	return do(name)
}

func (h *hookFS) Create(name string) (vfs.File, error) { return h.open(OpCreate, name, h.fsys.Create) }

func (h *hookFS) Open(name string) (vfs.File, error) { return h.open(OpOpen, name, h.fsys.Open) }

func (h *hookFS) open(kind OpKind, name string, do func(string) (vfs.File, error)) (vfs.File, error) {
	f, err := hooked(h, kind, name, do)
	if err != nil {
		return nil, err
	}
	return &hookFile{f, h, name}, nil
}

func (h *hookFS) Remove(name string) error { return h.change(OpRemove, name, h.fsys.Remove) }

func (h *hookFS) Rename(oldname, newname string) error {
	if err := h.hook(Op{Kind: OpRename, Name: oldname, To: newname}); err != nil {
		return err
	}
	return h.fsys.Rename(oldname, newname)
}

func (h *hookFS) Link(oldname, newname string) error {
	if err := h.hook(Op{Kind: OpLink, Name: oldname, To: newname}); err != nil {
		return err
	}
	return h.fsys.Link(oldname, newname)
}

func (h *hookFS) Mkdir(name string) error { return h.change(OpMkdir, name, h.fsys.Mkdir) }

func (h *hookFS) List(dir string) ([]string, error) { return hooked(h, OpList, dir, h.fsys.List) }

func (h *hookFS) Stat(name string) (os.FileInfo, error) { return hooked(h, OpStat, name, h.fsys.Stat) }

// FreeSpace implements [vfs.FreeSpacer.FreeSpace].
func (h *hookFS) FreeSpace(dir string) (uint64, error) {
	f, ok := h.fsys.(vfs.FreeSpacer)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return hooked(h, OpFreeSpace, dir, f.FreeSpace)
}

func (h *hookFS) SyncDir(dir string) error { return h.change(OpSyncDir, dir, h.fsys.SyncDir) }

// Hold implements [vfs.Holder.Hold]: the operations in the held directory have the names that the caller passes.
func (h *hookFS) Hold(dir string) (vfs.HeldFS, error) {
	held, err := hooked(h, OpHold, dir, func(dir string) (vfs.HeldFS, error) { return vfs.Hold(h.fsys, dir) })
	if err != nil {
		return nil, err
	}
	return heldHook{&hookFS{held, h.hook}, held}, nil
}

// heldHook is the result of hookFS.Hold.
type heldHook struct {
	*hookFS
	held io.Closer
}

func (h heldHook) Close() error { return h.held.Close() }

// Inside implements [vfs.Inside].
func (h *hookFS) Inside(dir, outer string) (bool, error) { return vfs.Inside(h.fsys, dir, outer) }

func (h *hookFS) Lock(name string) (vfs.Lock, error) { return h.lock(OpLock, name, h.fsys.Lock) }

func (h *hookFS) LockShared(name string) (vfs.Lock, error) {
	return h.lock(OpLockShared, name, h.fsys.LockShared)
}

func (h *hookFS) lock(kind OpKind, name string, take func(string) (vfs.Lock, error)) (vfs.Lock, error) {
	lock, err := hooked(h, kind, name, take)
	if err != nil {
		return nil, err
	}
	return &hookLock{lock, h, name}, nil
}

// hookLock is a lock of a hookFS.
type hookLock struct {
	lock vfs.Lock
	fs   *hookFS
	name string
}

// Check implements [vfs.Lock.Check], as an OpStat of the lock's name.
func (l *hookLock) Check() error {
	return l.fs.change(OpStat, l.name, func(string) error { return l.lock.Check() })
}

func (l *hookLock) Close() error { return l.fs.close(l.lock, l.name) }

// close closes c whether or not the hook fails: a failed close must leave nothing open or locked.
func (h *hookFS) close(c io.Closer, name string) error {
	err := h.hook(Op{Kind: OpClose, Name: name})
	closeErr := c.Close()
	if err == nil {
		return closeErr
	}
	return err
}

// hookFile is a file of a hookFS.
type hookFile struct {
	f    vfs.File
	fs   *hookFS
	name string
}

func (f *hookFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.hook(Op{Kind: OpReadAt, Name: f.name, Offset: off, Size: len(p)}); err != nil {
		return 0, err
	}
	return f.f.ReadAt(p, off)
}

func (f *hookFile) Write(p []byte) (int, error) {
	err := f.fs.hook(Op{Kind: OpWrite, Name: f.name, Size: len(p)})
	if errors.Is(err, ErrShortWrite) {
		n, writeErr := f.f.Write(p[:len(p)/2])
		return n, errors.Join(err, writeErr)
	}
	if err != nil {
		return 0, err
	}
	return f.f.Write(p)
}

// Reserve reserves in the wrapped file, if it is a Reserver.
func (f *hookFile) Reserve(n int64) error {
	if err := f.fs.hook(Op{Kind: OpReserve, Name: f.name, Size: int(min(n, math.MaxInt))}); err != nil {
		return err
	}
	if r, ok := f.f.(vfs.Reserver); ok {
		return r.Reserve(n)
	}
	return &fs.PathError{Op: "reserve", Path: f.name, Err: errors.ErrUnsupported}
}

func (f *hookFile) Sync() error {
	return f.fs.change(OpSync, f.name, func(string) error { return f.f.Sync() })
}

func (f *hookFile) Size() (int64, error) {
	return hooked(f.fs, OpSize, f.name, func(string) (int64, error) { return f.f.Size() })
}

func (f *hookFile) Close() error {
	return f.fs.close(f.f, f.name)
}
