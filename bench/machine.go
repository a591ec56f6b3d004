package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// environment is where figures come from.
type environment struct {
	OS   string `json:"goos"`
	Arch string `json:"goarch"`
	CPU  string `json:"cpu"` // as Linux names it, else empty
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

func machine() environment {
	e := environment{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	info, err := os.ReadFile(filepath.Join("/proc", "cpuinfo"))
	if err != nil {
		return e // another system: the architecture has to do
	}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			e.CPU = strings.TrimSpace(value)
			break
		}
	}
	return e
}

// command is what a reader types to repeat a run.
func command(args []string) string {
	return strings.Join(append([]string{"go run ./bench"}, args...), " ")
}
