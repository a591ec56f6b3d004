package prefetch_test

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/prefetch"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var must = testkit.Must

// A prefetch changes nothing, for any alignment and length, and allocates nothing.
func TestPrefetchChangesNothing(t *testing.T) {
	b := make([]byte, 1<<10)
	for i := range b {
		b[i] = byte(i)
	}
	var word uint64 = 7
	if n := testing.AllocsPerRun(1, func() {
		prefetch.Bytes(nil)
		prefetch.Line(&word)
		for i := range 130 {
			prefetch.Bytes(b[i:])
			prefetch.Bytes(b[len(b)-i:])
			prefetch.Bytes(b[i : i+1])
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range b {
		if b[i] != byte(i) || word != 7 {
			t.Fatalf("byte %d is %d, the word %d", i, b[i], word)
		}
	}
}
