package read

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A cover returns the newest range tombstone of one source over a key. It is called for one key after another, so it
// keeps its last answer as long as that applies.
type cover struct {
	set    rangedel.Set // nil if the source has no range tombstones
	seq    ikey.Seq     // sequence of the reader
	known  bool         // lo, hi and newest are valid
	lo, hi []byte       // the answer applies to keys in [lo, hi); a nil hi is unbounded
	newest ikey.Seq     // newest tombstone over [lo, hi), or 0
}

// covering returns the sequence of the newest tombstone over key that the reader sees, or 0.
func (v *cover) covering(key []byte) ikey.Seq {
	if v.set == nil {
		return 0
	}
	if !v.known || bytes.Compare(key, v.lo) < 0 || v.hi != nil && bytes.Compare(key, v.hi) >= 0 {
		v.lo, v.hi, v.newest = v.set.Stretch(key, v.seq)
		v.known = true
	}
	return v.newest
}

// end returns the upper end of the keys to which the last answer applies, or the lower one for a backward move.
func (v *cover) end(back bool) []byte {
	switch {
	case back:
		return v.lo
	case v.hi == nil:
		return deadkeys.Beyond
	}
	return v.hi
}

// deletedBy returns the newest source whose range tombstones delete the version of c.key, or -1.
func (c *Cursor) deletedBy() int {
	for i := range c.covers[:c.version.order+1] {
		if c.covers[i].covering(c.key) > c.version.trailer.Seq() {
			return i
		}
	}
	return -1
}

// target returns the position from which the merge moves to the visible versions of the keys from key on, or backward
// to those of the keys below it.
func (c *Cursor) target(key []byte) ikey.Key {
	if c.back {
		return ikey.Search(key, ikey.MaxSeq)
	}
	return ikey.Search(key, c.seq)
}

// eachTarget returns the target of each source in a seek of key: range tombstones of a source move it for the older
// ones.
func (c *Cursor) eachTarget(key []byte) []ikey.Key {
	c.targets = c.targets[:0]
	for i := range c.covers {
		c.targets = append(c.targets, c.target(key))
		if v := &c.covers[i]; v.covering(key) > 0 {
			key = v.end(c.back)
		}
	}
	return c.targets
}
