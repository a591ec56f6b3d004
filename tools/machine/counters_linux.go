package machine

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// own counts the reads of Read itself, which are not reported.
var own struct {
	mu           sync.Mutex
	calls, chars uint64
	buffer       [8 << 10]byte
}

// Read returns the counters, without the reads of Read itself. It returns false if the system does not have them.
//
// The Go runtime also reads, a few times per second, to follow the number of available processors.
func Read() (Counters, bool) {
	own.mu.Lock()
	defer own.mu.Unlock()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return Counters{}, false
	}
	c := Counters{User: time.Duration(usage.Utime.Nano()), System: time.Duration(usage.Stime.Nano())}
	ok := eachLine("status", func(name string, n uint64) {
		switch name {
		case "VmRSS":
			c.Resident = n << 10 // the unit is kB
		case "VmHWM":
			c.PeakResident = n << 10
		case "RssAnon":
			c.Anonymous = n << 10
		}
	})
	calls, chars := own.calls, own.chars // the read of these counters is not counted yet
	ok = eachLine("io", func(name string, n uint64) {
		switch name {
		case "syscr":
			c.Reads = n - calls
		case "rchar":
			c.ReadChars = n - chars
		case "syscw":
			c.Writes = n
		case "wchar":
			c.WriteChars = n
		case "write_bytes":
			c.WriteBytes = n
		}
	}) && ok
	return c, ok
}

// eachLine calls f for each line of a file about this process that is a name and a number. It reads the file with one
// call.
func eachLine(file string, f func(name string, n uint64)) bool {
	in, err := os.Open(filepath.Join("/proc", "self", file))
	if err != nil {
		return false
	}
	n, err := in.Read(own.buffer[:])
	own.calls++
	own.chars += uint64(max(n, 0))
	if err := errors.Join(err, in.Close()); err != nil {
		return false
	}
	for line := range strings.Lines(string(own.buffer[:n])) {
		name, rest, _ := strings.Cut(line, ":")
		if fields := strings.Fields(rest); len(fields) > 0 {
			if n, err := strconv.ParseUint(fields[0], 10, 64); err == nil {
				f(name, n)
			}
		}
	}
	return true
}

// ResetPeak sets PeakResident to Resident, and reports whether the system could do so.
func ResetPeak() bool {
	f, err := os.OpenFile(filepath.Join("/proc", "self", "clear_refs"), os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	_, err = f.WriteString("5")
	return f.Close() == nil && err == nil
}

// DropCached makes the system forget what it has of a file in memory. Others must not have it mapped.
func DropCached(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	if err = f.Sync(); err == nil { // only what is on the disk is dropped
		err = os.NewSyscallError("fadvise", unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	}
	return errors.Join(err, f.Close())
}
