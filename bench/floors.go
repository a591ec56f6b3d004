package main

import (
	"context"
	"errors"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
)

// mostRatio is the limit for the time of an absent lookup, divided by its floor, in a store of at least ratioKeys. With
// fewer keys most memory that the floor touches is cached, and the ratio measures the other work of a lookup.
const (
	mostRatio = 1.5
	ratioKeys = 20_000_000
)

// A floorsReport is the result of floors. The names of its fields in JSON are part of the output.
type floorsReport struct {
	Machine machine.Machine `json:"machine"`
	Command string          `json:"command"`

	ValueBytes   int     `json:"value_bytes"`
	Shape        string  `json:"shape"`
	Seed         uint64  `json:"seed"`
	FilterFPR    float64 `json:"fpr_promised"`
	MemoryBudget int64   `json:"memory_budget"`
	MostRatio    float64 `json:"most_ratio"` // limit for the time of an absent lookup, divided by its floor
	Rounds       int     `json:"rounds"`

	Stores []*floored `json:"stores"`
}

// floored is the result for one compacted store.
type floored struct {
	Keys   int `json:"keys"`
	Tables int `json:"tables"`

	Chained comparison  `json:"chained"`         // absent keys, one lookup after the other
	Free    comparison  `json:"free"`            // absent keys, lookups may overlap
	Pairs   *pairFloors `json:"pairs,omitempty"` // nil for more than mostImage bytes

	FilterBytes int64 `json:"filter_bytes"` // in memory
	FloorBytes  int64 `json:"floor_filter_bytes"`
	FloorFences int   `json:"floor_fences"`

	// Met is whether Chained.Ratio is at most MostRatio. It is nil for stores of fewer than ratioKeys keys.
	Met *bool `json:"met,omitempty"`
}

// pairFloors compares operations that find pairs with a pairFloor, one operation after the other.
type pairFloors struct {
	Present comparison `json:"present"`
	Seek    comparison `json:"seek"` // with seekPairs pairs, by one iterator
	Scan    comparison `json:"scan"` // of a pair
}

// wrong returns the number of wrong answers and a description of the first.
func (r *floorsReport) wrong() (n int, first string) {
	count := func(wrong int, what string) {
		if n == 0 {
			first = what
		}
		n += wrong
	}
	for _, s := range r.Stores {
		count(s.Chained.Wrong+s.Free.Wrong, "an absent key was found")
		if p := s.Pairs; p != nil {
			count(p.Present.Wrong+p.Seek.Wrong+p.Scan.Wrong, "a key was not found next to the floors")
		}
	}
	return n, first
}

func floorsCommand(s *cli.Streams, command string) *cobra.Command {
	w := floors{terms: newTerms(s), keys: counts{1_000_000, 5_000_000, 20_000_000}}
	w.memory = 4096
	c := &cobra.Command{
		Use:   "floors",
		Short: "Compare lookups, seeks and scans in memory with the least work that they need",
		Long: `floors fills and compacts stores of the given numbers of keys, reads everything once, to fill the cache,
and compares lookups of absent keys with their floor, the least work that they need: hash the key once,
search one flat array with a fence for each table of the last run, and probe one filter per run, as
large as the store's but of a single unit. The store and the floor take turns with the same keys, and
the cost of asking is subtracted from both. In a chained series the next key depends on the last answer,
so that lookups cannot overlap; in a free series they can.

Lookups of present keys, seeks with ten pairs, and scans are compared with floors too: a loop over a copy
of the pairs in sorted order, which are found by flat arrays of the heads of keys. This is done in stores
of at most 1 GiB of keys and values. Every answer is checked.`,
		Args: cli.Arguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.check(); err != nil {
				return cli.Hint(c, err)
			}
			return w.run(c.Context(), command)
		},
	}
	c.Flags().Var(&w.keys, "keys", "numbers of pairs, a store for each")
	w.data.flags(c, "", "memory budget of a store, in `MIB`; the default holds 20 million pairs")
	w.flags(c, 9)
	return c
}

// floors holds the flags of the command.
type floors struct {
	terms

	keys counts
}

func (w *floors) check() error {
	return errors.Join(w.keys.atLeast("--keys", fewestKeys), w.terms.check())
}

