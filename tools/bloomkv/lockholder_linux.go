package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bloomkv/bloomkv/internal/filename"
)

// lockHolder returns the process that holds the lock of a store, one of them if it is shared, or 0 if that is not
// known.
func lockHolder(dir string) (pid int) {
	info, err := os.Stat(filepath.Join(dir, filename.LockName))
	if err != nil {
		return 0
	}
	at, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	major, minor := at.Dev>>8&0xfff|at.Dev>>32&^0xfff, at.Dev&0xff|at.Dev>>12&^0xff&0xffffffff
	file := fmt.Sprintf("%02x:%02x:%d", major, minor, at.Ino)
	list, _ := os.ReadFile("/proc/locks") // without it nothing is known
	for line := range bytes.Lines(list) { // 1: FLOCK ADVISORY WRITE 4711 fe:01:131090 0 EOF
		f := bytes.Fields(line)
		if len(f) == 8 && string(f[5]) == file {
			_, _ = fmt.Sscan(string(f[4]), &pid)
		}
	}
	return pid
}
