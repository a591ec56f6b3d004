// Package machine describes the machine of a benchmark, in the lines above the results, and reads the counters that the
// operating system has for the process.
package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A Machine describes where a benchmark ran.
type Machine struct {
	OS   string `json:"goos"`
	Arch string `json:"goarch"`
	CPU  string `json:"cpu"` // the name on Linux, "" elsewhere
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// Here describes the machine that this program runs on.
func Here() Machine {
	return Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: processor(),
		CPUs: runtime.NumCPU(), Go: runtime.Version(),
	}
}

// processor returns the name of the processor on Linux.
func processor() string {
	info, err := os.ReadFile(filepath.Join("/proc", "cpuinfo"))
	if err != nil {
		return "" // elsewhere the architecture must suffice
	}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Header returns the lines that benchstat expects above results: the command to repeat them, the machine, and the
// directory of the program.
func (m Machine) Header(command, dir string) string {
	return fmt.Sprintf("command: %s\ngo: %s\ngoos: %s\ngoarch: %s\n"+
		"pkg: github.com/bloomkv/bloomkv/%s\ncpu: %s\ncpus: %d\n", command, m.Go, m.OS, m.Arch, dir, m.CPU, m.CPUs)
}

// Counters are the operating system's counters for this process since it started.
type Counters struct {
	Reads     uint64 // calls of read on files of any kind
	ReadChars uint64 // bytes returned by them, from the page cache or the disk

	Writes     uint64 // calls of write
	WriteChars uint64 // bytes written by them
	WriteBytes uint64 // bytes to be written to the disk, now or later

	Resident     uint64 // bytes in memory now
	PeakResident uint64 // maximum of Resident since the start or ResetPeak
	Anonymous    uint64 // the part of Resident that is of no file

	User   time.Duration // processor time in the program
	System time.Duration // processor time in the kernel
}

// Sub returns the difference to earlier counters. Resident, PeakResident and Anonymous stay as they
// are.
func (c Counters) Sub(before Counters) Counters {
	c.Reads -= before.Reads
	c.ReadChars -= before.ReadChars
	c.Writes -= before.Writes
	c.WriteChars -= before.WriteChars
	c.WriteBytes -= before.WriteBytes
	c.User -= before.User
	c.System -= before.System
	return c
}
