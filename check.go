package bloomkv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/memtable"
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

// Check reads a whole store that nobody has open and verifies it: the manifest against the directory, runs against each
// other, and of every table all checksums, the order of keys, the index, the counts, and that the filter answers "maybe"
// for each key; logs record by record. It changes nothing. progress, if not nil, is called now and then with the bytes
// read and the bytes in all.
//
// The error joins all damage found, each with file and offset (errors.As finds the first [CorruptionError]); options
// matter only for FS and StrictWAL, and must be valid. A store that is open is ErrLocked, a directory without one an error
// that Is fs.ErrNotExist, and when ctx ends so does Check, with its error.
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
	found, err := survey(opts.FS, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, err
	}
	if len(found[filename.Current])+len(found[filename.Table])+len(found[filename.Log]) == 0 {
		return report, fmt.Errorf("no store here: %w", fs.ErrNotExist)
	}
	lock, err := opts.FS.Lock(filepath.Join(dir, filename.LockName))
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s, err := manifest.Load(opts.FS, dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = corrupt.Newf(filename.CurrentName, 0, "missing, but there is data; the store needs repair")
	}
	if err != nil {
		return report, err
	}
	damage := []error{checkListing(opts.FS, dir, &s, found), s.Version.Check()}
	d := new(epoch.Domain)
	c := checker{files: &descriptors{fs: opts.FS, dir: dir, domain: d, limit: opts.MaxOpenFiles}, blocks: cache.New(minMemory, d), progress: progress}
	defer func() { err = errors.Join(err, c.files.close()) }()
	for level, runs := range s.Version.Levels {
		if len(runs) > 0 {
			report.Levels++
			report.Runs += len(runs)
		}
		c.total += s.Version.Bytes(level)
	}
	for _, meta := range s.Version.Tables() {
		if err := c.table(ctx, meta); err != nil {
			if !errors.Is(err, corrupt.Err) && !errors.Is(err, fs.ErrNotExist) {
				return report, err
			}
			damage = append(damage, err)
		}
		report.Tables++
		report.Entries += meta.Entries
		report.Bytes += meta.Size
	}
	r := replay{db: &DB{dir: dir, opts: opts, recorded: s}, mem: memtable.New(nil, 0), last: s.LastSeq}
	logs := found.logsFrom(s.MinLog)
	_, err = r.dryRun(logs)
	damage = append(damage, err)
	report.Logs, report.Records = len(logs), r.records
	return report, errors.Join(damage...)
}

// A checker reads tables one by one.
type checker struct {
	files       *descriptors
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
	if entries != meta.Entries || deletes != meta.Deletes || low != meta.MinSeq || high != meta.MaxSeq ||
		!bytes.Equal(first, meta.Smallest) || !bytes.Equal(last, meta.Largest) {
		return corrupt.Newf(t.file.base, 0, "%d versions, %d tombstones, sequences %d to %d, keys %q to %q; the manifest has %d, %d, %d to %d, %q to %q",
			entries, deletes, low, high, first, last, meta.Entries, meta.Deletes, meta.MinSeq, meta.MaxSeq, meta.Smallest, meta.Largest)
	}
	return nil
}
