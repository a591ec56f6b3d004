package bloomkv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/commit"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/scheduler"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Open opens the store in dir. Unless options forbid it, Open creates a missing store, and missing parent directories.
// Open brings the store to the state of the last acknowledged write, however the last use ended: if a crash truncated a
// log, its complete records are replayed. nil options are right for most programs. With Options.ReadOnly, nothing on
// the disk is changed. A program may keep other files in dir; Open leaves them alone. Files are for the user of the
// process, and for the group of dir if dir has the set-group-ID bit: see vfs.OS.
//
// Errors name the directory, and the file and offset if there is one. They match ErrLocked while the store is open
// elsewhere, ErrCorruption for damage and for a directory with data but no manifest, ErrUnsupportedVersion for a
// newer format, ErrFilterRate if the filters can't reach what the options ask for, and ErrMemoryBudget if the memtables
// of one more store do not fit the shared Resources; other invalid options are errors too. If Open fails, no data is
// lost: at most, logs have become tables.
func Open(dir string, options *Options) (*DB, error) {
	return OpenContext(context.Background(), dir, options)
}

// OpenContext opens a store as Open does. When ctx ends first, it stops soon and returns an error matching that of ctx:
// reading long logs may take a while. Once it has returned, ctx has no effect on the DB.
func OpenContext(ctx context.Context, dir string, options *Options) (*DB, error) {
	db, err := open(ctx, dir, options)
	return db, named(err, "open "+dir)
}

