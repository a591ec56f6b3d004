package read

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A version is the newest version of a key that a cursor may see.
type version struct {
	trailer ikey.Trailer
	order   int // index of its source
}

// nextVisible moves the merge, which is at a version if ok, to the newest visible version of the next key within the
// bounds; if again is true, of one that is not c.key. It sets key and version. The merge returns the versions of a key
// newest first, so that is the first visible one.
func (c *Cursor) nextVisible(ok, again bool) bool {
	steps := 0
	for ok {
		k := c.merge.Key()
		switch {
		case !c.bounds.open && bytes.Compare(k.User, c.bounds.upper) >= 0:
			return false
		case k.Trailer.Seq() > c.seq:
			ok = c.merge.Next()
		case again && bytes.Equal(k.User, c.key):
			steps++
			ok = c.skipOlder(k.Trailer, steps)
		default:
			c.key = append(c.key[:0], k.User...)
			c.version = version{k.Trailer, c.merge.Order()}
			return true
		}
	}
	return false
}

const patience = 8 // versions of one key to step over before a seek skips the rest

// skipOlder moves the merge on from an older version of c.key. Most keys have few, so step over them, and seek only if
// there are many. The seek's target sorts after all valid versions of the key. A trailer of 0, which only a damaged
// store has, equals the target: the seek would not move past it.
func (c *Cursor) skipOlder(t ikey.Trailer, steps int) bool {
	if steps < patience || t == 0 {
		return c.merge.Next()
	}
	return c.merge.SeekGE(ikey.Key{User: c.key})
}

// prevVisible moves the merge, which is at a version if ok, over all visible versions of the next key that is below,
// within the bounds, and sets key, version and more. Going backward, the merge returns the versions of a key oldest
// first, so the newest visible one is known only once the merge has left the key. Its value is copied, since it is
// invalid once the merge moves on.
func (c *Cursor) prevVisible(ok bool) bool {
	for ; ok; ok = c.merge.Prev() {
		k := c.merge.Key()
		if bytes.Compare(k.User, c.bounds.lower) < 0 {
			return false
		}
		if k.Trailer.Seq() > c.seq {
			continue
		}
		c.key = append(c.key[:0], k.User...)
		for ok && k.Trailer.Seq() <= c.seq && bytes.Equal(k.User, c.key) {
			c.version = version{k.Trailer, c.merge.Order()}
			if !c.keysOnly && k.Trailer.Kind() == ikey.Set {
				c.kept = append(c.kept[:0], c.merge.Value()...)
			}
			if ok = c.merge.Prev(); ok {
				k = c.merge.Key()
			}
		}
		c.more = ok
		return true
	}
	return false
}
