// Package intake brings tables from outside into the directory of a store: those of a stream, files that were built
// elsewhere, and those of sorted keys. It makes them durable and verifies them, and does not change the store.
package intake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/newstore"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/vfs"
)

// ErrMissing means that a stream leaves out a table that the receiver does not have.
var ErrMissing = errors.New("the stream leaves out a table that is not here")

// A Target is the directory of a store that tables are brought into.
type Target struct {
	FS      vfs.FS
	Dir     string
	Numbers compaction.Numbers

	made []string // paths of files created, or perhaps created
}

// add returns the path of the table with a new number, and the number. The file, if there is one, is removed by
// Abandon.
func (t *Target) add() (path string, number uint64, err error) {
	if number, err = t.Numbers.NewNumber(); err != nil {
		return "", 0, err
	}
	path = filename.Make(t.Dir, filename.Table, number)
	t.made = append(t.made, path)
	return path, number, nil
}

// Abandon removes all files that were brought in.
func (t *Target) Abandon() error {
	var errs []error
	for _, path := range t.made {
		if err := t.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Stream reads the rest of a stream behind its header. It returns the tables of the header, in its order, with new
// numbers: those that travel are written, the others, which have returns, are linked or copied. Their contents are
// durable, their names are not yet. After an error the caller must call Abandon.
//
// What it writes was under checksums with its position in the stream, and the fingerprint of each file is that of the
// header. Whether the file is a table that fits its record shows when it is opened. It is part of a store only after
// the edit that the caller makes (I42).
func (t *Target) Stream(ctx context.Context, in *stream.Reader, have Have) ([]*manifest.Table, error) {
	if err := t.space(in.Header); err != nil {
		return nil, err
	}
	all := in.Header.Tables
	kept := make([]string, len(all)) // files of tables that do not travel; looked for before the first byte is written
	for i := range all {
		if all[i].Travels {
			continue
		}
		var err error
		if kept[i], err = have(&all[i]); err != nil {
			return nil, err
		}
	}
	tables := make([]*manifest.Table, len(all))
	var syncs compaction.Syncs
	var err error
	for i := range all {
		if tables[i], err = t.table(ctx, in, &all[i], kept[i], &syncs); err != nil {
			break
		}
	}
	if err = errors.Join(err, syncs.Wait()); err != nil {
		return nil, err
	}
	return tables, in.End()
}

// Runs does what Stream does, and returns the tables in runs with new numbers: the newest run of a level has the
// largest.
func (t *Target) Runs(ctx context.Context, in *stream.Reader, have Have) ([]manifest.Added, error) {
	tables, err := t.Stream(ctx, in, have)
	if err != nil {
		return nil, err
	}
	added := in.Header.State.Snapshot().Added // in the order of tables, newest data first
	runs := map[uint64]uint64{}               // their new numbers
	for i := range slices.Backward(added) {
		a := &added[i]
		if runs[a.Run] == 0 {
			if runs[a.Run], err = t.Numbers.NewNumber(); err != nil {
				return nil, err
			}
		}
		a.Run, a.Table = runs[a.Run], tables[i]
	}
	return added, nil
}

// space returns an error if the file system is certain to have too little space for the tables that travel.
func (t *Target) space(h *stream.Header) error {
	fsys, ok := t.FS.(vfs.FreeSpacer)
	if !ok {
		return nil
	}
	free, err := fsys.FreeSpace(t.Dir)
	if err != nil {
		return nil //nolint:nilerr // it is unknown
	}
	need := uint64(0)
	for _, table := range h.Tables {
		if table.Travels {
			need += table.Size
		}
	}
	if need > free {
		return fmt.Errorf("%w: %d bytes are free, want %d", vfs.ErrNoSpace, free, need)
	}
	return nil
}

// syncsAhead is the number of tables that are synced while the next one is written.
const syncsAhead = 2

// table brings in one table of a stream. kept is the file of one that does not travel.
func (t *Target) table(
	ctx context.Context, in *stream.Reader, from *stream.Table, kept string, s *compaction.Syncs,
) (*manifest.Table, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, number, err := t.add()
	if err != nil {
		return nil, err
	}
	numbered := *from.Table
	numbered.Number = number
	if !from.Travels {
		_, err = newstore.LinkOrCopy(ctx, t.FS, kept, path, from.Size)
		return &numbered, err
	}
	f, err := t.FS.Create(path)
	if err != nil {
		return nil, err
	}
	at := in.Offset()
	err = in.Table(from.Size, func(payload []byte) error {
		_, err := f.Write(payload)
		return err
	})
	if err == nil {
		var got uint64
		if got, err = stream.Fingerprint(f, path, &numbered); err == nil && got != from.Sum {
			err = corrupt.Newf("stream", at, "table %d: fingerprint %016x, want %016x", from.Number, got, from.Sum)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &numbered, s.Sync(f, syncsAhead)
}

// Have returns the file of a table that a stream leaves out. The error matches ErrMissing if there is none.
type Have func(t *stream.Table) (path string, err error)

func missing(t *stream.Table) error {
	return fmt.Errorf("%w: id %016x, %d bytes, fingerprint %016x", ErrMissing, t.ID, t.Size, t.Sum)
}

// same checks that a table of the receiver, with the given fingerprint, is the one that a stream leaves out (I38).
func same(of *stream.Table, own *manifest.Table, sum uint64) error {
	numbered := *own
	numbered.Number = of.Number
	if !numbered.Equal(of.Table) {
		return fmt.Errorf("%w: %v is here, want %v", missing(of), &numbered, of.Table)
	}
	if sum != of.Sum {
		return fmt.Errorf("%w: fingerprint %016x is here", missing(of), sum)
	}
	return nil
}
