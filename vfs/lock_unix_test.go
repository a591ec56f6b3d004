//go:build unix && !aix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// TestALockIsInTheListOfTheProcess matters where the lock of the kernel does not hold within a process.
func TestALockIsInTheListOfTheProcess(t *testing.T) {
	names := []string{filepath.Join(t.TempDir(), "LOCK"), filepath.Join(t.TempDir(), "LOCK")}
	listed := func(name string) bool {
		info, err := os.Stat(name)
		testkit.Must(t, err)
		return heldAs(info) != nil
	}
	var held []Lock
	for _, name := range names {
		lock, err := OS.Lock(name)
		testkit.Must(t, err)
		held = append(held, lock)
	}
	if !listed(names[0]) || !listed(names[1]) {
		t.Error("a lock is not in the list")
	}
	testkit.Must(t, held[0].Close())
	if listed(names[0]) || !listed(names[1]) {
		t.Error("a lock that was released is in the list, or another is not")
	}
	f := held[1].(*osLock).held.f //nolint:errcheck,forcetypeassert // what OS makes
	testkit.Must(t, f.Close())
	if err := held[1].Close(); !errors.Is(err, fs.ErrClosed) || listed(names[1]) {
		t.Errorf("Close of a lock whose file is closed: %v", err)
	}
	if err := flock(f, false); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a lock on a file that is closed: %v", err)
	}
	if err := withDescriptor(nil, nil); err == nil {
		t.Error("a descriptor of no file")
	}
}

// TestALockDoesNotWaitForAnotherDevice has a call for a file on one device not return, and locks a file on another.
func TestALockDoesNotWaitForAnotherDevice(t *testing.T) {
	hung, dir := t.TempDir(), t.TempDir()
	info, err := os.Stat(hung)
	testkit.Must(t, err)
	defer func(was func(os.FileInfo) any) { deviceOf = was }(deviceOf)
	deviceOf = func(file os.FileInfo) any { return os.SameFile(file, info) }
	device, err := osFS{}.deviceMutex(filepath.Join(hung, "LOCK"))
	testkit.Must(t, err)
	device.Lock() // as a call does over all that it asks of the file system
	defer device.Unlock()
	testkit.Within(t, "a lock on another device", func() {
		lock, err := OS.Lock(filepath.Join(dir, "LOCK"))
		if err == nil {
			err = lock.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
}
