//go:build schedule

package schedules

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/words"
)

// A state is a value for each key, and then the mark and the last value that was written with a mark behind it: see
// afterwards. 0 is none.
type state [keys + 2]int

const (
	keys    = 3
	marked  = keys
	due     = keys + 1
	unknown = -1 // the mark of a state that was read without it
)

func key(i int) []byte { return []byte{'k', "0123"[i]} } // the last is only a bound

// value returns the value with the given number. Two of three are so large that a few fill a memtable, and none
// needs one of its own.
func value(n int) []byte {
	size := []int{20, 3000, 6000}[n%3]
	return bytes.Repeat(binary.BigEndian.AppendUint32(nil, uint32(n)), size/4)
}

// number returns the number of a value, and an error if it is not one.
func number(v []byte) (int, error) {
	if len(v) < 4 {
		return 0, fmt.Errorf("a value of %d bytes", len(v))
	}
	n := int(binary.BigEndian.Uint32(v))
	if !bytes.Equal(v, value(n)) {
		return n, fmt.Errorf("a value of %d bytes that begins as number %d has other bytes", len(v), n)
	}
	return n, nil
}

// A call is a call that was made, and what it saw.
type call struct {
	text     string
	from, to int // by the program's clock: when it began, and when it had ended
	write    bool
	// apply returns the state after the call, and whether what it saw agrees with a state.
	apply func(s state) (state, bool)
}

func list(calls []call) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "  %3d-%-3d %s\n", c.from, c.to, c.text)
	}
	return b.String()
}

const never = 1 << 30

// explain reports whether there is an order of the calls, each between its beginning and its end, in which each saw
// what a store would have shown (Herlihy and Wing, Linearizability, 1990). Calls that end never may be left out.
func explain(calls []call) bool {
	type point struct {
		done uint64
		s    state
	}
	seen := map[point]bool{}
	var search func(point) bool
	search = func(at point) bool {
		if seen[at] {
			return false
		}
		seen[at] = true
		next, left := never, false
		for i, c := range calls {
			if at.done>>i&1 == 0 && c.to < never {
				next, left = min(next, c.to), true
			}
		}
		if !left {
			return true
		}
		for i, c := range calls {
			if at.done>>i&1 == 0 && c.from <= next {
				if s, ok := c.apply(at.s); ok && search(point{at.done | 1<<i, s}) {
					return true
				}
			}
		}
		return false
	}
	return search(point{})
}

// saw returns the apply of a call that saw all keys.
func saw(got state) func(state) (state, bool) {
	return func(s state) (state, bool) {
		return s, slices.Equal(got[:keys], s[:keys]) && (got[marked] == unknown || got[marked] == s[marked])
	}
}

// has returns the apply of a call that saw n at a place.
func has(n, place int) func(state) (state, bool) {
	return func(s state) (state, bool) { return s, s[place] == n }
}

// sets returns the apply of a write of n to each of the places.
func sets(n int, places ...int) func(state) (state, bool) {
	return func(s state) (state, bool) {
		for _, i := range places {
			s[i] = n
		}
		return s, true
	}
}

// both reads all keys of an iterator, forwards and backwards, and closes it. Between the two it calls a function, if
// that is not nil.
func both(it *bloomkv.Iterator, between func()) (s state, err error) {
	var got [2]state
	for i, pairs := range []iter.Seq2[[]byte, []byte]{it.All(), it.Backward()} {
		for k, v := range pairs {
			step.At("program: pair")
			n, err := number(v)
			if err != nil || len(k) != 2 {
				return s, errors.Join(fmt.Errorf("key %s: %w", words.Quoted(k), err), it.Close())
			}
			got[i][k[1]-'0'] = n
		}
		if i == 0 && between != nil {
			between()
		}
	}
	if err := it.Close(); err != nil || got[0] != got[1] {
		return s, cmp.Or(err, fmt.Errorf("an iterator shows %v and then %v", got[0], got[1]))
	}
	got[0][marked] = unknown
	return got[0], nil
}
