package manifest

import (
	"bytes"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/words"
)

// Bounds are a range of keys that begins with Lo. A nil Hi, and only that, is infinite; any other is the last key or,
// if Exclusive, the first key behind the range. If Hi is nil, Exclusive has no meaning.
type Bounds struct {
	Lo, Hi    []byte
	Exclusive bool
}

// EndsBefore reports whether all of b is less than key.
func (b Bounds) EndsBefore(key []byte) bool {
	if b.Hi == nil {
		return false
	}
	c := bytes.Compare(b.Hi, key)
	return c < 0 || c == 0 && b.Exclusive
}

// Union returns the smallest range that contains both b and c.
func (b Bounds) Union(c Bounds) Bounds {
	if bytes.Compare(c.Lo, b.Lo) < 0 {
		b.Lo = c.Lo
	}
	if b.Hi == nil || c.Hi == nil {
		b.Hi, b.Exclusive = nil, false
		return b
	}
	switch order := bytes.Compare(b.Hi, c.Hi); {
	case order < 0:
		b.Hi, b.Exclusive = c.Hi, c.Exclusive
	case order == 0:
		b.Exclusive = b.Exclusive && c.Exclusive
	}
	return b
}

// Holds reports whether b contains all of c.
func (b Bounds) Holds(c Bounds) bool {
	switch {
	case bytes.Compare(c.Lo, b.Lo) < 0:
		return false
	case b.Hi == nil || c.Hi == nil:
		return b.Hi == nil
	}
	order := bytes.Compare(c.Hi, b.Hi)
	return order < 0 || order == 0 && (c.Exclusive || !b.Exclusive)
}

// String returns b as an interval.
func (b Bounds) String() string {
	switch {
	case b.Hi == nil:
		return fmt.Sprintf("[%s,∞)", words.Quoted(b.Lo))
	case b.Exclusive:
		return fmt.Sprintf("[%s,%s)", words.Quoted(b.Lo), words.Quoted(b.Hi))
	default:
		return fmt.Sprintf("[%s,%s]", words.Quoted(b.Lo), words.Quoted(b.Hi))
	}
}
