package bloomkv

import (
	"context"
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/salvage"
)

// A SalvageReport describes what Salvage read and wrote, what it could not read, and what it cannot know.
type SalvageReport struct {
	Manifest string // base name of the manifest that was read; empty if none could be read
	Tables   int    // tables that count
	Logs     int    // logs that count
	Records  int    // records read from logs
	Entries  uint64 // versions read from tables and logs, including older and deleted ones
	Keys     uint64 // keys in the new store
	Bytes    uint64 // bytes of the new store's tables
	Mark     []byte // mark of the new store: that of the old one, or nil if data from before it may be lost

	// Lost lists what could not be read, by file and offset. Filters are not included: Salvage does not read them,
	// and the new store gets its own.
	Lost []SalvageLoss
	// Unknown lists, in sentences, what cannot be known about the new store: which keys may have reappeared, or may
	// be out of date.
	Unknown []string
}

// Whole reports whether no data was lost: all that could not be read in one place is in the new store nevertheless.
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
	Bytes    int64  // length of the part; 0 for a whole file, or if it is not known
	Part     string // kind of part: "data block", "index", "log record" and so on
	Harmless bool   // it held no key and no deletion, or they were found elsewhere

	// The keys in the part were between these two, both inclusive. An empty Lower means the first key, a nil Upper
	// means no upper bound. For a log, no narrower bounds are known.
	Lower, Upper []byte

	Err error // what is wrong
}

// Salvage reads what can be read of a store that may be damaged, and writes it to a new store in newDir. newDir must
// not exist or must be empty, and must not be inside dir; its parent must exist. Salvage changes nothing in dir,
// which may be on a disk that can't be written. It uses every block of a table, every record of a log and every edit
// of a manifest with a correct checksum, even blocks of a table whose index or footer is damaged, and records of a
// log after a damaged one, where Open would fail. Without a manifest, tables and logs describe their own contents.
//
// The new store has the newest version of each key that could be read, by its sequence number, unless a deletion that
// could be read is newer. The report lists what could not be read, and also what cannot be known. If a newer version
// is lost, an older one is visible. If a deletion is lost, the key is back. If no manifest shows that a table was
// already replaced, the table counts. And only a manifest knows how new ingested keys are.
//
// A mark (see DB.Mark) says that all data from before it is there. So the new store has the newest mark that could be
// read only if nothing from before it is lost, and otherwise no mark. The new store opens whatever the files hold, and
// its sequence numbers begin anew.
//
// Salvage uses the option FS and, for the new tables, the options for filters, BlockSize, TableSize, Compression and
// MemoryBudget; nil options are right for most stores. progress, if not nil, is called now and then, on the caller's
// goroutine, with the number of bytes read and the total. Salvage needs a few MiB of memory in addition to
// MemoryBudget, however large the store.
//
// The error is nil if a new store was made, whatever was lost. After an error, everything that was made is removed.
// Errors match ErrLocked if the store is open for writing, fs.ErrNotExist if dir has no file of a store, fs.ErrExist
// if newDir is in use, and ErrUnsupportedVersion for a newer format; others are errors of options, of ctx and of
// writing. After a crash newDir holds no store, and Open fails if it holds tables.
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
	res, err := salvage.Into(ctx, dir, newDir, salvage.Config{
		Env: compaction.Env{
			FS: opts.FS, BlockSize: opts.BlockSize, Codec: opts.codec(bottom),
			TableSize: uint64(opts.TableSize), //nolint:gosec // checked: positive
			Prefix:    opts.FilterPrefix.rule, Seed: bloomblock.Seed(opts.FilterSeed),
		},
		Planner: opts.planner(), Filters: opts.filters(), Memory: opts.MemoryBudget,
	}, progress)
	if err != nil {
		return report, err
	}
	report = SalvageReport{
		Manifest: res.Manifest, Tables: res.Read, Logs: res.Logs, Records: res.Records,
		Entries: res.Entries, Keys: res.Keys, Bytes: res.Bytes, Mark: res.Mark, Unknown: res.Doubts,
	}
	for _, l := range res.Losses {
		report.Lost = append(report.Lost, SalvageLoss(l))
	}
	return report, nil
}
