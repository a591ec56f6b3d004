package inspect

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/sstable"
)

func TestAFilterBlockIsCutOutOfItsFile(t *testing.T) {
	file := bytes.NewReader([]byte("data-filter-tail"))
	if b, err := filterBlock("000001.sst", file, 16, 4, 7); err != nil || string(b) != "filter-" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := filterBlock("000001.sst", file, 16, 4, 0); err != nil || b != nil {
		t.Errorf("without a filter: %q, %v", b, err)
	}
	for _, c := range [][3]uint64{{16, 17, 1}, {16, 4, 13}, {16, 0, 1 << 63}, {1 << 63, 0, 1 << 62}, {100, 4, 50}} {
		if b, err := filterBlock("000001.sst", file, c[0], c[1], c[2]); err == nil {
			t.Errorf("size %d, tail %d, filter %d: %q, want an error", c[0], c[1], c[2], b)
		}
	}
}

// TestNoTableStaysOpen reads tables that are whole, cut short, or none.
func TestNoTableStaysOpen(t *testing.T) {
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc/self/fd")
		}
		return len(fds)
	}
	name := filepath.Join(t.TempDir(), "000001.sst")
	f, err := os.Create(name)
	testkit.Must(t, err)
	w := sstable.NewWriter(f, sstable.WriterOptions{})
	testkit.Must(t, errors.Join(w.Add([]byte("k"), []byte("v")), w.Finish(), f.Close()))
	whole, err := os.ReadFile(name)
	testkit.Must(t, err)
	before := open()
	for _, size := range []int{len(whole), len(whole) - 1, 8, 0} {
		testkit.Must(t, os.WriteFile(name, whole[:size], 0o600))
		_, _, filters := ReadFilters(name)
		_, table := ReadTable(t.Context(), name, Options{})
		if ok := size == len(whole); (filters == nil) != ok || (table == nil) != ok {
			t.Errorf("%d of %d bytes: %v, %v; want errors: %v", size, len(whole), filters, table, !ok)
		}
	}
	if after := open(); after != before {
		t.Errorf("%d descriptors are open, and before it were %d", after, before)
	}
}
