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
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/commit"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/scheduler"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
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
// of one more store do not fit the shared Resources; other invalid options are errors too. If Open fails, no file with
// data has been removed or changed.
func Open(dir string, options *Options) (*DB, error) {
	return OpenContext(context.Background(), dir, options)
}

// OpenContext opens a store as Open does. When ctx ends first, it stops soon and returns an error matching that of ctx:
// reading long logs may take a while. Once it has returned, ctx has no effect on the DB.
func OpenContext(ctx context.Context, dir string, options *Options) (*DB, error) {
	opts := options.withDefaults()
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, err)
	}
	plans, err := opts.planner().First(opts.FilterFPR)
	if err != nil {
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, err)
	}
	pool := opts.pool()
	if !opts.ReadOnly {
		err = pool.HasRoom(opts.MemtableSize) // before the directory is created; Join asks again
	}
	var home *recovery.Dir
	if err == nil {
		home, err = recovery.Enter(opts.FS, dir, opts.mode())
	}
	if err != nil {
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, err)
	}
	db := &DB{dir: dir, opts: opts, opened: time.Now(), home: home, pool: pool, closed: make(chan struct{})}
	db.report.log, db.report.to, db.report.dir = opts.Logger, opts.Events, dir
	domain := new(epoch.Domain)
	config := tree.Config{
		FS: home.FS, Dir: dir, Lock: home.Lock, Domain: domain, Filters: opts.filters(), Observer: &db.report,
		Files: db.pool.Files.NewDir(home.FS, dir, domain), Blocks: db.pool.Blocks.NewCache(domain),
		Parts: db.pool.Parts, Pieces: db.pool.Pieces,
	}
	if opts.ReadOnly { // as if a write had failed before: every writer gets this error
		config.ReadOnly = fmt.Errorf("%s: %w: opened with Options.ReadOnly", dir, ErrReadOnly)
	}
	db.tree = tree.New(config)
	if db.share, err = db.pool.Join(budget.Config{
		Tree: db.tree, MemtableSize: opts.MemtableSize, ReadOnly: opts.ReadOnly,
		Scaled:  options == nil || options.MemtableSize == 0,
		Planner: opts.planner(), Plans: plans, Prefix: opts.FilterPrefix.rule, Observer: &db.report,
	}); err == nil {
		if err = db.open(ctx); err != nil {
			err = errors.Join(err, db.share.Leave(db.tree.End()))
		}
	}
	if err != nil {
		db.tree.Close() // ends its context
		return nil, fmt.Errorf("bloomkv: open %s: %w", dir, errors.Join(err, home.Close()))
	}
	db.work.Start()
	db.report.opened(uint64(db.tree.NewestSeq()))
	return db, nil
}

// mode returns what opening the store may do.
func (o *Options) mode() recovery.Mode {
	return recovery.Mode{ReadOnly: o.ReadOnly, ErrorIfMissing: o.ErrorIfMissing, ErrorIfExists: o.ErrorIfExists}
}

// open recovers the store in the directory and begins its tree. After an error only the directory stays open.
func (db *DB) open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, db.tree.CloseManifest(nil))
		}
	}()
	fsys := recovery.Until(ctx, db.home.FS)
	found, recorded, err := recovery.Load(fsys, db.dir, db.opts.mode())
	if err != nil {
		return err
	}
	var replayed []*memtable.Table
	var last ikey.Seq
	checked := sync.OnceValue(func() error { return found.Check(recorded) })
	if recorded == nil {
		seed := cmp.Or(bloomblock.Seed(db.opts.FilterSeed), bloomblock.NewSeed())
		if err := db.tree.Create(found.NextManifest(), uint64(seed)); err != nil {
			return err
		}
		db.assemble(seed)
	} else {
		db.tree.Recover(*recorded)
		db.assemble(bloomblock.Seed(recorded.Seed))
		if len(found.LogsFrom(recorded.MinLog)) > 0 || recorded.Mark.Seq > 0 { // else replay writes nothing
			if err := checked(); err != nil {
				return err
			}
			if !db.opts.ReadOnly {
				found.RemoveUnfinished(db.home.FS, db.dir, recorded, &db.report)
			}
		}
		if replayed, last, err = db.replay(ctx, fsys, found, recorded); err != nil {
			return err
		}
	}
	s := db.tree.FirstState(replayed, db.opts.MemtableSize)
	if err := db.share.Replan(s); err != nil {
		return err
	}
	db.writer.Start(last)
	db.tree.Begin(s, last)
	db.share.StartSeq(uint64(db.tree.NewestSeq()))
	if recorded != nil { // late, since many files take long to look at
		if err := checked(); err != nil {
			return err
		}
	}
	if db.opts.ReadOnly {
		return nil
	}
	now, held := db.tree.Recorded()
	defer db.tree.Release(held)
	return found.RemoveOrphans(db.home.FS, db.dir, &now, db.tree, &db.report)
}

// assemble prepares readers, writers and background work.
func (db *DB) assemble(seed bloomblock.Seed) {
	db.read.Init(read.Config{
		Tree: db.tree, Tables: db.share, Seed: seed, Prefix: db.opts.FilterPrefix.rule, Observer: &db.report,
		Naming: db.opts.Logger.Enabled(context.Background(), slog.LevelWarn),
	})
	policy := db.opts.policy()
	db.writer.Init(commit.Config{
		FS: db.home.FS, Dir: db.dir, Tree: db.tree, Policy: policy, MemtableSize: db.opts.MemtableSize,
		Seed: seed, Values: &db.read, Records: &db.read.DeadKeys, Observer: &db.report,
	})
	work := scheduler.Config{
		Tree: db.tree, Share: db.share, Policy: policy, Rate: db.opts.CompactionRate, ReadOnly: db.opts.ReadOnly,
		Observer: &db.report,
		Tables: compaction.Env{
			FS: db.home.FS, Dir: db.dir, Numbers: db.tree,
			TableSize: uint64(db.opts.TableSize), //nolint:gosec // checked: positive
			BlockSize: db.opts.BlockSize, Prefix: db.opts.FilterPrefix.rule, Seed: seed,
		},
	}
	for level := range work.Codecs {
		work.Codecs[level] = db.opts.codec(level)
	}
	db.work = scheduler.New(work)
}

// replay brings what the logs hold into tables, or into memtables, which it returns, newest first. It also returns the
// newest sequence number in use.
func (db *DB) replay(
	ctx context.Context, fsys vfs.FS, found recovery.Found, s *manifest.State,
) ([]*memtable.Table, ikey.Seq, error) {
	r := recovery.Replay{
		Logs:   recovery.Logs{FS: fsys, Dir: db.dir, Mark: s.Log, Last: s.LastSeq},
		Strict: db.opts.StrictWAL, Seed: bloomblock.Seed(s.Seed), MemtableSize: db.opts.MemtableSize,
		Env: db.work.Env(0), Observer: &db.report,
	}
	if !db.opts.ReadOnly {
		r.Manifest = db.tree
	}
	mems, last, err := r.Run(ctx, found.LogsFrom(s.MinLog))
	if err == nil {
		err = db.recoverMark(s.Mark, r.Logs.Newest)
	}
	return mems, last, err
}

// recoverMark sets the mark: that of the logs, or else that of the manifest.
func (db *DB) recoverMark(recorded, logged batch.Mark) error {
	if logged.Seq == 0 {
		logged = recorded
	}
	if logged.Seq == 0 {
		return nil
	}
	db.tree.SetMark(logged)
	if db.opts.ReadOnly {
		return nil
	}
	_, err := db.tree.OwnManifest() // so that the mark is durable
	return err
}
