package main

import (
	"time"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// config holds the flags.
type config struct {
	keys, value int
	shape       workload.Shape
	rounds      int
	engines     []string
	rows        map[string]bool // the requested rows
	dir         string
	out         string
	json        bool
	profiles    string
	puts        int           // in state "many puts"
	busy        time.Duration // of state "busy"
	small       bool          // the small cache in all states that read
	cache       int           // its size in MiB; 0 for 7 % of the pairs
	ordered     bool          // the store of most states is loaded in key order
	filters     bool          // compare the filters alone
	worker      string        // "engine/state/round": measure only this, in dir
}

func (c config) wants(row string) bool { return c.rows[row] }

// setOf returns the set of pairs, the same for all rounds and engines. The order of use depends on the round.
func (c config) setOf(shape workload.Shape, keys int) (workload.Set, error) {
	return workload.NewGenerated(shape, keys, 1, workload.Values{Bytes: c.value})
}

// sortedSet returns the set for loads in key order: with the requested shape if its keys are sorted, else with decimal
// keys.
func (c config) sortedSet() (workload.Set, error) {
	set, err := c.setOf(c.shape, c.keys)
	if err != nil || set.Sorted() {
		return set, err
	}
	return c.setOf(workload.Decimal, c.keys)
}

// dataBytes returns the size of all keys and values.
func (c config) dataBytes() float64 { return c.sizeOf(c.keys) }

// sizeOf returns the size of the given number of pairs.
func (c config) sizeOf(pairs int) float64 {
	return float64(pairs) * float64(c.shape.KeyBytes()+c.value)
}

// smallCache returns the size of small caches: that of flag --cache, or 7 % of the pairs, 8 MB for a million, but at
// least 4 MiB.
func (c config) smallCache() int64 {
	if c.cache > 0 {
		return int64(c.cache) << 20
	}
	return max(4<<20, int64(c.dataBytes()*0.07))
}
