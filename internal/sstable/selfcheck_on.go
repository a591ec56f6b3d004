//go:build bloomkvcheck

package sstable

import (
	"bytes"
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
)

// A selfCheck keeps the keys of a table that is being written, and asks the finished filters for each of them, also
// with only some of their units, as a memory budget leaves them. It panics if a filter denies a key. It is built into
// tests with the tag bloomkvcheck, which so check all tables that they write.
type selfCheck struct{ keys [][]byte }

func (c *selfCheck) add(key []byte) { c.keys = append(c.keys, bytes.Clone(key)) }

// check asks a filter for the part that of returns for each key; nil means that the key has no part in it.
func (c *selfCheck) check(block []byte, of func(key []byte) []byte) {
	h, err := bloomblock.ParseHeader(block)
	if err != nil {
		broken("cannot be parsed: %v", err)
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
