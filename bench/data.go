package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/workload"
)

// data are the flags for the pairs that a store holds, and for its memory.
type data struct {
	keys, value int
	shape       workload.Shape
	memory      int64 // MiB
	seed        uint64
}

const (
	leastMemory = 8 // MiB
	maxMemory   = math.MaxInt64 >> 20
	batchPairs  = 100 // pairs in a batch
	manyKeys    = 64  // keys in a call of GetMany
)

// flags adds the flags that all commands have. Without a help text for it there is no flag for the number of keys.
func (d *data) flags(cmd *cobra.Command, keys, memory string) {
	f := cmd.Flags()
	if keys != "" {
		f.IntVar(&d.keys, "keys", d.keys, keys)
	}
	f.IntVar(&d.value, "value", d.value, "length of each value, in `BYTES`")
	f.TextVar(&d.shape, "shape", d.shape,
		"form of the keys, a `NAME`: random (16 bytes), prefixed (36, the first 20 the same), "+
			"decimal (16) or bigendian (8)")
	f.Int64Var(&d.memory, "memory", d.memory, memory)
	f.Uint64Var(&d.seed, "seed", d.seed, "seed of keys, values and choices")
}

func (d *data) check() error {
	if d.keys < 0 {
		return fmt.Errorf("--keys %d: want 0 or more", d.keys)
	}
	if d.value < 0 || d.value > bloomkv.MaxValueSize {
		return fmt.Errorf("--value %d: want 0 to %d bytes", d.value, bloomkv.MaxValueSize)
	}
	if d.memory < leastMemory || d.memory > maxMemory {
		return fmt.Errorf("--memory %d: want at least %d MiB", d.memory, leastMemory)
	}
	return nil
}

func (d *data) set() (*workload.Generated, error) {
	return workload.NewGenerated(d.shape, d.keys, d.seed, d.value)
}

// smallMemory returns the memory, in MiB, of which the cache is about 7 % of the keys and values: half is for
// memtables, and filters and indexes take some two bytes per key.
func (d *data) smallMemory() int64 {
	cache := 7 * int64(d.keys) * int64(d.shape.KeyBytes()+d.value) / 100
	return max(leastMemory, (2*(cache+2*int64(d.keys))+1<<19)>>20)
}

// memtable returns the size of a memtable: 64 MiB, as in bench/compare, or less if the budget is small.
func (d *data) memtable() int64 { return min(64<<20, d.memory<<20/4) }

// options returns options of a store, the same as in bench/compare. A rate of 1 means no filters.
func (d *data) options(fpr float64) *bloomkv.Options {
	return &bloomkv.Options{
		Durability: bloomkv.DurabilityNoSync, Compression: bloomkv.CompressionNone,
		FilterFPR: fpr, MemoryBudget: d.memory << 20, MemtableSize: d.memtable(),
	}
}

const fprHelp = "promised number of wasted reads per lookup of an absent key, in the stores with filters"

// checkFPR checks the rate of the stores that have filters.
func checkFPR(fpr float64) error {
	if fpr > 0 && fpr < 1 {
		return nil
	}
	return fmt.Errorf("--fpr %v: want more than 0 and less than 1", fpr)
}

// onOff returns whether a store with this rate has filters, in a word.
func onOff(rate float64) string {
	if rate < 1 {
		return "on"
	}
	return "off"
}

// runsOf returns the number of runs in a tree.
func runsOf(m bloomkv.Metrics) (n int) {
	for _, l := range m.Levels {
		n += l.Runs
	}
	return n
}

// choices are the orders of the looked-up keys, by their names in --choice.
var choices = map[string]workload.Choice{
	"shuffled": workload.Shuffled, "uniform": workload.Uniform, "zipf": workload.Zipfian,
}
