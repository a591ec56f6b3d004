//go:build bloomkvcheck

package sstable

import (
	"bytes"
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A selfCheck keeps the keys of a table that is being written, to ask the filter that is written for each of them: also when it
// has only some of its units, as a budget leaves it. It panics where the filter denies one. Tests built with the tag
// bloomkvcheck have it, and all tables that they write are so checked.
type selfCheck struct{ keys [][]byte }

func (c *selfCheck) add(key []byte) { c.keys = append(c.keys, bytes.Clone(key)) }

func (c *selfCheck) check(block []byte) {
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
			if !f.MayContain(bloomblock.HashKey(key)) {
				broken("with %d units denies key %q", i, key)
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
