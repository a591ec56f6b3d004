package bloomkv

import (
	"fmt"
	"testing"
)

func TestTheEndOfAPrefix(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{
		{"", "nil"}, {"a", "b"}, {"a\xff", "b"}, {"\xff\xff", "nil"}, {"a\x00", "a\x01"},
	} {
		got := "nil"
		if end := after([]byte(c.prefix)); end != nil {
			got = string(end)
		}
		if got != c.want {
			t.Errorf("after(%q) = %q, want %q", c.prefix, got, c.want)
		}
	}
	o := IterOptions{Lower: []byte("b"), Upper: []byte("z"), Prefix: []byte("c")}
	if lo, hi := o.bounds(); fmt.Sprintf("%s %s", lo, hi) != "c d" {
		t.Errorf("bounds = %s %s, want c d", lo, hi)
	}
}
