package inspect

import (
	"bytes"
	"testing"
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
