package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"

	"github.com/bloomkv/bloomkv/internal/workload"
)

// row is what a phase of one engine measured in one round.
type row struct {
	Column  string           `json:"column"`
	Round   int              `json:"round"`
	Figures workload.Figures `json:"figures"`
}

// The phases of the table. Loads are measured as they are, with the engine's work in the background; the tree settles and
// is compacted before the others, and all of it is read once so that the cache holds it.
const (
	phaseLoad    = "random load"
	phaseAbsent  = "absent"
	phasePresent = "present, cached"
	phaseScan    = "scan, per entry"
)

var phases = []string{phaseLoad, phaseAbsent, phasePresent, phaseScan}

// measure runs all phases on one engine in dir. With profiles, a directory, it writes a processor profile of each phase.
func measure(ctx context.Context, c config, name, dir string, round int, profiles string) (rows []row, err error) {
	set, err := c.set()
	if err != nil {
		return nil, err
	}
	entry, err := findEngine(name)
	if err != nil {
		return nil, err
	}
	e, err := entry.open(dir, settings{cache: largeCache})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	seed := uint64(round) * 8 //nolint:gosec // a small number of rounds
	run := func(column string, s workload.Store, p workload.Phase) error {
		runtime.GC() // of what the phase before left
		stop, err := profile(profiles, column, p.Name)
		if err != nil {
			return err
		}
		f, err := workload.Run(ctx, s, set, p, nil)
		if err := errors.Join(err, stop()); err != nil {
			return err
		}
		if p.Name != "" {
			rows = append(rows, row{column, round, f})
		}
		return nil
	}
	looks := e.lookups()
	first := entry.columns[0]
	err = run(first, e, workload.Phase{Name: phaseLoad, Kind: workload.Load, Seed: seed})
	for _, k := range []workload.Kind{workload.Flush, workload.Settle, workload.Compact, workload.Settle} {
		if err == nil {
			err = run(first, e, workload.Phase{Kind: k})
		}
	}
	for i, l := range looks {
		for _, p := range []workload.Phase{
			{Kind: workload.Present, Seed: seed + 1}, // warms the cache
			{Name: phaseAbsent, Kind: workload.Absent, Seed: seed + 2},
			{Name: phasePresent, Kind: workload.Present, Seed: seed + 3},
		} {
			if err == nil {
				err = run(entry.columns[i], l, p)
			}
		}
		err = errors.Join(err, l.end())
	}
	if err == nil {
		err = run(first, e, workload.Phase{Name: phaseScan, Kind: workload.Scan})
	}
	return rows, err
}

// profile begins a processor profile of a phase, unless it has no name or no directory is given.
func profile(dir, column, phase string) (stop func() error, err error) {
	if dir == "" || phase == "" {
		return func() error { return nil }, nil
	}
	name := strings.NewReplacer(" ", "-", ",", "").Replace(column + "-" + phase)
	f, err := os.Create(filepath.Join(dir, name+".prof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
