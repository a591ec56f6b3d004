package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

// Traces holds the readable edits of a manifest that Load refuses because of damage. Each statement about a table
// stands alone: the table was added like this, or it was deleted and its number is never used again.
type Traces struct {
	Number   uint64           // of the manifest; 0 if there is no readable manifest
	Snapshot bool             // its first record was read: tables that it does not add were not in the store then
	Whole    bool             // all of its records were read
	Placed   map[uint64]Added // by number: the last positions of tables
	Gone     map[uint64]bool  // by number: tables that were deleted
	NextFile uint64           // the largest, like the next two
	LastSeq  ikey.Seq         //
	MinLog   uint64           //
	Filters  *Filters         // the last
	Mark     batch.Mark       // the newest
	Log      *LogMark         // the last; nil without one that counts
}

// Lost is called for each unreadable part of a file. If from and to are 0 the whole file is unreadable.
type Lost func(name string, from, to int64, reason error)

// Trace reads the manifest that CURRENT names. If CURRENT is damaged, or that manifest has no readable snapshot, it
// reads the newest one that has. numbers are those of all existing manifests, ascending. lost is called for each
// unreadable part, with the name of its file. Other errors are ErrUnsupportedVersion and those of the file system.
func Trace(ctx context.Context, fsys vfs.FS, dir string, numbers []uint64, lost Lost) (Traces, error) {
	current, err := readCurrent(fsys, dir)
	order := slices.Clone(numbers)
	slices.Reverse(order)
	switch i := slices.Index(order, current); {
	case err != nil && errors.Is(err, fs.ErrNotExist):
		lost(filename.CurrentName, 0, 0, errors.New("missing"))
	case err != nil:
		lost(filename.CurrentName, 0, maxCurrent, err)
	case i < 0:
		lost(filename.Base(filename.Manifest, current), 0, 0, errors.New("missing, CURRENT names it"))
	default:
		order = slices.Insert(slices.Delete(order, i, i+1), 0, current)
	}
	var best Traces
	for _, n := range order {
		t, err := trace(ctx, fsys, dir, n, lost)
		if err != nil {
			return t, err
		}
		if best.Number == 0 || t.Snapshot {
			best = t
		}
		if t.Snapshot {
			break
		}
	}
	return best, nil
}

// trace reads one manifest.
func trace(ctx context.Context, fsys vfs.FS, dir string, number uint64, lost Lost) (t Traces, err error) {
	name := filename.Base(filename.Manifest, number)
	t = Traces{Number: number, Whole: true, Placed: map[uint64]Added{}, Gone: map[uint64]bool{}}
	f, err := fsys.Open(filename.Make(dir, filename.Manifest, number))
	if err != nil {
		lost(name, 0, 0, err)
		t.Whole = false
		return t, nil
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lose := func(from, to int64, reason error) {
		t.Whole = false
		lost(name, from, to, reason)
	}
	err = wal.Salvage(ctx, f, name, number, func(payload []byte, at int64) error {
		e, err := ParseEdit(payload)
		if errors.Is(err, ErrUnsupportedVersion) {
			return fmt.Errorf("%s: offset %d: %w", name, at, err)
		}
		if err != nil {
			lose(at, at+int64(len(payload)), err)
			return nil
		}
		t.note(e)
		t.Snapshot = t.Snapshot || at == wal.FirstRecord+wal.HeaderSize
		return nil
	}, lose)
	if err == nil && t.Whole && !t.Snapshot {
		lose(0, 0, errNoSnapshot)
	}
	return t, err
}

func (t *Traces) note(e *Edit) {
	for _, d := range e.Deleted {
		t.Gone[d.Number] = true
	}
	for _, a := range e.Added { // tables that moved are not gone
		t.Placed[a.Table.Number] = a
		delete(t.Gone, a.Table.Number)
		t.LastSeq = max(t.LastSeq, a.Table.MaxSeq)
	}
	t.NextFile = max(t.NextFile, e.NextFile)
	t.LastSeq = max(t.LastSeq, e.LastSeq)
	t.MinLog = max(t.MinLog, e.MinLog)
	if e.Mark.Seq > t.Mark.Seq {
		t.Mark = e.Mark
	}
	if e.Filters != nil {
		t.Filters = e.Filters
	}
	if e.Log != nil {
		t.Log = e.Log
	}
	if e.NoLog || t.Log != nil && t.Log.Number < t.MinLog {
		t.Log = nil
	}
}
