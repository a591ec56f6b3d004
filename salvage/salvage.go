// Package salvage saves what can be read of a store that may be damaged. [Run] is all of it.
//
// Each block of a table, each record of a log and each edit of a manifest is judged by its own checksum. A table counts
// if the manifest adds it and does not delete it. A table that the manifest does not name counts too, unless all of the
// manifest was read and is newer than the table: then the table was replaced, and is left over.
//
// Several versions of a key may have the sequence number 0, which compaction gives to the oldest data. If the manifest
// places all tables, the version in the higher level or newer run is newer, else that in the table with the higher
// number.
package salvage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/newstore"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// Options are options of Run. The zero value is right for most stores.
type Options struct {
	// Store, if not nil, has the options that the new store will be opened with. Run uses FS, for both stores, and for
	// the new tables the options for filters, LevelRatio, BlockSize, TableSize, Compression and MemoryBudget.
	Store *bloomkv.Options
	// Progress, if not nil, is called now and then, on the goroutine that called Run, with the bytes read so far and in
	// total.
	Progress func(done, total uint64)
}

// Run reads what can be read of the store in directory from, and writes it to a new store in directory to, which must
// not exist or must be empty, and must not be inside from; its parent must exist. Run changes nothing in from, which
// may be on a disk that can't be written. It uses every block of a table, every record of a log and every edit of a
// manifest with a correct checksum, even blocks of a table whose index or footer is damaged, and records of a log after
// a damaged one, where Open would fail. Without a manifest, tables and logs describe their own contents.
//
// The new store has the newest version of each key that could be read, by its sequence number, unless a deletion that
// could be read is newer. The report lists what could not be read, and also what cannot be known. If a newer version
// is lost, an older one is visible. If a deletion is lost, the key is back. If no manifest shows that a table was
// already replaced, the table counts, and so do its deletions, even of keys that were put later. And only a manifest
// knows how new ingested keys are.
//
// A mark (see [bloomkv.DB.Mark]) says that all data from before it is there. So the new store has the newest mark that
// could be read only if nothing from before it is lost, and otherwise no mark. The new store opens whatever the files
// hold, and its sequence numbers begin anew. Run needs a few MiB of memory in addition to MemoryBudget, however large
// the store.
//
// The error is nil if a new store was made, whatever was lost. After an error, everything that was made is removed.
// Errors match [bloomkv.ErrLocked] if the store is open for writing, fs.ErrNotExist if from has no file of a store,
// fs.ErrExist if to is in use, and [bloomkv.ErrUnsupportedVersion] for a newer format; others are errors of options, of
// ctx and of writing. After a crash to holds no store, and Open fails if it holds tables.
func Run(ctx context.Context, from, to string, opts Options) (Report, error) {
	p, err := opts.plan()
	if err == nil {
		s := &salvage{fs: p.env.FS, dir: from, progress: progress{tell: opts.Progress}}
		if err = s.run(ctx, to, p); err == nil {
			return s.report, nil
		}
	}
	return Report{}, fmt.Errorf("bloomkv: salvage %s: %w", from, err)
}

// A plan says how the new store is written.
type plan struct {
	env     compaction.Env     // without Dir, Filter and Numbers
	planner filterplan.Planner // of filters
	filters manifest.Filters   // the options for them
	memory  int64              // bytes of operations of logs that are sorted at once
}

// plan checks the options.
func (o Options) plan() (p plan, err error) {
	var s bloomkv.Options
	if o.Store != nil {
		s = *o.Store
	}
	filters := filterplan.Options{
		FPR: s.FilterFPR, Memory: s.FilterMemory, Kind: filterplan.Kind(s.FilterKind), Ratio: s.LevelRatio,
	}.WithDefaults()
	tables := compaction.Options{
		BlockSize: s.BlockSize, TableSize: s.TableSize, Compression: compaction.Compression(s.Compression),
	}.WithDefaults()
	var prefix sstable.PrefixRule
	if err := prefix.UnmarshalText([]byte(s.FilterPrefix.String())); err != nil {
		return p, fmt.Errorf("option FilterPrefix: %w", err)
	}
	p.memory = cmp.Or(s.MemoryBudget, filterplan.DefaultBudget)
	if p.memory < filterplan.MinBudget {
		return p, fmt.Errorf("option MemoryBudget: %d, want at least %d", p.memory, filterplan.MinBudget)
	}
	p.planner, p.filters = filters.Planner(), filters.Recorded(prefix.String())
	p.env = compaction.Env{
		FS: cmp.Or(s.FS, vfs.OS), BlockSize: tables.BlockSize,
		TableSize: uint64(tables.TableSize), //nolint:gosec // checked: positive
		Codec:     tables.Codec(bottom), Prefix: prefix,
		Seed: cmp.Or(bloomblock.Seed(s.FilterSeed), bloomblock.NewSeed()),
	}
	return p, cmp.Or(tables.Check(), filters.Check(p.memory))
}

