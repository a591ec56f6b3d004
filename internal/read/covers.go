package read

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A cover is what the range tombstones of one source say around a key. It is asked for key after key, so it keeps its last
// answer for as long as it holds.
type cover struct {
	set    rangedel.Set // nil: the source has no range tombstones
	seq    ikey.Seq     // what the reader sees
	known  bool         // lo, hi and newest are an answer
	lo, hi []byte       // the stretch that it is for; hi nil is infinite
	newest ikey.Seq     // of the tombstones over it, 0 if none
}

// at is the newest tombstone over key that the reader sees, 0 if there is none.
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

// end is the upper end of the stretch.
func (v *cover) end() []byte {
	if v.hi == nil {
		return deadkeys.Beyond
	}
	return v.hi
}

// deletedBy is the newest source whose range tombstones delete a version of c.key that source order has, -1 if none does.
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
