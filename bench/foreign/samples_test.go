package foreign_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

type file struct {
	name  string
	table []byte
}

// pebbleSamples returns tables in Pebble's own directory of samples, among them one with an index of two levels.
func pebbleSamples(t *testing.T) (all []file) {
	t.Helper()
	const module = "github.com/cockroachdb/pebble/v2"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	must(t, err)
	names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "sstable", "testdata", "h-*", "*.sst"))
	must(t, err)
	if len(names) == 0 {
		t.Skip("Pebble has no samples")
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(t, err)
		all = append(all, file{filepath.Base(filepath.Dir(name)), b})
	}
	return all
}
