package main

import (
	"slices"

	"github.com/bloomkv/bloomkv/tools/workload"
)

// A part is a store and the phases that run in it.
type part struct {
	name  string // name of its directory
	set   workload.Set
	steps []workload.Phase
}

// phaseNames returns the names that --phases accepts, in the order of the phases. Loads, flushes, settling and
// compactions are not named: they run if a phase needs them.
func phaseNames() []string {
	return []string{
		"absent-loaded", "present-loaded",
		"overwrite", "absent-overwritten", "present-overwritten",
		"reopen", "absent", "present", "absent-many", "present-many", "seek-10", "seek-100", "scan", "95-5",
		"put-seek", "check-and-insert",
		"queue-pop",
	}
}

// answerPhases are the phases in the first table, unless --phases names others.
var answerPhases = []string{
	"absent-loaded", "present-loaded", "absent-overwritten", "present-overwritten", "absent", "present",
}

func loadNames() []string {
	return []string{"random", "sequential", "batched", "sequential-batched", "sync"}
}

// syncOps is the maximum number of puts in a load that waits for the disk after each put.
const syncOps = 5_000

// load returns a way to load.
func (c *config) load(name string) workload.Phase {
	p := workload.Phase{Name: "load " + name, Kind: workload.Load, Seed: c.seed, Workers: c.workers}
	switch name {
	case "sequential":
		p.Choice = workload.InOrder
	case "batched":
		p.Batch = batchPairs
	case "sequential-batched":
		p.Choice, p.Batch = workload.InOrder, batchPairs
	case "sync":
		p.Durable = true
	}
	return p
}

// parts returns the parts of a run for one kind of store.
func (c *config) parts() ([]part, error) {
	set, err := c.set()
	if err != nil {
		return nil, err
	}
	var parts []part
	others := c.loads
	if c.readsMain() {
		parts = append(parts, part{"main", set, c.mainSteps(others[0])})
		others = others[1:]
	}
	for _, name := range others {
		p := c.load(name)
		if p.Durable {
			p.Ops = min(c.keys, syncOps)
		}
		parts = append(parts, part{"load-" + name, set, []workload.Phase{p}})
	}
	if slices.Contains(c.phases, "queue-pop") {
		// The keys of a queue are in order, put at its end and taken from its head.
		keys := max(1, c.keys/10)
		queue, err := workload.NewGenerated(workload.BigEndian, keys, c.seed, c.value)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{"queue", queue, []workload.Phase{
			{Name: "load queue", Kind: workload.Load, Choice: workload.InOrder},
			{Name: "flush", Kind: workload.Flush},
			{Name: "queue-pop", Kind: workload.Pop},
		}})
	}
	return parts, nil
}

// readsMain reports whether any phase uses the store of the main part.
func (c *config) readsMain() bool {
	return slices.ContainsFunc(c.phases, func(name string) bool { return name != "queue-pop" })
}

// mainSteps returns the phases of the main part. The lookups before the compaction see the tree as writes leave it. A
// phase whose name begins with warm looks up every key before others do, so that the caches of both kinds of store are
// full, or have every block if the budget allows. The phase that stores absent keys is the last.
func (c *config) mainSteps(load string) []workload.Phase {
	seed := c.seed
	next := func(p workload.Phase) workload.Phase { // the seed of a phase must not depend on which phases are requested
		seed++
		p.Seed, p.Workers = seed, c.workers
		if p.Kind != workload.Load && p.Kind != workload.Insert {
			p.Choice = choices[c.choice]
		}
		return p
	}
	share := func(part int) int { return max(1, c.keys/part) }
	warm := func(name string) workload.Phase { // its seed is apart, so that it does not change those of others
		return workload.Phase{Name: name, Kind: workload.Present, Seed: c.seed + 1000, Workers: c.workers}
	}
	settle := []workload.Phase{{Name: "flush", Kind: workload.Flush}, {Name: "settle", Kind: workload.Settle}}
	stages := []struct {
		before []workload.Phase
		warm   string // name of the phase before those that are asked for, if any
		asked  []workload.Phase
	}{
		{
			append([]workload.Phase{c.load(load)}, settle...), "warm-loaded",
			[]workload.Phase{
				next(workload.Phase{Name: "absent-loaded", Kind: workload.Absent}),
				next(workload.Phase{Name: "present-loaded", Kind: workload.Present}),
			},
		},
		{
			append([]workload.Phase{next(workload.Phase{Name: "overwrite", Kind: workload.Load})}, settle...),
			"warm-overwritten",
			[]workload.Phase{
				next(workload.Phase{Name: "absent-overwritten", Kind: workload.Absent}),
				next(workload.Phase{Name: "present-overwritten", Kind: workload.Present}),
			},
		},
		{
			[]workload.Phase{{Name: "compact", Kind: workload.Compact}, {Name: "settle", Kind: workload.Settle}},
			"",
			[]workload.Phase{{Name: "reopen", Kind: workload.Reopen}},
		},
		{
			[]workload.Phase{next(workload.Phase{Name: "warm", Kind: workload.Present})},
			"",
			[]workload.Phase{
				next(workload.Phase{Name: "absent", Kind: workload.Absent}),
				next(workload.Phase{Name: "present", Kind: workload.Present}),
				next(workload.Phase{Name: "absent-many", Kind: workload.Absent, Batch: manyKeys}),
				next(workload.Phase{Name: "present-many", Kind: workload.Present, Batch: manyKeys}),
				next(workload.Phase{Name: "seek-10", Kind: workload.Seek, Limit: 10, Ops: share(2)}),
				next(workload.Phase{Name: "seek-100", Kind: workload.Seek, Limit: 100, Ops: share(10)}),
				{Name: "scan", Kind: workload.Scan},
				next(workload.Phase{Name: "95-5", Kind: workload.Mixed, PutPercent: 5}),
				next(workload.Phase{Name: "put-seek", Kind: workload.PutSeek, Ops: share(10)}),
				next(workload.Phase{Name: "check-and-insert", Kind: workload.Insert}),
			},
		},
	}
	wanted := func(p workload.Phase) bool { return slices.Contains(c.phases, p.Name) }
	var steps []workload.Phase
	for i, stage := range stages {
		asked := slices.DeleteFunc(stage.asked, func(p workload.Phase) bool { return !wanted(p) })
		later := i == 2 && slices.ContainsFunc(stages[3].asked, wanted) // a warm-up follows a compaction
		if i == 0 || len(asked) > 0 || later || slices.ContainsFunc(stage.before, wanted) {
			steps = append(steps, stage.before...)
			if stage.warm != "" && len(asked) > 0 {
				steps = append(steps, warm(stage.warm))
			}
			steps = append(steps, asked...)
		}
	}
	return steps
}
