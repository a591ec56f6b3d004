package bloom

import (
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A Counting is a set from which keys can be removed. It has a counter of four bits for each bit of a Blocked Filter
// (Fan, Cao, Almeida, Broder, "Summary Cache: A Scalable Wide-Area Web Cache Sharing Protocol", IEEE/ACM Transactions
// on Networking 2000) and takes five times its memory; MayContain touches only the bits.
//
// It has no false negative for a key that was added more often than it was removed, provided that no key is removed
// that was not added. Remove cannot notice such a mistake if the key is a false positive.
//
// One goroutine may add and remove; any number may ask while none does.
type Counting struct {
	bits     Filter
	counters [][]byte // for each unit, two counters a byte, the one of the even bit in the low half
	keys     uint64   // calls of Add less those of Remove
	refused  uint64
}

// maxCount is the value at which a counter sticks: it is not decremented any more, since nobody knows how often it
// should be. With the number of keys that the set is made for, fewer than one counter in 10¹² gets there, unless a key
// is added many times.
const maxCount = 15

// NewCounting returns an empty set. Its errors are those of New.
func NewCounting(o Options) (*Counting, error) {
	if o.Layout != LayoutBlocked {
		return nil, layoutError("Counting", o.Layout)
	}
	f, err := New(o)
	if err != nil {
		return nil, err
	}
	c := &Counting{bits: *f}
	for i := range f.units {
		c.counters = append(c.counters, make([]byte, len(f.units[i].words)*(wordBits/2)))
	}
	return c, nil
}

func layoutError(kind string, l Layout) error {
	return fmt.Errorf("%w: %s with layout %v, want %v", bloomblock.ErrParams, kind, l, LayoutBlocked)
}

// Add adds a key. It reports whether the key was certainly not in the set before. A key that is added several times
// must be removed as often.
func (c *Counting) Add(key []byte) (added bool) { return c.AddHash(bloomblock.HashKey(key)) }

// AddHash adds a key by its hash: see Add.
func (c *Counting) AddHash(h bloomblock.Hash) (added bool) {
	if len(c.counters) == 0 {
		return false
	}
	added = c.bits.AddHash(h)
	h = c.bits.options.Seed.Mix(h)
	for i := range c.counters {
		base, x, y := c.bits.units[i].locate(h)
		for p := range c.bits.units[i].probes {
			if p == wordFields {
				x = y
			}
			counter, shift := c.counter(i, base+x%blockBits)
			if *counter>>shift&maxCount < maxCount {
				*counter += 1 << shift
			}
			x >>= fieldBits
		}
		h = h.Next()
	}
	c.keys++
	return added
}

// Remove removes a key that was added. It returns false, changes nothing and adds one to Refused if the key is
// certainly not in the set.
func (c *Counting) Remove(key []byte) bool { return c.RemoveHash(bloomblock.HashKey(key)) }

// RemoveHash removes a key by its hash: see Remove.
func (c *Counting) RemoveHash(h bloomblock.Hash) bool {
	if !c.bits.MayContainHash(h) {
		c.refused++
		return false
	}
	h = c.bits.options.Seed.Mix(h)
	for i := range c.counters {
		u := &c.bits.units[i]
		base, x, y := u.locate(h)
		for p := range u.probes {
			if p == wordFields {
				x = y
			}
			at := base + x%blockBits
			counter, shift := c.counter(i, at)
			switch *counter >> shift & maxCount {
			case 0, maxCount: // 0 only if the key was not added and two of its probes share a counter
			case 1:
				u.words[at/wordBits] &^= 1 << (at % wordBits)
				fallthrough
			default:
				*counter -= 1 << shift
			}
			x >>= fieldBits
		}
		h = h.Next()
	}
	c.keys -= min(c.keys, 1)
	return true
}

// counter returns the byte that has the counter of a bit of a unit, and the counter's shift in it.
func (c *Counting) counter(unit int, at uint64) (counter *byte, shift uint64) {
	return &c.counters[unit][at/2], at % 2 * 4
}

// locate returns the index of the first bit of the block of a mixed hash, and its fields.
func (u *unit) locate(h bloomblock.Hash) (base, x, y uint64) {
	x, y = h.Fields()
	return h.Block(u.blocks) * blockBits, x, y
}

// MayContain reports whether a key may be in the set. False is certain, unless a key was removed that was not added.
func (c *Counting) MayContain(key []byte) bool { return c.bits.MayContain(key) }

// MayContainHash asks for a key by its hash: see MayContain.
func (c *Counting) MayContainHash(h bloomblock.Hash) bool { return c.bits.MayContainHash(h) }

// Len returns the number of keys: the calls of Add less those of Remove that returned true.
func (c *Counting) Len() uint64 { return c.keys }

// Refused returns the number of calls of Remove that returned false.
func (c *Counting) Refused() uint64 { return c.refused }

// Stuck returns the number of counters that stick. Their bits stay set, which raises the false positive rate.
func (c *Counting) Stuck() (stuck int) {
	for _, counters := range c.counters {
		for _, b := range counters {
			if b&maxCount == maxCount {
				stuck++
			}
			if b>>4 == maxCount {
				stuck++
			}
		}
	}
	return stuck
}

// Saturated reports whether Len exceeds the number of keys that the set was made for.
func (c *Counting) Saturated() bool { return c.keys > uint64(c.bits.options.Keys) } //nolint:gosec // ≥ 0

// Options returns the options of the set, with the seed and rate that were chosen.
func (c *Counting) Options() Options { return c.bits.options }

// Bytes returns the size of the bits and counters in memory.
func (c *Counting) Bytes() int { return 5 * c.bits.Bytes() }

// Snapshot returns a Filter of the keys in the set: bit for bit that of New with the same Options and the same keys,
// if no counter sticks.
func (c *Counting) Snapshot() *Filter {
	f := c.bits.Clone()
	f.recount()
	return f
}
