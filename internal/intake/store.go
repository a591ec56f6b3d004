package intake

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/newstore"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// NewStore makes a store of a stream in dir, as package newstore does. base is empty, or the directory of a store that
// has the tables that the stream leaves out; no one may write to it meanwhile.
func NewStore(ctx context.Context, in *stream.Reader, fsys vfs.FS, dir, base string) (err error) {
	have := have(nil, nil)
	if base != "" {
		home, of, err := openBase(ctx, fsys, base)
		if err != nil {
			return fmt.Errorf("base %s: %w", base, err)
		}
		defer func() { err = errors.Join(err, home.Close()) }()
		fsys, have = home.FS, of
	}
	n := newstore.New(fsys, dir, base)
	if err = n.Enter(); err == nil {
		err = fill(ctx, in, n, have)
	}
	if err != nil {
		err = errors.Join(err, n.Abandon())
	}
	return err
}

// fill brings the tables of a stream into a new store, and creates it.
func fill(ctx context.Context, in *stream.Reader, n *newstore.Store, have Have) error {
	t := &Target{FS: n.FS(), Dir: n.Dir(), Numbers: new(compaction.Counter)} // the numbers of the header
	tables, err := t.Stream(ctx, in, have)
	if err == nil {
		err = opens(ctx, n.FS(), n.Dir(), tables)
	}
	if err != nil {
		return errors.Join(err, t.Abandon())
	}
	for _, table := range tables {
		n.Add(table.Number)
	}
	s := in.Header.State
	return n.Create(s.NextFile, s)
}

// opens checks that each file is a table that fits its record.
func opens(ctx context.Context, fsys vfs.FS, dir string, tables []*manifest.Table) error {
	d := new(epoch.Domain)
	shared := tree.Shared{
		Domain: d, Files: tablefile.NewPool(1).NewDir(fsys, dir, d), Blocks: cache.New(1<<20, d),
		Parts: sstable.NewPartPool(0),
	}
	for _, meta := range tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		t := shared.NewTable(meta)
		err := t.Reader.Load(1) // without the filter
		if err == nil {
			err = t.Reader.LoadParts()
		}
		t.Reader.Close()
		if err = errors.Join(err, t.File.Close()); err != nil {
			return err
		}
	}
	return nil
}

// openBase opens a closed store whose tables a stream leaves out.
func openBase(ctx context.Context, fsys vfs.FS, dir string) (*recovery.Dir, Have, error) {
	mode := recovery.Mode{ReadOnly: true}
	home, err := recovery.Enter(fsys, dir, mode)
	if err != nil {
		return nil, nil, err
	}
	_, s, err := recovery.Load(recovery.Until(ctx, home.FS), dir, mode)
	if err != nil {
		return nil, nil, errors.Join(err, home.Close())
	}
	tables := map[uint64]*manifest.Table{}
	for _, t := range s.Version.Tables() {
		tables[t.ID] = t
	}
	return home, have(tables, func(own *manifest.Table) (path string, sum uint64, err error) {
		path = filename.Make(dir, filename.Table, own.Number)
		f, err := home.FS.Open(path)
		if err != nil {
			return "", 0, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		sum, err = stream.Fingerprint(f, path, own)
		return path, sum, err
	}), nil
}

// Inventory returns the identities of the tables of a state, which stays referenced meanwhile.
func Inventory(ctx context.Context, s *tree.State) ([]stream.ID, error) {
	var ids []stream.ID
	var failed error
	s.EachTable(func(_ int, t *tree.Table) {
		if failed == nil {
			failed = ctx.Err()
		}
		if failed != nil {
			return
		}
		sum, err := t.Fingerprint()
		failed = err
		ids = append(ids, stream.ID{ID: t.Meta.ID, Size: t.Meta.Size, Sum: sum})
	})
	return ids, failed
}

// Of returns the Have of an open store, whose state stays referenced meanwhile.
func Of(s *tree.State) Have {
	tables := map[uint64]*manifest.Table{}
	s.EachTable(func(_ int, t *tree.Table) { tables[t.Meta.ID] = t.Meta })
	return have(tables, func(own *manifest.Table) (string, uint64, error) {
		t := s.Table(own)
		sum, err := t.Fingerprint()
		return t.File.Path, sum, err
	})
}

// have returns the Have of a receiver with the given tables, by id, whose files have the paths and fingerprints that
// file returns.
func have(tables map[uint64]*manifest.Table, file func(*manifest.Table) (string, uint64, error)) Have {
	return func(t *stream.Table) (string, error) {
		own := tables[t.ID]
		if own == nil {
			return "", missing(t)
		}
		path, sum, err := file(own)
		if err == nil {
			err = same(t, own, sum)
		}
		return path, err
	}
}