func (w *floors) run(ctx context.Context, command string) error {
	r := floorsReport{
		Machine: machine.Here(), Command: command, ValueBytes: w.value, Shape: w.shape.String(), Seed: w.seed,
		FilterFPR: promisedFPR, MemoryBudget: w.memory << 20, MostRatio: mostRatio, Rounds: w.rounds,
	}
	for _, n := range w.keys {
		s := &floored{Keys: n}
		r.Stores = append(r.Stores, s)
		if err := w.measure(ctx, s); err != nil {
			return err
		}
	}
	return show(w.Streams, w.json, &r)
}

// measure creates one store, measures it and removes it.
func (w *floors) measure(ctx context.Context, row *floored) (err error) {
	set, err := workload.NewGenerated(w.shape, row.Keys, w.seed, workload.Values{Bytes: w.value})
	if err != nil {
		return err
	}
	dir, remove, err := w.newDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	debug.FreeOSMemory() // memory left over from the previous store must not disturb this one
	store, err := own.Open(filepath.Join(dir, "store"), w.options(promisedFPR))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, p := range []workload.Phase{
		{Kind: workload.Load, Seed: w.seed},
		{Kind: workload.Compact},
		{Kind: workload.Settle},
		{Name: "warm", Kind: workload.Scan}, // a false positive costs a search of a block, cached or not
	} {
		if _, err := w.phase(ctx, store, set, p); err != nil {
			return err
		}
	}
	if err := w.absent(ctx, store, set, row); err != nil {
		return err
	}
	if row.Keys >= ratioKeys {
		row.Met = new(row.Chained.Ratio <= mostRatio)
	}
	row.Pairs, err = w.pairs(ctx, store, set)
	return err
}

// absent compares lookups of absent keys with their floor.
func (w *floors) absent(ctx context.Context, store *own.Store, set *workload.Generated, row *floored) error {
	tree := layers(store.Metrics())
	f, err := newFloor(tree, set, w.seed)
	if err != nil {
		return err
	}
	for _, l := range tree {
		row.Tables += l.tables
		row.FilterBytes += l.filterBytes
	}
	row.FloorFences, row.FloorBytes = len(f.fences), f.filterBytes
	bar := w.bar(set, "absent keys and the floor")
	defer bar.End()
	for i, c := range []chain{{}, {free: true}} {
		figures, err := compareAbsent(ctx, store.DB, f, set, c, w.rounds, w.seed+2+uint64(i),
			func(rounds int) { bar.Set(i*w.rounds+rounds, 2*w.rounds) })
		if err != nil {
			return err
		}
		if c.free {
			row.Free = figures
		} else {
			row.Chained = figures
		}
	}
	return nil
}

// pairs compares present keys, seeks and scans with their floors.
func (w *floors) pairs(ctx context.Context, store *own.Store, set *workload.Generated) (_ *pairFloors, err error) {
	if int64(set.Len())*int64(w.shape.KeyBytes()+w.value) > mostImage {
		return nil, nil //nolint:nilnil // nil is the documented value of the field
	}
	tree := layers(store.Metrics())
	f, err := newPairFloor(tree[len(tree)-1], set)
	if err != nil {
		return nil, err
	}
	bar := w.bar(set, "present keys, seeks, scans and their floors")
	defer bar.End()
	done := func(round int) { bar.Set(round, w.rounds) }
	var all pairFloors
	gets, want := storeReader{db: store.DB}, chain{want: true}
	all.Present, err = compare(ctx, gets.ask, f.get, set, want, turnKeys, w.rounds, w.seed+6, done)
	if err = errors.Join(err, gets.err); err != nil {
		return nil, err
	}
	r := pairReader{it: store.Iter(bloomkv.IterOptions{})}
	defer func() { err = errors.Join(err, r.it.Close()) }()
	all.Seek, err = compare(ctx, r.seek, f.seek, set, want, turnKeys/seekPairs, w.rounds, w.seed+7, done)
	if err = errors.Join(err, r.it.Err()); err != nil {
		return nil, err
	}
	all.Scan, err = compareScans(ctx, &r, f, w.rounds, done)
	return &all, err
}
