//go:build bloomkvcheck

package sstable

import (
	"bytes"
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A selfCheck keeps the keys of a table that is being written, to ask the filters that are written for each of them:
// also when they have only some of their units, as a budget leaves them. It panics where a filter denies one. Tests
// built with the tag bloomkvcheck have it, and all tables that they write are so checked.
type selfCheck struct{ keys [][]byte }

func (c *selfCheck) add(key []byte) { c.keys = append(c.keys, bytes.Clone(key)) }

// check asks a filter of parts of the keys; nil is no part.
func (c *selfCheck) check(block []byte, of func(key []byte) []byte) {
	h, err := bloomblock.ParseHeader(block)
	if err != nil {
		broken("is none: %v", err)
	}
	var units [][]byte
	for i := range len(h.Units) + 1 {
		f, err := h.Filter(units)
		if err != nil {
			broken("with %d units: %v", i, err)
		}
		for _, key := range c.keys {
			if part := of(key); part != nil && !f.MayContain(bloomblock.HashKey(part)) {
				broken("with %d units denies key %q by %q", i, key, part)
			}
		}
		if i < len(h.Units) {
			units = append(units, block[h.Units[i].Offset:][:h.Units[i].Bytes()])
		}
	}
}

func broken(format string, args ...any) {
	panic("the filter that was written " + fmt.Sprintf(format, args...)) // broken logic
}