// open opens a store: it enters the directory (I31, I40), joins those that share its memory, recovers what was written,
// and starts the background work. If a step fails, it undoes those before.
func open(ctx context.Context, dir string, options *Options) (*DB, error) {
	if dir == "" {
		return nil, errors.New("the name of the directory is empty")
	}
	opts := options.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	plans, err := opts.planner().First(opts.FilterFPR)
	if err != nil {
		return nil, err
	}
	pool := opts.pool()
	if !opts.ReadOnly {
		if err := pool.HasRoom(opts.MemtableSize); err != nil { // before the directory is created; Join asks again
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil { // before the directory is created
		return nil, err
	}
	home, err := recovery.Enter(opts.FS, dir, opts.mode())
	if err != nil {
		return nil, err
	}
	db := &DB{dir: dir, opts: opts, opened: time.Now(), home: home, pool: pool, closed: make(chan struct{})}
	db.report.log, db.report.to, db.report.dir = opts.Logger, opts.Events, dir
	config := tree.Config{
		FS: home.FS, Dir: dir, Lock: home.Lock, Failed: db.report.ReadOnly,
		Filters: opts.planOptions().Recorded(opts.FilterPrefix.String()),
		Shared:  pool.Shared(home.FS, dir),
	}
	if opts.ReadOnly { // as if a write had failed before: every writer gets this error
		config.ReadOnly = fmt.Errorf("bloomkv: %s: %w: opened with Options.ReadOnly", dir, ErrReadOnly)
	}
	db.tree = tree.New(config)
	db.share, err = pool.Join(budget.Config{
		Tree: db.tree, MemtableSize: opts.MemtableSize, ReadOnly: opts.ReadOnly,
		Scaled:  (options == nil || options.MemtableSize == 0) && opts.MemtableSize < maxMemtable,
		Planner: opts.planner(), Plans: plans, Prefix: opts.FilterPrefix.rule, Observer: &db.report,
	})
	if err == nil {
		if err = db.recover(ctx); err != nil {
			err = errors.Join(err, db.tree.CloseManifest(nil), db.share.Leave(db.tree.End()))
		}
	}
	if err != nil {
		db.tree.Close() // ends its context
		return nil, errors.Join(err, home.Close())
	}
	db.work.Start()
	db.report.opened(uint64(db.tree.NewestSeq()))
	return db, nil
}

// mode returns what opening the store may do.
func (o *Options) mode() recovery.Mode {
	return recovery.Mode{ReadOnly: o.ReadOnly, ErrorIfMissing: o.ErrorIfMissing, ErrorIfExists: o.ErrorIfExists}
}

// recover begins the tree with what was written, in this order:
//
//	load     the manifest, and a list of the files. Data without CURRENT is refused (I18).
//	create   the first manifest of a new store (I14).
//	check    whether the files are those of the manifest (I15): last if replay writes nothing, since many take long.
//	read     the logs, whether they are intact (I8).
//	clear    the tables of unfinished work, whose space replay or a manifest may need (I22): last if replay writes
//	         nothing. While a log is damaged they may be all that is left of what it had.
//	replay   the logs into tables (I10); then the newest mark is durable (I36).
//	begin    the first state: readers see what was recovered (I3).
//	remove   the files whose numbers are out of use (I19).
//
// With Options.ReadOnly nothing on the disk changes, and what the logs hold stays in memtables (I32). Otherwise load
// or replay skips the sequence numbers that lost writes may have used (I20).
func (db *DB) recover(ctx context.Context) error {
	fsys := recovery.Until(ctx, db.home.FS)
	found, recorded, err := recovery.Load(fsys, db.dir, db.opts.mode())
	if err != nil {
		return err
	}
	check := sync.OnceValue(func() error { return found.Check(recorded) })
	removeUnfinished := sync.OnceFunc(func() {
		if recorded != nil {
			found.RemoveUnfinished(db.home.FS, db.dir, recorded, &db.report)
		}
	})
	var replayed recovery.Replayed
	if recorded == nil {
		seed := cmp.Or(bloomblock.Seed(db.opts.FilterSeed), bloomblock.NewSeed())
		if err := db.tree.Create(found.NextManifest(), uint64(seed)); err != nil {
			return err
		}
		db.assemble(seed)
	} else {
		db.tree.Recover(*recorded)
		db.assemble(bloomblock.Seed(recorded.Seed))
		r := recovery.Replay{
			Logs: recovery.Logs{FS: fsys, Dir: db.dir, Mark: recorded.Log, Last: recorded.LastSeq},
			Mark: recorded.Mark, Strict: db.opts.StrictWAL, Seed: bloomblock.Seed(recorded.Seed),
			MemtableSize: db.opts.MemtableSize, Env: db.work.Env(0), Observer: &db.report,
		}
		if !db.opts.ReadOnly {
			r.Record = db.tree.Record
		}
		logs := found.LogsFrom(recorded.MinLog)
		if len(logs) > 0 || recorded.Mark.Seq > 0 { // else nothing is written
			if err := check(); err != nil {
				return err
			}
			if !db.opts.ReadOnly {
				r.Clear = removeUnfinished
			}
		}
		if replayed, err = r.Run(ctx, logs); err != nil {
			return err
		}
		if err := db.tree.RecoverMark(replayed.Mark); err != nil {
			return err
		}
	}
	s := db.tree.FirstState(replayed.Memtables, db.opts.MemtableSize)
	if err := db.share.Replan(s); err != nil {
		return err
	}
	db.writer.Start(replayed.Last)
	db.tree.Begin(s, replayed.Last)
	db.share.StartSeq(uint64(replayed.Last))
	if recorded != nil {
		if err := check(); err != nil {
			return err
		}
	}
	if db.opts.ReadOnly {
		return nil
	}
	now, held := db.tree.Recorded()
	defer db.tree.Release(held)
	own := func() (uint64, error) {
		removeUnfinished() // they may take the space of the manifest
		return db.tree.OwnManifest()
	}
	return found.RemoveOrphans(db.home.FS, db.dir, &now, own, &db.report)
}

// assemble prepares readers, writers and background work.
func (db *DB) assemble(seed bloomblock.Seed) {
	db.read.Init(read.Config{
		Tree: db.tree, Tables: db.share, Seed: seed, Prefix: db.opts.FilterPrefix.rule, Damaged: db.report.Damaged,
		Sought: func(n uint64) { db.work.Sought(n) }, // which is made below
		Naming: db.opts.Logger.Enabled(context.Background(), slog.LevelWarn),
	})
	policy := db.opts.policy()
	db.writer.Init(commit.Config{
		FS: db.home.FS, Dir: db.dir, Tree: db.tree, Policy: policy, MemtableSize: db.opts.MemtableSize,
		Seed: seed, Values: &db.read, DeadKeys: &db.read.DeadKeys, Stalled: db.report.Stalled,
	})
	work := scheduler.Config{
		Tree: db.tree, Share: db.share, Policy: policy, Observer: &db.report, ReadOnly: db.opts.ReadOnly,
		Workers: db.opts.Compactions, Rate: db.opts.CompactionRate,
		Tables: compaction.Env{
			FS: db.home.FS, Dir: db.dir, Numbers: db.tree,
			TableSize: uint64(db.opts.TableSize), //nolint:gosec // checked: positive
			BlockSize: db.opts.BlockSize, Prefix: db.opts.FilterPrefix.rule, Seed: seed,
		},
	}
	for level := range work.Codecs {
		work.Codecs[level] = db.opts.tableOptions().Codec(level)
	}
	db.work = scheduler.New(work)
}
