package bloomkv

import (
	"fmt"
	"testing"
)

func TestBoundsAreWithinThePrefix(t *testing.T) {
	o := IterOptions{Lower: []byte("b"), Upper: []byte("z"), Prefix: []byte("c")}
	if lo, hi := o.bounds(); fmt.Sprintf("%s %s", lo, hi) != "c d" {
		t.Errorf("bounds = %s %s, want c d", lo, hi)
	}
}
