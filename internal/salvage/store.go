package salvage

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/newstore"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/vfs"
)

// Config describes the new store.
type Config struct {
	Env     compaction.Env     // of its tables; Into sets Dir, Filter and Numbers, and a random Seed if that is 0
	Planner filterplan.Planner // of their filters
	Filters manifest.Filters   // the options for filters, as its manifest records them
	Memory  int64              // bytes of operations of logs that are sorted at once
}

// Into reads the store in dir, under the shared lock, and writes what can be read to a new store in newDir. progress,
// if not nil, is called with bytes. After an error no new store and no new file is left.
func Into(
	ctx context.Context, dir, newDir string, c Config, progress func(done, total uint64),
) (res Result, err error) {
	held, err := vfs.Hold(c.Env.FS, dir)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	c.Env.FS = held
	lock, err := lockToRead(c.Env.FS, dir)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s, err := survey(ctx, c.Env.FS, dir)
	if err != nil {
		return res, err
	}
	n := newstore.New(c.Env.FS, newDir, dir)
	err = n.Enter()
	if err == nil {
		res, err = s.into(ctx, n, c, progress)
	}
	if err != nil {
		return Result{}, errors.Join(err, n.Abandon())
	}
	return res, nil
}

// lockToRead takes the shared lock of a store, whatever other files are missing. It takes no lock if the system does
// not support it, or if LOCK is missing or not a regular file: then no process can have the store open with it.
func lockToRead(fsys vfs.FS, dir string) (io.Closer, error) {
	lock, err := fsys.LockShared(filepath.Join(dir, filename.LockName))
	for _, none := range []error{fs.ErrNotExist, errors.ErrUnsupported, vfs.ErrNotRegular} {
		if errors.Is(err, none) {
			return recovery.Unlocked{}, nil
		}
	}
	return lock, err
}

// into writes the new store: all tables are one run of the last level.
func (s *Salvage) into(
	ctx context.Context, n *newstore.Store, c Config, progress func(done, total uint64),
) (res Result, err error) {
	const bottom = manifest.NumLevels - 1
	run := filterplan.Run{Level: bottom, Keys: s.recordedEntries()}
	space := filterplan.Writing.Space(cmp.Or(c.Memory, filterplan.DefaultBudget), 0)
	plan, err := c.Planner.For(c.Filters.FPR, []filterplan.Run{run}, space)
	if err != nil && c.Planner.Memory > 0 {
		plan, err = c.Planner.At(0), nil // the smallest filters: damaged tables may claim more keys than they have
	}
	if err != nil {
		return res, err
	}
	var numbers compaction.Counter
	env := c.Env
	env.FS, env.Dir, env.Filter, env.Numbers = n.FS(), n.Dir(), plan.Levels[bottom].Params, &numbers
	if env.Seed == 0 {
		env.Seed = bloomblock.NewSeed()
	}
	if res, err = s.write(ctx, env, c.Memory, progress); err != nil {
		return res, err
	}
	run.Keys = res.Keys
	if _, err := c.Planner.For(c.Filters.FPR, []filterplan.Run{run}, space); err != nil {
		return res, err
	}
	e := &manifest.Edit{}
	for _, t := range res.Tables {
		n.Add(t.Number)
		e.Added = append(e.Added, manifest.Added{Level: bottom, Run: 1, Table: t})
	}
	v, err := new(manifest.Version).Apply(e)
	if err != nil {
		return res, err
	}
	// All versions have sequence number 0, so the numbers of the new store begin anew: those of the old one may be such
	// that no store could open with them.
	state := manifest.State{Version: v, LastSeq: 1, Seed: uint64(env.Seed), Filters: &c.Filters}
	if len(res.Mark) > 0 {
		state.Mark = batch.Mark{Seq: 1, Bytes: res.Mark}
	}
	return res, n.Create(uint64(numbers)+1, state)
}
