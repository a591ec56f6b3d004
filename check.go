package bloomkv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// CheckReport is what Check has read. If there is damage, it counts what the manifest names, whether or not that was
// readable.
type CheckReport struct {
	Levels  int    // levels with tables
	Runs    int    // of all levels
	Tables  int    // in all runs
	Entries uint64 // versions in the tables, tombstones included
	Bytes   uint64 // of the tables' files
	Logs    int    // logs that Open would replay
	Records int    // complete records in these logs
}

// Check verifies a whole store that no DB has open for writing, and changes nothing. It verifies the manifest against
// the directory; the runs against each other (no key has an older version in a newer run); in each table all
// checksums, the order of keys, the index, the counts, and that the filter answers "maybe" for each key; and each
// record of the logs. If progress is not nil, the goroutine that called Check calls it from time to time with the
// bytes of tables read so far and in total.
//
// The error joins all damage found, each with file and offset (errors.As finds the first *[CorruptionError]). Of
// options, only FS and StrictWAL matter, but all must be valid. If a DB has the store open for writing, the error
// matches ErrLocked; if dir holds no store, it matches fs.ErrNotExist. When ctx ends, Check stops and returns an
// error matching that of ctx. While Check runs, the store can only be opened with Options.ReadOnly.
func Check(
	ctx context.Context, dir string, options *Options, progress func(done, total uint64),
) (report CheckReport, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("bloomkv: check %s: %w", dir, err)
		}
	}()
	opts := options.withDefaults()
	if err := opts.check(); err != nil {
		return report, err
	}
	mode := recovery.Mode{ReadOnly: true}
	lock, err := recovery.Enter(opts.FS, dir, mode)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	found, s, err := recovery.Load(opts.FS, dir, mode)
	if err != nil {
		return report, err
	}
	damage := []error{found.Check(opts.FS, dir, s)}
	d := new(epoch.Domain)
	c := checker{
		files:  tablefile.NewPool(minOpenFiles).NewDir(opts.FS, dir, d),
		blocks: cache.New(minMemory, d), progress: progress,
	}
	defer func() { err = errors.Join(err, c.files.Close()) }()
	err = c.version(ctx, s.Version, &report)
	if err != nil && !errors.Is(err, corrupt.Err) && !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	damage = append(damage, err)
	r := recovery.Logs{FS: opts.FS, Dir: dir, Mark: s.Log, Last: s.LastSeq}
	logs := found.LogsFrom(s.MinLog)
	_, err = r.Check(logs, opts.StrictWAL)
	damage = append(damage, err)
	report.Logs, report.Records = len(logs), r.Records
	return report, errors.Join(damage...)
}

// A checker reads tables one by one.
type checker struct {
	files       *tablefile.Dir
	blocks      *cache.Cache
	progress    func(done, total uint64)
	done, total uint64
}

// table verifies one table by itself and against the manifest. Verify does the latter once it has read the tail.
func (c *checker) table(ctx context.Context, meta *manifest.Table) (err error) {
	t := tree.NewTable(meta, c.files, c.blocks)
	defer func() {
		t.Reader.Close()
		err = errors.Join(err, t.File.Close())
	}()
	var entries uint64
	err = t.Reader.Verify(ctx, func(ikey.Key, []byte) error {
		if entries++; c.progress != nil && entries&0xfff == 0 {
			c.progress(c.done+meta.Size*min(entries, meta.Entries)/max(meta.Entries, 1), c.total)
		}
		return nil
	})
	c.done += meta.Size
	if c.progress != nil {
		c.progress(c.done, c.total)
	}
	return err
}

// Check reads all tables of the store as it is now, and verifies them as the package-level Check does. It does not
// verify logs or what is in memory. It may run concurrently with all other calls, and reads blocks without filling
// the cache. The error joins all damage found. When ctx ends, Check stops and returns the error of ctx.
func (db *DB) Check(ctx context.Context) (report CheckReport, err error) {
	ctx, end, err := db.tree.BeginCall(ctx)
	if err != nil {
		return report, err
	}
	s, _ := db.tree.Hold() // not nil: Close waits for end
	c := checker{files: db.tree.Files, blocks: cache.New(minMemory, db.tree.Domain)}
	err = c.version(ctx, s.Version, &report)
	db.tree.Release(s)
	return report, end(err)
}

// version verifies a version and its tables. The error joins all damage; an error of another kind is returned alone,
// at once.
func (c *checker) version(ctx context.Context, v *manifest.Version, report *CheckReport) error {
	damage := []error{v.Check()}
	damaged := map[*manifest.Table]bool{}
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
			damaged[meta] = true
		}
		report.Tables++
		report.Entries += meta.Entries
		report.Bytes += meta.Size
	}
	err := c.order(ctx, v, damaged)
	if err != nil && !errors.Is(err, corrupt.Err) {
		return err
	}
	return errors.Join(append(damage, err)...)
}
