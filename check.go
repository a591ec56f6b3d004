package bloomkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/recovery"
)

// CheckReport is what Check read. After damage it counts what the manifest names, whether it could be read or not.
type CheckReport struct {
	Levels  int    // levels that hold tables
	Runs    int    // on all levels
	Tables  int    // in all runs
	Entries uint64 // versions in the tables, tombstones included
	Bytes   uint64 // of the tables' files
	Logs    int    // logs that Open would replay
	Records int    // whole records in these logs
}

// Check reads a whole store that nobody writes and verifies it: the manifest against the directory, runs against each
// other, and of every table all checksums, the order of keys, the index, the counts, and that the filter answers "maybe"
// for each key; logs record by record. It changes nothing. progress, if not nil, is called now and then with the bytes
// read and the bytes in all, by the caller's goroutine.
//
// The error joins all damage found, each with file and offset (errors.As finds the first [CorruptionError]); options
// matter only for FS and StrictWAL, and must be valid. A store that is open for writing is ErrLocked, a directory without one
// an error that Is fs.ErrNotExist, and when ctx ends so does Check, with its error. While Check runs the store can be opened
// with Options.ReadOnly alone.
func Check(ctx context.Context, dir string, options *Options, progress func(done, total uint64)) (report CheckReport, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("bloomkv: check %s: %w", dir, err)
		}
	}()
	opts := options.withDefaults()
	if err := opts.check(); err != nil {
		return report, err
	}
	lock, err := lockToRead(opts.FS, dir)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	found, err := recovery.Survey(opts.FS, dir)
	if err != nil {
		return report, err
	}
	s, err := manifest.Load(opts.FS, dir)
	if errors.Is(err, fs.ErrNotExist) { // gone since lockToRead looked
		err = noStore(found)
	}
	if err != nil {
		return report, err
	}
	damage := []error{found.Check(opts.FS, dir, &s)}
	d := new(epoch.Domain)
	c := checker{
		files:  &tableFiles{set: &descriptors{limit: minOpenFiles}, fs: opts.FS, dir: dir, domain: d},
		blocks: cache.New(minMemory, d), progress: progress,
	}
	defer func() { err = errors.Join(err, c.files.close()) }()
	err = c.version(ctx, s.Version, &report)
	if err != nil && !errors.Is(err, corrupt.Err) && !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	damage = append(damage, err)
	db := &DB{dir: dir, opts: opts, recorded: s}
	r := replay{db: db, logs: db.logReader()}
	logs := found.LogsFrom(s.MinLog)
	_, err = r.dryRun(logs)
	damage = append(damage, err)
	report.Logs, report.Records = len(logs), r.logs.Records
	return report, errors.Join(damage...)
}

// A checker reads tables one by one.
type checker struct {
	files       *tableFiles
	blocks      *cache.Cache
	progress    func(done, total uint64)
	done, total uint64
}

// table verifies one table against itself and against the manifest.
func (c *checker) table(ctx context.Context, meta *manifest.Table) (err error) {
	t := newTable(meta, c.files, c.blocks)
	defer func() {
		t.reader.Close()
		err = errors.Join(err, t.file.close())
	}()
	var entries, deletes uint64
	var first, last []byte
	var low, high ikey.Seq
	err = t.reader.Verify(ctx, func(k ikey.Key, _ []byte) error {
		if entries == 0 {
			first = bytes.Clone(k.User)
			low = k.Trailer.Seq()
		}
		last = append(last[:0], k.User...)
		low, high = min(low, k.Trailer.Seq()), max(high, k.Trailer.Seq())
		entries++
		if k.Trailer.Kind() == ikey.Delete {
			deletes++
		}
		if c.progress != nil && entries&0xfff == 0 {
			c.progress(c.done+meta.Size*min(entries, meta.Entries)/max(meta.Entries, 1), c.total)
		}
		return nil
	})
	c.done += meta.Size
	if c.progress != nil {
		c.progress(c.done, c.total)
	}
	if err != nil {
		return err
	}
	want := *meta
	want.Entries, want.Deletes, want.MinSeq, want.MaxSeq = entries, deletes, low, high
	want.Smallest, want.Largest, want.Flags = first, last, meta.Flags&^(manifest.LargestExclusive|manifest.LargestInfinite)
	countRangeDels(&want, t.reader.RangeDels())
	if want.String() != meta.String() {
		return corrupt.Newf(t.file.base, 0, "holds %v, the manifest has %v", &want, meta)
	}
	return nil
}

// countRangeDels adds a table's range tombstones to what its points say of it.
func countRangeDels(t *manifest.Table, dels rangedel.List) {
	t.RangeDeletes = 0
	for i, f := range dels {
		t.RangeDeletes += uint64(len(f.Seqs))
		if t.Entries == 0 && i == 0 {
			t.Smallest, t.MinSeq, t.MaxSeq = f.Start, f.Seqs[0], f.Seqs[0]
		}
		if bytes.Compare(f.Start, t.Smallest) < 0 {
			t.Smallest = f.Start
		}
		t.MinSeq, t.MaxSeq = min(t.MinSeq, f.Seqs[0]), max(t.MaxSeq, f.Seqs[len(f.Seqs)-1])
		switch {
		case f.End == nil:
			t.Largest, t.Flags = nil, t.Flags|manifest.LargestInfinite
		case t.Entries == 0 || bytes.Compare(f.End, t.Largest) > 0:
			t.Largest, t.Flags = f.End, t.Flags|manifest.LargestExclusive
		}
	}
}

// Check reads all tables of the store as it is now, and verifies what the package's function Check does of them; logs, and
// what is in memory, it does not. It may run beside everything else, and takes its blocks past the cache. The error joins all
// damage found; when ctx ends so does Check, with its error.
func (db *DB) Check(ctx context.Context) (report CheckReport, err error) {
	ctx, end, err := db.begin(ctx)
	if err != nil {
		return report, err
	}
	s, _ := db.hold() // it is there: Close waits for end
	c := checker{files: db.files, blocks: cache.New(minMemory, db.domain)}
	err = c.version(ctx, s.version, &report)
	db.release(s)
	return report, end(err)
}

// version verifies a version and its tables. The error joins the damage, unless it is of another kind.
func (c *checker) version(ctx context.Context, v *manifest.Version, report *CheckReport) error {
	damage := []error{v.Check()}
	for level, runs := range v.Levels {
		if len(runs) > 0 {
			report.Levels++
			report.Runs += len(runs)
		}
		c.total += v.Bytes(level)
	}
	for _, meta := range v.Tables() {
		if err := c.table(ctx, meta); err != nil {
			if !errors.Is(err, corrupt.Err) && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			damage = append(damage, err)
		}
		report.Tables++
		report.Entries += meta.Entries
		report.Bytes += meta.Size
	}
	return errors.Join(damage...)
}
