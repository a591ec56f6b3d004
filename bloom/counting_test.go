package bloom

import (
	"math/rand/v2"
	"testing"
)

// Random additions, removals and questions against a multiset. Only keys that are in it are removed, except for those
// that the filter denies: these are refused.
func TestCountingHasWhatIsStillIn(t *testing.T) {
	c := must(NewCounting(Options{Keys: *operations / 10, Seed: testSeed}))
	in, size, refused := make(map[uint64]int), uint64(0), uint64(0)
	random := rand.New(rand.NewPCG(3, 4))
	for range *operations {
		k := random.Uint64N(uint64(*operations / 4))
		switch random.Uint64N(4) {
		case 0, 1:
			c.AddHash(hash(k))
			in[k]++
			size++
		case 2:
			if maybe := c.MayContainHash(hash(k)); maybe && in[k] == 0 {
				continue // removing a false positive is the caller's mistake
			}
			removed := c.RemoveHash(hash(k))
			if removed != (in[k] > 0) {
				t.Fatalf("Remove of a key that is in %d times returns %v", in[k], removed)
			}
			if removed {
				in[k]--
				size--
			} else {
				refused++
			}
		default:
			if in[k] > 0 && !c.MayContainHash(hash(k)) {
				t.Fatalf("key %d is in %d times and is denied", k, in[k])
			}
		}
	}
	if c.Len() != size || c.Refused() != refused || refused == 0 {
		t.Errorf("%d keys, %d refused, want %d and %d", c.Len(), c.Refused(), size, refused)
	}
	f := newFilter(t, c.Options())
	for k, n := range in {
		if n > 0 {
			f.AddHash(hash(k))
			if !c.MayContainHash(hash(k)) {
				t.Fatalf("key %d is in %d times and is denied at the end", k, n)
			}
		}
	}
	if c.Stuck() == 0 && !equal(f, c.Snapshot()) {
		t.Error("the bits differ from those of a filter of the keys that are still in")
	}
}

func TestCountersThatAreFullStick(t *testing.T) {
	c := must(NewCounting(Options{Keys: 100, Seed: testSeed}))
	key := []byte("many times")
	for range 40 {
		c.Add(key)
	}
	if c.Stuck() == 0 || c.Saturated() {
		t.Errorf("%d counters stick, saturated %v", c.Stuck(), c.Saturated())
	}
	for i := range 40 {
		if !c.Remove(key) || !c.MayContain(key) {
			t.Fatalf("after %d removals the key is denied", i)
		}
	}
	if c.Len() != 0 {
		t.Errorf("%d keys, want 0", c.Len())
	}
	// The caller's mistake: more removals than additions neither panic nor make Len wrap around.
	if !c.Remove(key) || c.Len() != 0 {
		t.Errorf("%d keys after one removal too many", c.Len())
	}
}
