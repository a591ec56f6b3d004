package main

import "github.com/bloomkv/bloomkv/internal/workload"

// config is what the flags say.
type config struct {
	keys, value int
	shape       workload.Shape
	rounds      int
	engines     []string
	rows        map[string]bool // that are asked for
	dir         string
	out         string
	json        bool
	profiles    string
	filters     bool   // compare the filters alone
	worker      string // "engine/state/round": measure this one alone, in dir
}

func (c config) wants(row string) bool { return c.rows[row] }

// setOf is the same in all rounds and engines; the order in which it is used is a round's own.
func (c config) setOf(shape workload.Shape, keys int) (workload.Set, error) {
	return workload.NewGenerated(shape, keys, 1, workload.Values{Bytes: c.value})
}

// sortedSet is for loads in the order of the keys: of the shape that is asked for if its keys come in order, else decimal.
func (c config) sortedSet() (workload.Set, error) {
	set, err := c.setOf(c.shape, c.keys)
	if err != nil || set.Sorted() {
		return set, err
	}
	return c.setOf(workload.Decimal, c.keys)
}

// dataBytes is the bytes of all keys and values.
func (c config) dataBytes() float64 { return float64(c.keys) * float64(c.shape.KeyBytes()+c.value) }

// smallCache is what states with a small cache have: 7 % of the pairs, 8 MB at a million, but no less than 4 MiB.
func (c config) smallCache() int64 { return max(4<<20, int64(c.dataBytes()*0.07)) }
