package salvage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

// Traces are the readable edits of a manifest that manifest.Load refuses because of damage. Each statement about a
// table stands alone: the table was added like this, or it was deleted and its number is never used again.
type traces struct {
	number   uint64                    // of the manifest; 0 if there is no readable manifest
	snapshot bool                      // its first record was read
	whole    bool                      // all of its records were read
	placed   map[uint64]manifest.Added // by number: the last positions of tables
	gone     map[uint64]bool           // by number: tables that were deleted
	numbers  manifest.State            // without a Version
}

// A lostFunc is called for each unreadable part of a file. If from and to are 0 the whole file is unreadable.
type lostFunc func(name string, from, to int64, reason error)

// trace reads the manifest that CURRENT names. If CURRENT is damaged, or that manifest has no readable snapshot, it
// reads the newest one that has. numbers are those of all existing manifests, ascending. lost is called for each
// unreadable part, with the name of its file. Other errors are manifest.ErrUnsupportedVersion and those of the file
// system.
func trace(ctx context.Context, fsys vfs.FS, dir string, numbers []uint64, lost lostFunc) (traces, error) {
	current, err := manifest.ReadCurrent(fsys, dir)
	order := slices.Clone(numbers)
	slices.Reverse(order)
	switch i := slices.Index(order, current); {
	case err != nil && errors.Is(err, fs.ErrNotExist):
		lost(filename.CurrentName, 0, 0, errors.New("missing"))
	case err != nil:
		lost(filename.CurrentName, 0, 0, err)
	case i < 0:
		lost(filename.Base(filename.Manifest, current), 0, 0, errors.New("missing, CURRENT names it"))
	default:
		order = slices.Insert(slices.Delete(order, i, i+1), 0, current)
	}
	var best traces
	for _, n := range order {
		t, err := traceOne(ctx, fsys, dir, n, lost)
		if err != nil {
			return t, err
		}
		if best.number == 0 || t.snapshot {
			best = t
		}
		if t.snapshot {
			break
		}
	}
	return best, nil
}

// traceOne reads one manifest.
func traceOne(ctx context.Context, fsys vfs.FS, dir string, number uint64, lost lostFunc) (t traces, err error) {
	name := filename.Base(filename.Manifest, number)
	t = traces{number: number, whole: true, placed: map[uint64]manifest.Added{}, gone: map[uint64]bool{}}
	f, err := fsys.Open(filename.Make(dir, filename.Manifest, number))
	if err != nil {
		lost(name, 0, 0, err)
		t.whole = false
		return t, nil
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lose := func(from, to int64, reason error) {
		t.whole = false
		lost(name, from, to, reason)
	}
	missing, end := int64(1), int64(0) // records of the snapshot, and the end of the last one
	err = readRecords(ctx, f, name, number, func(payload []byte, at int64) error {
		e, err := manifest.ParseEdit(payload)
		if errors.Is(err, manifest.ErrUnsupportedVersion) {
			return corrupt.At(name, at, err)
		}
		if err != nil {
			lose(at, at+int64(len(payload)), err)
			return nil
		}
		t.note(e)
		if at == wal.FirstRecord+wal.HeaderSize {
			t.snapshot, missing = true, max(1, int64(e.Records))
		}
		missing, end = missing-1, at+int64(len(payload))
		return nil
	}, lose)
	switch {
	case err != nil || !t.whole:
	case !t.snapshot:
		lose(0, 0, errors.New("no record, want a snapshot"))
	case missing > 0:
		lose(end, end, fmt.Errorf("%d more records of the snapshot are missing", missing))
	}
	return t, err
}

// note takes an edit.
func (t *traces) note(e *manifest.Edit) {
	for _, d := range e.Deleted {
		t.gone[d.Number] = true
	}
	for _, a := range e.Added { // tables that moved are not gone
		t.placed[a.Table.Number] = a
		delete(t.gone, a.Table.Number)
	}
	t.numbers.Take(e)
}
