package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/workload"
	"github.com/bloomkv/bloomkv/tools/workload/own"
)

// A growthJob is a measurement of a store in a process of its own, which gets it as JSON.
type growthJob struct {
	Dir     string
	Keys    int
	Value   int // bytes
	Seed    uint64
	Budget  int64 // bytes
	Kind    string
	Lookups int
	Puts    int // per second; 0 means none

	Unmapped bool   // files are read and not mapped
	Group    string // the directory of the control group that the process enters, if it is not empty
}

// measured is the result of a growthJob.
type measured struct {
	Open    time.Duration `json:"open_ns"`
	Absent  phase         `json:"absent"`
	Present phase         `json:"present"`

	kept

	Memory        bloomkv.MemoryMetrics `json:"memory"`         // at the end
	PeakAnonymous uint64                `json:"peak_anonymous"` // bytes of the process, 0 if not known
	Puts          int                   `json:"puts"`           // done beside the lookups
}

// kept are the means of what a store promises during lookups of absent keys.
type kept struct {
	Reads     float64 `json:"reads_promised"`
	Promised  float64 `json:"fpr_promised"`
	Predicted float64 `json:"fpr_predicted"`
}

// options returns the default options, with what the job changes.
func (j growthJob) options() *bloomkv.Options {
	o := &bloomkv.Options{MemoryBudget: j.Budget, FilterKind: kinds[j.Kind]}
	if j.Unmapped {
		o.MaxMappedBytes = -1
	}
	return o
}

// measureName is the hidden command that runs a job.
const measureName = "growth-measure"

func measureCommand(s *cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use: measureName, Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			var j growthJob
			if err := json.NewDecoder(s.In).Decode(&j); err != nil {
				return err
			}
			m, err := j.run(c.Context())
			return errors.Join(err, s.PrintJSON(m))
		},
	}
}

// run opens the store and looks up absent and present keys at random, beside a writer if the job has puts.
func (j growthJob) run(ctx context.Context) (m measured, err error) {
	if j.Group != "" {
		if err := write(j.Group, "cgroup.procs", int64(os.Getpid())); err != nil {
			return m, err
		}
	}
	set, err := workload.NewGenerated(workload.Random, j.Keys, j.Seed, j.Value)
	if err != nil {
		return m, err
	}
	begin := time.Now()
	store, err := own.Open(j.Dir, j.options())
	if err != nil {
		return m, err
	}
	m.Open = time.Since(begin)
	peak := watchAnonymous()
	defer func() { err = errors.Join(err, store.Close()) }()
	w := writer{store: store, set: set, order: workload.NewPermutation(set.Len(), j.Seed+1)}
	if j.Puts > 0 {
		memtable := j.Budget / 4 // by default
		w.put(int(3 * memtable / 2 / int64(workload.Random.KeyBytes()+j.Value)))
		w.begin(j.Puts)
	}
	lookups := workload.Phase{Kind: workload.Absent, Ops: j.Lookups, Choice: workload.Uniform, Seed: j.Seed + 2}
	watched := m.watch(store)
	m.Absent, err = lookUp(ctx, store, set, lookups, cli.Progress{})
	watched()
	if err == nil {
		lookups.Kind = workload.Present
		m.Present, err = lookUp(ctx, store, set, lookups, cli.Progress{})
	}
	if j.Puts > 0 {
		w.stop()
		m.Puts, err = w.next, errors.Join(err, w.err)
	}
	m.Memory, m.PeakAnonymous = store.Metrics().Memory, peak()
	return m, err
}

// A writer puts pairs of a set again, in a shuffled order.
type writer struct {
	store *own.Store
	set   *workload.Generated
	order workload.Permutation
	next  int // the number of puts
	err   error
	stop  func()

	key, value []byte
}

// put puts the next n pairs, until one fails.
func (w *writer) put(n int) {
	for ; n > 0 && w.err == nil; n-- {
		i := w.order.At(w.next % w.set.Len())
		w.key, w.value = w.set.AppendKey(w.key[:0], i), w.set.AppendValue(w.value[:0], i)
		w.err = w.store.Put(w.key, w.value)
		w.next++
	}
}

// begin starts to put pairs at a steady rate, as far as the store takes them, and starts counting them, until stop is
// called.
func (w *writer) begin(perSecond int) {
	w.next = 0
	begin := time.Now()
	w.stop = cli.Every(time.Millisecond, func() {
		due := int(time.Since(begin).Seconds() * float64(perSecond))
		w.put(min(due-w.next, max(perSecond/10, 1)))
	})
}

// watchEvery is the time between looks at a process and at its store.
const watchEvery = 10 * time.Millisecond

// watch looks at the promises of a store until stop is called, which sets k to their means over the lookups meanwhile.
func (k *kept) watch(store *own.Store) (stop func()) {
	var sum, last kept
	seen := store.Metrics().Lookups.Gets
	began := seen
	look := func() {
		m := store.Metrics()
		now := kept{m.ReadsPromised, m.FPRPromised, m.FPRPredicted}
		half := float64(m.Lookups.Gets-seen) / 2
		sum.Reads += half * (last.Reads + now.Reads)
		sum.Promised += half * (last.Promised + now.Promised)
		sum.Predicted += half * (last.Predicted + now.Predicted)
		seen, last = m.Lookups.Gets, now
	}
	look()
	end := cli.Every(watchEvery, look)
	return func() {
		end()
		look()
		n := max(float64(seen-began), 1)
		*k = kept{sum.Reads / n, sum.Promised / n, sum.Predicted / n}
	}
}

// watchAnonymous looks at the anonymous memory of the process until peak is called, which returns the most it has seen.
func watchAnonymous() (peak func() uint64) {
	seen := uint64(0)
	look := func() {
		c, _ := machine.Read()
		seen = max(seen, c.Anonymous)
	}
	end := cli.Every(watchEvery, look)
	return func() uint64 {
		end()
		look()
		return seen
	}
}
