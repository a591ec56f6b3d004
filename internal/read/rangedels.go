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

// at returns the sequence of the newest tombstone over key that the reader sees, or 0.
func (v *cover) at(key []byte) ikey.Seq {
	if v.set == nil {
		return 0
	}
	if !v.known || bytes.Compare(key, v.lo) < 0 || v.hi != nil && bytes.Compare(key, v.hi) >= 0 {
		v.lo, v.hi, v.newest = v.set.Stretch(key, v.seq)
		v.known = true
	}
	return v.newest
}

// end returns the upper end of the keys to which the last answer applies.
func (v *cover) end() []byte {
	if v.hi == nil {
		return deadkeys.Beyond
	}
	return v.hi
}

// deletedBy returns the newest source whose range tombstones delete the given version of c.key, which source order
// holds, or -1.
func (c *Cursor) deletedBy(version ikey.Trailer, order int) int {
	if len(c.covers) == 0 {
		return -1
	}
	for i := range c.covers[:order+1] {
		if c.covers[i].at(c.key) > version.Seq() {
			return i
		}
	}
	return -1
}
