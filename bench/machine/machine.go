// Package machine says where figures come from: the lines that bench and bench/compare print above theirs.
package machine

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A Machine is what a run was made on and with.
type Machine struct {
	OS   string `json:"goos"`
	Arch string `json:"goarch"`
	CPU  string `json:"cpu"` // as Linux names it, else empty
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// Here is the machine that this program runs on.
func Here() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: processor(), CPUs: runtime.NumCPU(), Go: runtime.Version()}
}

// processor is the processor's name, as Linux has it.
func processor() string {
	info, err := os.ReadFile(filepath.Join("/proc", "cpuinfo"))
	if err != nil {
		return "" // another system: the architecture has to do
	}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Header prints the lines above figures, as benchstat reads them: the command that repeats the run, the machine, and
// the directory of the program.
func (m Machine) Header(w io.Writer, command, dir string) {
	fmt.Fprintf(w, "command: %s\ngo: %s\ngoos: %s\ngoarch: %s\npkg: github.com/bloomkv/bloomkv/%s\ncpu: %s\ncpus: %d\n",
		command, m.Go, m.OS, m.Arch, dir, m.CPU, m.CPUs)
}
