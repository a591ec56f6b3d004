package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/salvage"
	"github.com/bloomkv/bloomkv/vfs"
)

// A SalvageReport says what Salvage read and wrote, what it could not read, and what it cannot know.
type SalvageReport struct {
	Manifest string // the manifest that was read, by its base name; empty if none could be
	Tables   int    // that count
	Logs     int    // that count
	Records  int    // of logs, read
	Entries  uint64 // versions read from tables and logs, older and deleted ones included
	Keys     uint64 // in the new store
	Bytes    uint64 // of the new store's tables

	// Lost is what could not be read, by file and offset. Filters are not among it: they are not read, and the new
	// store has its own.
	Lost []SalvageLoss
	// Unknown says in sentences what cannot be known of the new store: which keys may have come back, or be old.
	Unknown []string
}

// Whole reports whether nothing of the data was lost: what could not be read is in the new store all the same.
func (r *SalvageReport) Whole() bool {
	for i := range r.Lost {
		if !r.Lost[i].Harmless {
			return false
		}
	}
	return true
}

// A SalvageLoss is a part of a file that Salvage could not read.
type SalvageLoss struct {
	File     string // base name
	Offset   int64  // where the part begins, in bytes
	Bytes    int64  // how long it is; 0 for all of a file, or where that is not known
	Part     string // what it is: "data block", "index", "log record" and so on
	Harmless bool   // it held no key and no deletion, or they were found elsewhere

	// Keys that were in it lie between these two, both inclusive. An empty Lower is where the keys begin, a nil Upper
	// where they end: of a log nothing narrower is known.
	Lower, Upper []byte

	Err error // what is wrong
}

// Salvage reads what can be read of a store that may be damaged, and makes a new store of it in newDir, which must
// not exist or be empty, and must not lie in dir; its parent must exist. It changes nothing in dir, which may be on a
// disk that can't be written. Every block of a table, every record of a log and every edit of a manifest that its
// checksum proves counts: also blocks of a table whose index or footer is damaged, and records of a log behind a
// damaged one, where Open would refuse. Without a manifest, tables and logs say by themselves what they hold.
//
// The new store has the newest version of each key that could be read, by its sequence number, unless a deletion that
// could be read is newer. What could not be read is in the report, and so is what cannot be known: where a newer
// version is lost an older one shows, and where a deletion is lost the key is back; a table that the store had
// already replaced counts where no manifest says so; and how new ingested keys are, only a manifest says.
//
// Of the options FS counts, and for the new tables those for filters, BlockSize, TableSize, Compression and
// MemoryBudget; nil options are right. progress, if not nil, is called now and then with the bytes read and the bytes
// in all, by the caller's goroutine. Memory is a few MiB beside MemoryBudget, however large the store.
//
// The error is nil if a new store was made, whatever was lost. After an error all that was made is removed. Errors
// match ErrLocked if the store is open for writing, fs.ErrNotExist if dir has no file of a store, fs.ErrExist if newDir
// is in use, and ErrUnsupportedVersion for a newer format; others are those of the options, of ctx and of writing. After
// a crash newDir holds no store, and Open refuses it.
func Salvage(
	ctx context.Context, dir, newDir string, options *Options, progress func(done, total uint64),
) (report SalvageReport, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("bloomkv: salvage %s: %w", dir, err)
		}
	}()
	opts := options.withDefaults()
	if err := opts.check(); err != nil {
		return report, err
	}
	lock, err := lockToSalvage(opts.FS, dir)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s, err := salvage.Survey(ctx, opts.FS, dir)
	if errors.Is(err, salvage.ErrNothing) {
		err = errMissing
	}
	if err != nil {
		return report, err
	}
	n := newStore{fs: opts.FS, dir: newDir, outer: dir}
	if newDir != "" {
		n.dir = filepath.Clean(newDir) // as filepath.Join does, so that all names lie in the same directory
	}
	err = n.enter()
	if err == nil {
		report, err = n.salvage(ctx, s, &opts, progress)
	}
	if err != nil {
		return SalvageReport{}, errors.Join(err, n.abandon())
	}
	return report, nil
}

// lockToSalvage takes the shared lock of a store, whatever else there is of it. A lock that cannot be taken on this
// system, or is no regular file, says nothing: nobody can have the store open by it.
func lockToSalvage(fsys vfs.FS, dir string) (io.Closer, error) {
	lock, err := fsys.LockShared(filepath.Join(dir, filename.LockName))
	for _, none := range []error{fs.ErrNotExist, errors.ErrUnsupported, vfs.ErrNotRegular} {
		if errors.Is(err, none) {
			return unlocked{}, nil
		}
	}
	return lock, err
}

// salvage makes a store of what s reads.
func (n *newStore) salvage(
	ctx context.Context, s *salvage.Salvage, opts *Options, progress func(done, total uint64),
) (report SalvageReport, err error) {
	fpr, _, err := PlanTree([]uint64{bottom: s.Entries()}, opts)
	if err != nil {
		return report, err
	}
	plan, err := opts.planner().Plan(fpr)
	if err != nil {
		return report, err
	}
	seed := bloomblock.Seed(opts.FilterSeed)
	if seed == 0 {
		seed = bloomblock.NewSeed()
	}
	var numbers compaction.Counter
	res, err := s.Write(ctx, compaction.Env{
		FS: n.fs, Dir: n.dir, TableSize: uint64(opts.TableSize), BlockSize: opts.BlockSize, //nolint:gosec // checked: positive
		Codec: opts.codec(bottom), Filter: plan.Levels[bottom].Params, Prefix: opts.FilterPrefix, Seed: seed,
		Numbers: &numbers,
	}, opts.MemoryBudget, progress)
	if err != nil {
		return report, err
	}
	e := &manifest.Edit{}
	for _, t := range res.Tables {
		n.names = append(n.names, filename.Base(filename.Table, t.Number))
		e.Added = append(e.Added, manifest.Added{Level: bottom, Run: 1, Table: t})
		report.Bytes += t.Size
	}
	v, err := new(manifest.Version).Apply(e)
	if err != nil {
		return report, err
	}
	filters := opts.filters()
	state := manifest.State{Version: v, LastSeq: res.LastSeq, Seed: uint64(seed), Filters: &filters}
	if err := n.create(uint64(numbers)+1, state); err != nil {
		return report, err
	}
	report.Manifest, report.Tables, report.Logs, report.Records = res.Manifest, res.Read, res.Logs, res.Records
	report.Entries, report.Keys, report.Unknown = res.Entries, res.Keys, res.Doubts
	for _, l := range res.Losses {
		report.Lost = append(report.Lost, SalvageLoss(l))
	}
	return report, nil
}
