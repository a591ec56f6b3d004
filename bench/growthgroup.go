package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
)

// groupSlack is the memory of a control group beside the process and a quarter of the files, in bytes: what the kernel
// needs for the process.
const groupSlack = 2 << 20

// inQuarter runs the job twice, in processes of their own. The first shows how much memory the process needs. The
// second is in a control group that has memory for that and for a quarter of the files, of which the system has nothing
// in memory before. Its results go to m.
func (j growthJob) inQuarter(ctx context.Context, files []string, fileBytes int64, m *measured) (err error) {
	again := []string{measureName}
	if err := cli.Again(ctx, again, j, m); err != nil {
		return err
	}
	memory := fileBytes/4 + int64(m.PeakAnonymous) + groupSlack //nolint:gosec // less than the machine's memory
	if j.Group, err = newGroup(memory); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeGroup(j.Group)) }()
	for _, name := range files {
		if err := machine.DropCached(name); err != nil {
			return err
		}
	}
	*m = measured{}
	return cli.Again(ctx, again, j, m)
}

// newGroup creates a control group of the operating system, which bounds the memory of its processes and what the
// system keeps of the files that they read, together. It returns the directory of the group, in the second version of
// control groups or the first.
func newGroup(memory int64) (string, error) {
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
			if err = write(dir, place.limit, memory); err == nil {
				_ = write(dir, place.swap, 0) // systems without swap may not have the file
				return dir, nil
			}
			err = errors.Join(err, os.Remove(dir))
		}
		failed = append(failed, err)
	}
	return "", fmt.Errorf("no control group with a limit of memory: %w", errors.Join(failed...))
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

// write writes a number into a file of a group.
func write(group, name string, n int64) error {
	return os.WriteFile(filepath.Join(group, name), []byte(strconv.FormatInt(n, 10)), 0)
}

// removeGroup removes a group, whose processes have ended.
func removeGroup(group string) (err error) {
	for range 100 { // the system may take a moment to notice that
		if err = os.Remove(group); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}
