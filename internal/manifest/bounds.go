package manifest

import (
	"bytes"
	"fmt"
)

// Bounds are a stretch of keys from Lo on. A nil Hi, and only that, is infinite; any other is the last key, or, if Exclusive,
// the first one behind. Where Hi is nil, Exclusive means nothing.
type Bounds struct {
	Lo, Hi    []byte
	Exclusive bool
}

// EndsBefore reports whether all of b is in front of key.
func (b Bounds) EndsBefore(key []byte) bool {
	if b.Hi == nil {
		return false
	}
	c := bytes.Compare(b.Hi, key)
	return c < 0 || c == 0 && b.Exclusive
}

// Union is the smallest stretch that holds both b and c.
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

// Holds reports whether all of c lies in b.
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

// String prints b as an interval.
func (b Bounds) String() string {
	switch {
	case b.Hi == nil:
		return fmt.Sprintf("[%q,∞)", b.Lo)
	case b.Exclusive:
		return fmt.Sprintf("[%q,%q)", b.Lo, b.Hi)
	default:
		return fmt.Sprintf("[%q,%q]", b.Lo, b.Hi)
	}
}
