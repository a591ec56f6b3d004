// Package check verifies whole stores: each file by itself, the manifest against the directory, and runs of tables
// against each other.
package check

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Report is what was read, as bloomkv.CheckReport.
type Report struct {
	Levels, Runs, Tables int
	Entries, Bytes       uint64
	Logs, Records        int
	Mark                 []byte
}

const (
	openFiles = 8       // descriptors that Store holds at most
	cacheSize = 8 << 20 // bytes of a cache that stays almost empty, since Verify reads past it
)

// Store verifies the store in dir, which it locks as a reader does. With strictWAL, a log that ends within a record is
// damage. progress is nil or is called with the bytes of tables read. The error joins all damage. When ctx ends, it is
// the error of ctx alone.
func Store(
	ctx context.Context, fsys vfs.FS, dir string, strictWAL bool, progress func(done, total uint64),
) (report Report, err error) {
	mode := recovery.Mode{ReadOnly: true}
	home, err := recovery.Enter(fsys, dir, mode)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, home.Close()) }()
	fsys = recovery.Until(ctx, home.FS)
	found, s, err := recovery.Load(fsys, dir, mode)
	if err != nil {
		return report, err
	}
	missing := found.Check(s)
	if stops(missing) {
		return report, missing
	}
	d := new(epoch.Domain)
	files := tablefile.NewPool(openFiles).NewDir(fsys, dir, d)
	report, err = Tables(ctx, s.Version, files, d, progress)
	if stops(err) {
		return report, err
	}
	damage := []error{missing, err}
	r := recovery.Logs{FS: fsys, Dir: dir, Mark: s.Log, Last: s.LastSeq}
	logs := found.LogsFrom(s.MinLog)
	_, err = r.Check(logs, strictWAL)
	if err != nil && ctx.Err() != nil {
		return report, ctx.Err()
	}
	if stops(err) {
		return report, err
	}
	report.Logs, report.Records = len(logs), r.Records
	mark := s.Mark
	if r.Newest.Seq > 0 {
		mark = r.Newest
	}
	if len(mark.Bytes) > 0 {
		report.Mark = mark.Bytes
	}
	return report, errors.Join(append(damage, err)...)
}

// stops reports whether an error ends the check: it is no damage, but a failure to read, or the end of the context. A
// file that is missing, or is another thing than a file, is damage that the directory shows: see Found.Check.
func stops(err error) bool {
	return err != nil && !errors.Is(err, corrupt.Err) && !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, vfs.ErrNotRegular)
}

// A checker reads tables one by one.
type checker struct {
	tree.Shared
	progress    func(done, total uint64)
	done, total uint64
}

// Tables verifies a version and its tables. The error joins all damage; an error of another kind, such as that of ctx,
// is returned alone, at once.
func Tables(
	ctx context.Context, v *manifest.Version, files *tablefile.Dir, d *epoch.Domain, progress func(done, total uint64),
) (report Report, err error) {
	c := checker{
		Shared: tree.Shared{
			Domain: d, Files: files, Blocks: cache.New(cacheSize, d), Parts: sstable.NewPartPool(cacheSize),
		},
		progress: progress,
	}
	damage := []error{v.Check()}
	if err := ctx.Err(); err != nil { // there may be many tables
		return report, err
	}
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
			if stops(err) {
				return report, err
			}
			damage = append(damage, err)
			damaged[meta] = true
		}
		report.Tables++
		report.Entries += meta.Entries
		report.Bytes += meta.Size
	}
	if err = c.order(ctx, v, damaged); err != nil && !errors.Is(err, corrupt.Err) {
		return report, err
	}
	return report, errors.Join(append(damage, err)...)
}

// Table verifies one table by itself and against its record. name is that of its file, for errors.
func Table(ctx context.Context, f io.ReaderAt, name string, meta *manifest.Table) error {
	d := new(epoch.Domain)
	r := sstable.NewReader(f, tree.MetaOf(meta, name), cache.New(0, d), sstable.NewPartPool(0), d)
	defer r.Close()
	return r.Verify(ctx, nil)
}

// table verifies one table by itself and against the manifest. Verify does the latter once it has read the tail.
func (c *checker) table(ctx context.Context, meta *manifest.Table) (err error) {
	t := c.NewTable(meta)
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
	if c.progress != nil && !stops(err) {
		c.progress(c.done, c.total)
	}
	return err
}
