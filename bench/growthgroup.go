package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A group is a control group of the operating system, which bounds the memory of its processes and what the system
// keeps of the files that they read.
type group struct{ dir string }

// groupSlack is the memory of a group beyond what a process had without one, in bytes.
const groupSlack = 16 << 20

// newGroup creates a group with the given bytes of memory, in the second version of control groups or the first.
func newGroup(memory int64) (*group, error) {
	var failed []error
	for _, place := range []struct{ dir, limit, swap string }{
		{"/sys/fs/cgroup", "memory.max", "memory.swap.max"},
		{
			filepath.Join("/sys/fs/cgroup/memory", ownGroup("memory")),
			"memory.limit_in_bytes", "memory.swappiness",
		},
	} {
		if _, err := os.Stat(filepath.Join(place.dir, "cgroup.procs")); err != nil {
			failed = append(failed, err)
			continue
		}
		dir, err := os.MkdirTemp(place.dir, tempPattern)
		if err == nil {
			if err = write(filepath.Join(dir, place.limit), memory); err == nil {
				_ = write(filepath.Join(dir, place.swap), 0) // systems without swap may not have the file
				return &group{dir}, nil
			}
			err = errors.Join(err, os.Remove(dir))
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("no control group with a limit of memory: %w", errors.Join(failed...))
}

// ownGroup returns the path of the group of this process in a hierarchy of the first version.
func ownGroup(controller string) string {
	all, _ := os.ReadFile("/proc/self/cgroup") // if there is none, no group can be created
	for line := range strings.Lines(string(all)) {
		if _, path, ok := strings.Cut(strings.TrimSpace(line), ":"+controller+":"); ok {
			return path
		}
	}
	return ""
}

// write writes a number into a file that exists.
func write(name string, n int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strconv.FormatInt(n, 10))
	return errors.Join(err, f.Close())
}

// add puts a process into the group.
func (g *group) add(pid int) error { return write(filepath.Join(g.dir, "cgroup.procs"), int64(pid)) }

// remove removes the group, whose processes have ended.
func (g *group) remove() (err error) {
	for range 100 { // the system may take a moment to notice that
		if err = os.Remove(g.dir); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}
