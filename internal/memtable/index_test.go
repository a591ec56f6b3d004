package memtable

import (
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// The filter is made of 32 bits of each hash, and rebuilt from them at every growth. It must stay as good as it was.
func TestTheFilterOfAGrownIndex(t *testing.T) {
	testkit.Long(t)
	x := newIndex(0, new(arena))
	for i := range 100_000 {
		if i == x.limit() {
			x = x.grown(0, new(arena), func(r ref) ref { return r })
		}
		x.put(tagOf(bloomblock.HashKey(fmt.Append(nil, "key", i))), ref(i+1))
	}
	for i := range 100_000 {
		if !x.filter.mayContain(tagOf(bloomblock.HashKey(fmt.Append(nil, "key", i)))) {
			t.Fatalf("key%d is lost", i)
		}
	}
	const tries = 200_000
	wrong := 0
	for i := range tries {
		if x.filter.mayContain(tagOf(bloomblock.HashKey(fmt.Append(nil, "absent", i)))) {
			wrong++
		}
	}
	// The capacity is 147456 keys, 8.8 bits for each.
	if rate := float64(wrong) / tries; rate > 0.03 {
		t.Errorf("false positives: %.4f, want at most 0.03", rate)
	}
}

func TestAnIndexHoldsWhatItIsMadeFor(t *testing.T) {
	for _, keys := range []int{-1, 0, 1, 47, 48, 49, 1000, 49152, 49153} {
		x := newIndex(keys, new(arena))
		if x.limit() < keys || len(x.slots) > minSlots && x.limit() >= 2*keys {
			t.Errorf("an index for %d keys holds %d", keys, x.limit())
		}
		if got := x.filter.bytes(); got > int64(x.limit()) || got <= int64(x.limit())-8 { // a byte for each key
			t.Errorf("the filter of %d keys takes %d bytes", x.limit(), got)
		}
		// The last tag wraps around.
		for i := range 3 {
			x.put(tag(1<<32-1), ref(i+1))
		}
		if x.slots[0].Load() == 0 || x.slots[1].Load() == 0 {
			t.Errorf("%d keys: equal tags at the end do not go on at the beginning", keys)
		}
	}
}
