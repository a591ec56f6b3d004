// Package machine describes the machine of a benchmark: the lines that bench and bench/compare print above their
// results.
package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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