// bottom is the number of the last level, which has all tables of the new store, as one run.
const bottom = manifest.NumLevels - 1

// A salvage reads one store.
//
//	survey write
type salvage struct {
	fs     vfs.FS
	dir    string
	report Report
	found  recovery.Listing
	traces traces
	tables []*table
	dels   []rangedel.Tombstone // of tables, and later of logs
	last   ikey.Seq             // of the manifest, and later of the logs
	mark   batch.Mark           // the newest seen

	// Losses in logs behind the mark: those from behindMark on, up to behindLogs, in report.Lost.
	behindMark, behindLogs int

	progress progress

	unnamed   []string // tables that count though the manifest does not name them
	leftOver  []string // tables that do not count
	unplaced  []string // tables that count, that no manifest places, and whose sequence numbers are all 0 or 1
	behindGap bool     // log records were read after a loss
	closing   error    // of tables whose versions were not all wanted
}

// run reads the store under the shared lock. After an error no new store and no new file is left.
func (s *salvage) run(ctx context.Context, to string, p plan) (err error) {
	held, err := vfs.Hold(s.fs, s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	s.fs = held
	lock, err := lockToRead(s.fs, s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := s.survey(ctx); err != nil {
		return err
	}
	n := newstore.New(s.fs, to, s.dir)
	if err = n.Enter(); err == nil {
		err = s.into(ctx, n, p)
	} else {
		err = fmt.Errorf("into %s: %w", to, err)
	}
	if err != nil {
		return errors.Join(err, n.Abandon())
	}
	return nil
}

// lockToRead takes the shared lock of a store, whatever other files are missing. It takes no lock if the system does
// not support it, or if LOCK is missing or not a regular file: then no process can have the store open with it.
func lockToRead(fsys vfs.FS, dir string) (io.Closer, error) {
	lock, err := fsys.LockShared(filepath.Join(dir, filename.LockName))
	for _, none := range []error{fs.ErrNotExist, errors.ErrUnsupported, vfs.ErrNotRegular} {
		if errors.Is(err, none) {
			return io.NopCloser(nil), nil
		}
	}
	return lock, err
}

// survey reads the manifest and the tail of each table. Damage is no error. The errors are recovery.ErrMissing for a
// directory without any file of a store, those of unknown formats, those of listing the directory, and that of ctx.
func (s *salvage) survey(ctx context.Context) (err error) {
	if s.found, err = recovery.Survey(s.fs, s.dir); err != nil {
		return err
	}
	f := s.found
	if len(f[filename.Table])+len(f[filename.Log])+len(f[filename.Manifest])+len(f[filename.Current]) == 0 {
		return recovery.ErrMissing
	}
	lost := func(name string, from, to int64, reason error) {
		s.lose(Loss{File: name, Offset: from, Bytes: to - from, Part: "manifest", Harmless: true, Err: reason})
	}
	if s.traces, err = trace(ctx, s.fs, s.dir, f[filename.Manifest], lost); err != nil {
		return err
	}
	s.last, s.mark = s.traces.numbers.LastSeq, s.traces.numbers.Mark
	if s.traces.number != 0 {
		s.report.Manifest = filename.Base(filename.Manifest, s.traces.number)
	}
	return s.findTables(ctx)
}

// into writes the new store.
func (s *salvage) into(ctx context.Context, n *newstore.Store, p plan) error {
	run := filterplan.Run{Level: bottom}
	for _, t := range s.tables {
		run.Keys += t.meta.Entries // at most, as far as it is known
	}
	space := filterplan.Space(p.memory - p.memory/2) // as a store that is written to
	filters, err := p.planner.For(p.filters.FPR, []filterplan.Run{run}, space)
	if err != nil && p.planner.Memory > 0 {
		filters, err = p.planner.At(0), nil // the smallest: damaged tables may claim more keys than they have
	}
	if err != nil {
		return err
	}
	var numbers compaction.Counter
	p.env.FS, p.env.Dir, p.env.Filter, p.env.Numbers = n.FS(), n.Dir(), filters.Levels[bottom].Params, &numbers
	tables, err := s.write(ctx, p.env, p.memory)
	if err != nil {
		return err
	}
	e := &manifest.Edit{}
	for _, t := range tables {
		n.Add(t.Number)
		e.Added = append(e.Added, manifest.Added{Level: bottom, Run: 1, Table: t})
		s.report.Keys += t.Entries
		s.report.Bytes += t.Size
	}
	run.Keys = s.report.Keys
	if _, err := p.planner.For(p.filters.FPR, []filterplan.Run{run}, space); err != nil {
		return err
	}
	v, err := new(manifest.Version).Apply(e)
	if err != nil {
		return err
	}
	// All versions have sequence number 0, so the numbers of the new store begin anew: those of the old one may be such
	// that no store could open with them.
	state := manifest.State{Version: v, LastSeq: 1, Seed: uint64(p.env.Seed), Filters: &p.filters}
	if len(s.mark.Bytes) > 0 && s.markHolds() {
		s.report.Mark = s.mark.Bytes
		state.Mark = batch.Mark{Seq: 1, Bytes: s.mark.Bytes}
	}
	s.report.Unknown = s.doubts()
	slices.SortStableFunc(s.report.Lost, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
	})
	return n.Create(uint64(numbers)+1, state)
}

// write reads all files that count and writes the new tables: ascending and disjoint, with one version of each key. It
// sorts up to memory bytes of the logs' operations at once; the others are kept in temporary files in env.Dir. After an
// error no file is left.
func (s *salvage) write(ctx context.Context, env compaction.Env, memory int64) (tables []*manifest.Table, err error) {
	logs := s.found.LogsFrom(s.traces.numbers.MinLog)
	s.report.Tables, s.report.Logs = len(s.tables), len(logs)
	s.count(logs)
	spill := &spills{env: env, limit: memory}
	load := compaction.NewLoader(env, nil)
	if err := errors.Join(s.fill(ctx, logs, spill, load), spill.close()); err != nil {
		load.Abandon()
		return nil, err
	}
	if tables, err = load.Finish(ctx); err == nil {
		s.progress.advance(s.progress.total - s.progress.done)
	}
	return tables, err
}

// fill adds what all files have to load.
func (s *salvage) fill(ctx context.Context, logs []uint64, spill *spills, load *compaction.Loader) error {
	if err := s.readLogs(ctx, logs, spill); err != nil {
		return err
	}
	all := spill.sources()
	for _, c := range s.chains() {
		all = append(all, s.read(ctx, c))
	}
	err := s.merge(ctx, merged(all), load)
	return errors.Join(err, s.closing)
}

// count adds up the bytes to be read.
func (s *salvage) count(logs []uint64) {
	for _, t := range s.tables {
		s.progress.total += t.size
	}
	for _, n := range logs {
		if info, err := s.fs.Stat(filename.Make(s.dir, filename.Log, n)); err == nil {
			s.progress.total += uint64(info.Size()) //nolint:gosec // not negative
		}
	}
}

// merge adds the newest version of each key that is not deleted to load.
func (s *salvage) merge(ctx context.Context, versions source, load *compaction.Loader) error {
	dels := rangedel.FragmentedFor(nil, s.dels)
	var last []byte
	for v, err := range versions {
		if err != nil {
			return err
		}
		if s.report.Entries++; s.report.Entries&1023 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		k := v.key
		if s.report.Entries > 1 && bytes.Equal(k.User, last) {
			continue // an older version
		}
		last = append(last[:0], k.User...)
		if k.Trailer.Kind() != ikey.Set || dels.Covering(k.User, ikey.MaxSeq) > k.Trailer.Seq() {
			continue
		}
		if err := load.Add(ikey.Key{User: k.User, Trailer: ikey.MakeTrailer(0, ikey.Set)}, v.value); err != nil {
			return err
		}
	}
	return ctx.Err()
}
