//go:build bloomkvcheck

package sstable

import (
	"bytes"
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/words"
)

// A selfCheck keeps the keys of a table that is being written, and asks the finished filters for each of them, and for
// some of them in each form that a memory budget may leave of the filters, and page by page in the file. It panics if a
// filter denies a key. It is built into tests with the tag bloomkvcheck, which so check all tables that they write.
type selfCheck struct{ keys [][]byte }

func (c *selfCheck) add(key []byte) { c.keys = append(c.keys, bytes.Clone(key)) }

// someKeys is about the number of keys, if there are more, for which less than the whole filter in memory is asked.
const someKeys = 300

// check asks a filter for the part that of returns for each key; nil means that the key has no part in it.
func (c *selfCheck) check(block []byte, of func(key []byte) []byte) {
	if _, err := bloomblock.Parse(block); err != nil {
		broken("cannot be parsed: %v", err)
	}
	h, err := bloomblock.ParseHeader(block)
	if err != nil {
		broken("cannot be parsed: %v", err)
	}
	each := func(step int, what string, mayContain func(h bloomblock.Hash) bool) {
		for i := 0; i < len(c.keys); i += step {
			key := c.keys[i]
			if part := of(key); part != nil && !mayContain(bloomblock.HashKey(part)) {
				broken("%s denies key %s by %s", what, words.Quoted(key), words.Quoted(part))
			}
		}
	}
	units := h.Split(block[bloomblock.HeaderSize:][:h.UnitsSize()])
	some := 1 + len(c.keys)/someKeys
	forms := h.Forms(h.Rate(len(h.Units)))
	for i, form := range forms {
		f, err := h.In(form, bloomblock.AlignedBytes(form.Bytes), units)
		if err != nil {
			broken("in form %d: %v", i, err)
		}
		step := some
		if i+1 == len(forms) {
			step = 1
		}
		each(step, fmt.Sprintf("in form %d, %v", i, form), f.MayContain)
	}
	for step := range h.Steps() {
		each(some, fmt.Sprintf("at step %d in the file", step), func(key bloomblock.Hash) bool {
			offset, size := h.StepPages(step, key)
			return h.StepMayContain(step, key, block[offset:][:size])
		})
	}
}

func broken(format string, args ...any) {
	panic("the filter that was written " + fmt.Sprintf(format, args...)) // broken logic
}
