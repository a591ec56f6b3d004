package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/newstore"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

var (
	// errOverlap means that two files have ranges of keys that overlap.
	errOverlap = fmt.Errorf("%w: tables overlap", ErrOrder)
	// errVersions means that a table may have several versions of a key.
	errVersions = errors.New("want a table with one version of each key, as a Writer of package sstable writes it")
)

// Files links or copies tables, and returns them ascending by key, with new numbers. Each must have at most one version
// of each key and no range tombstones, and their ranges must not overlap. It reads the tail of each and the header of
// its filter. Their contents are durable, their names are not yet. After an error the caller must call Abandon.
func (t *Target) Files(ctx context.Context, paths []string) ([]*manifest.Table, error) {
	tables := make([]*manifest.Table, len(paths))
	from := map[*manifest.Table]string{}
	for i, path := range paths {
		var err error
		if tables[i], err = t.file(ctx, path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		from[tables[i]] = path
	}
	slices.SortFunc(tables, func(a, b *manifest.Table) int { return bytes.Compare(a.Smallest, b.Smallest) })
	for i := 1; i < len(tables); i++ {
		if a, b := tables[i-1], tables[i]; !a.EndsBefore(b.Smallest) {
			return nil, fmt.Errorf("%w: %s with %s, %s with %s", errOverlap, from[a], a.Bounds(), from[b], b.Bounds())
		}
	}
	return tables, nil
}

// file links or copies one table.
func (t *Target) file(ctx context.Context, path string) (*manifest.Table, error) {
	info, err := t.describe(path)
	if err != nil {
		return nil, err
	}
	if info.MinSeq != info.MaxSeq || info.RangeDeletes > 0 {
		return nil, fmt.Errorf("sequence numbers %d…%d and %d range tombstones: %w",
			info.MinSeq, info.MaxSeq, info.RangeDeletes, errVersions)
	}
	to, number, err := t.add()
	if err != nil {
		return nil, err
	}
	if _, err := newstore.LinkOrCopy(ctx, t.FS, path, to, info.Size); err != nil {
		return nil, err
	}
	return compaction.Table(number, info), t.syncFile(to)
}

// describe reads what a table says about itself.
func (t *Target) describe(path string) (info sstable.Info, err error) {
	f, err := t.FS.Open(path)
	if err != nil {
		return info, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return info, err
	}
	r, err := sstable.Open(f, size, path)
	if err != nil {
		return info, err
	}
	defer r.Close()
	return r.Info()
}

// syncFile makes a file durable that its writer may not have synced.
func (t *Target) syncFile(path string) (err error) {
	f, err := t.FS.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
