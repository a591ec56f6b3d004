package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

// A State is everything that a manifest records. Edit describes its numbers.
type State struct {
	Version  *Version // nil means no tables
	NextFile uint64
	LastSeq  ikey.Seq // at least that of every table
	MinLog   uint64
	Log      *LogMark   // nil: no log must exist
	Filters  *Filters   // nil: unknown; replaced, never changed
	Seed     uint64     // of the store, set by its first snapshot
	Mark     batch.Mark // the newest; replaced, never changed

	// Counts are the known counts of tables, by number. Load returns the last ones of each table; Create writes those
	// of the Version's tables. The map belongs to the caller.
	Counts map[uint64]Counts

	// Set by Load, ignored by Create.
	ManifestNumber uint64 // the manifest that CURRENT names
	Torn           bool   // its last record is incomplete: that edit was never acknowledged and is not in the State

	// Replaced are the tables that its records have deleted, also those that were moved. Without the last of these
	// records, which may not be durable, they would still be needed.
	Replaced []uint64
}

var errNoSnapshot = errors.New("no record, want a snapshot")

// Take applies the numbers of e, and checks none of them.
func (s *State) Take(e *Edit) {
	s.NextFile = max(s.NextFile, e.NextFile)
	s.LastSeq = max(s.LastSeq, e.LastSeq)
	for _, a := range e.Added {
		s.LastSeq = max(s.LastSeq, a.Table.MaxSeq)
	}
	s.MinLog = max(s.MinLog, e.MinLog)
	if e.Log != nil {
		mark := *e.Log
		s.Log = &mark
	}
	if e.NoLog || s.Log != nil && s.Log.Number < s.MinLog {
		s.Log = nil
	}
	if e.Filters != nil {
		s.Filters = e.Filters
	}
	s.Seed = cmp.Or(s.Seed, e.Seed)
	if e.Mark.Seq > s.Mark.Seq {
		s.Mark = e.Mark
	}
}

// Note applies the numbers of e, as Load does when it reads e; the caller sets the Version. An error means that e has a
// number that is not in use yet or larger than any that may be, or another seed; then s stays as it is.
func (s *State) Note(e *Edit) error {
	next := *s
	next.Take(e)
	err := next.checkEdit(e)
	if err == nil {
		*s = next
	}
	return err
}

// checkEdit checks the numbers of e, and what they have made of those of s.
func (s *State) checkEdit(e *Edit) error {
	switch {
	case e.Seed != 0 && e.Seed != s.Seed:
		return fmt.Errorf("seed %016x, but the store has %016x", e.Seed, s.Seed)
	case s.MinLog > s.NextFile:
		return fmt.Errorf("smallest log %d, but next file %d", s.MinLog, s.NextFile)
	case s.Log != nil && s.Log.Number >= s.NextFile:
		return fmt.Errorf("log %d, but next file %d", s.Log.Number, s.NextFile)
	}
	for _, a := range e.Added {
		switch {
		case a.Table.Number >= s.NextFile:
			return fmt.Errorf("table %d, but next file %d", a.Table.Number, s.NextFile)
		case a.Run >= s.NextFile:
			return fmt.Errorf("table %d in run %d, but next file %d", a.Table.Number, a.Run, s.NextFile)
		}
		if err := CheckWrite(a.Table.MaxSeq); err != nil {
			return fmt.Errorf("table %d: %w", a.Table.Number, err)
		}
	}
	if err := CheckWrite(s.Mark.Seq); err != nil {
		return fmt.Errorf("mark: %w", err)
	}
	if s.Mark.Seq > s.LastSeq {
		return fmt.Errorf("mark of sequence %d, but last sequence %d", s.Mark.Seq, s.LastSeq)
	}
	return s.checkCounters()
}

// Snapshot returns the edit that leads from nothing to s.
func (s State) Snapshot() *Edit {
	e := &Edit{
		NextFile: s.NextFile, LastSeq: s.LastSeq, MinLog: s.MinLog, Log: s.Log, Seed: s.Seed, Mark: s.Mark,
		Filters: s.Filters,
	}
	if s.Version == nil {
		return e
	}
	for level, runs := range s.Version.Levels {
		for _, r := range runs {
			for _, t := range r.Tables {
				e.Added = append(e.Added, Added{level, r.ID, t})
			}
		}
	}
	e.Counts = s.counts()
	return e
}

// parts divides a snapshot into edits of about size bytes each, which lead to the same state one after another. The
// first has all numbers, and counts follow all tables.
func (e *Edit) parts(size int) []*Edit {
	first := *e
	first.Added, first.Counts = nil, nil
	parts, used := []*Edit{&first}, 0
	part := func(bytes int) *Edit {
		if used += fieldHeader + bytes; used > size {
			parts, used = append(parts, new(Edit)), fieldHeader+bytes
		}
		return parts[len(parts)-1]
	}
	for _, a := range e.Added {
		p := part(tableSize + len(a.Table.Smallest) + len(a.Table.Largest))
		p.Added = append(p.Added, a)
	}
	for _, c := range e.Counts {
		p := part(countsSize)
		p.Counts = append(p.Counts, c)
	}
	if n := len(parts); n > 1 {
		first.Records = uint32(n) //nolint:gosec // G115: what is in memory does not have so many
	}
	return parts
}

// State returns the state that e leads to from nothing. An error means that no store can have this state.
func (e *Edit) State() (State, error) {
	r := replay{counts: make(map[uint64]Counts)}
	err := r.apply(e)
	if err == nil {
		err = r.end()
	}
	if err != nil {
		return State{}, err
	}
	r.state.Counts = r.counts
	return r.state, nil
}

// Load reads the state of a store. It writes nothing. Only if there is no CURRENT file does the error match
// fs.ErrNotExist. An incomplete last record is tolerated, see State.Torn. The error for any other damage, and for a
// CURRENT that names a missing file, matches corrupt.Err (I15); the error for an unknown format matches
// ErrUnsupportedVersion.
//
// After the death of a process, the last edit or CURRENT may be in the system's cache only. So no file may be deleted
// because of a State until Create, which writes everything anew, has returned.
func Load(fsys vfs.FS, dir string) (s State, err error) {
	number, err := ReadCurrent(fsys, dir)
	if err != nil {
		return State{}, err
	}
	name := filename.Base(filename.Manifest, number)
	f, err := fsys.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, corrupt.Newf(filename.CurrentName, 0, "names %s, which is not there", name)
	}
	if err != nil {
		return State{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if s, _, err = Read(f, name, number, nil); err != nil {
		return State{}, err
	}
	return s, nil
}

// Read combines the edits of the manifest of that number, whether or not CURRENT names it, by the rules of Load. each,
// if not nil, is called with every edit before it is applied, and with the offset of its record's end. After damage,
// State and Result describe what precedes it; the State has no Version if an edit does not fit those before it, or the
// tables do not fit together.
func Read(f wal.Source, name string, number uint64, each func(e *Edit, end int64)) (State, wal.Result, error) {
	r := replay{state: State{ManifestNumber: number}, counts: make(map[uint64]Counts)}
	var records uint32 // of the snapshot, if it has several
	var unfit error    // of an edit that is partly applied
	result, err := wal.Replay(f, name, number, func(payload []byte, end int64) error {
		e, err := ParseEdit(payload)
		if err == nil {
			if each != nil {
				each(e, end)
			}
			records = cmp.Or(records, e.Records)
			err = r.apply(e)
			unfit = err
		}
		return corrupt.At(name, end-int64(len(payload)), err)
	})
	if err == nil && result.Records == 0 {
		// CURRENT is only written once the first record is durable.
		err = corrupt.At(name, result.End, cmp.Or(result.Reason, errNoSnapshot))
	}
	if err == nil && int64(result.Records) < int64(records) {
		err = corrupt.Newf(name, result.End, "%d records, want at least %d of a snapshot", result.Records, records)
	}
	r.state.Torn = result.Torn || result.Reserved > 0 // a manifest reserves no space
	if len(r.counts) > 0 {
		r.state.Counts = r.counts
	}
	if unfit != nil {
		return r.state, result, err
	}
	if unfit = r.end(); err == nil {
		err = corrupt.At(name, result.End, unfit)
	}
	return r.state, result, err
}

// A replay combines edits by table number, so that loading takes time proportional to the edits. Applying them one
// after another would take edits times tables. The runs are checked once, at the end.
type replay struct {
	state  State
	added  []Added // in their order, with what was deleted since: a snapshot is sorted
	live   map[uint64]Added
	counts map[uint64]Counts // of live tables
}

func (r *replay) apply(e *Edit) error {
	gone := make(map[uint64]Added, len(e.Deleted))
	for _, d := range e.Deleted {
		a, ok := r.live[d.Number]
		if !ok || a.Level != d.Level {
			return fmt.Errorf("table %d is deleted from level %d, where it is not", d.Number, d.Level)
		}
		delete(r.live, d.Number)
		r.state.Replaced = append(r.state.Replaced, d.Number)
		gone[d.Number] = a
	}
	if len(r.live) == 0 { // mostly before a snapshot
		r.live, r.added = make(map[uint64]Added, len(e.Added)), make([]Added, 0, len(e.Added))
	}
	for _, a := range e.Added {
		if there, ok := r.live[a.Table.Number]; ok {
			return fmt.Errorf("table %d is added, but is already at level %d", a.Table.Number, there.Level)
		}
		if err := checkMove(a, gone); err != nil {
			return err
		}
		r.live[a.Table.Number] = a
	}
	r.added = append(r.added, e.Added...)
	for _, c := range e.Counts {
		if _, ok := r.live[c.Number]; !ok {
			return fmt.Errorf("counts of table %d, which is not there", c.Number)
		}
		r.counts[c.Number] = c.Counts
	}
	for number := range gone {
		if _, moved := r.live[number]; !moved {
			delete(r.counts, number)
		}
	}
	return r.state.Note(e)
}

// end sets the version, if the tables fit together, and checks the numbers of the state.
func (r *replay) end() (err error) {
	sum := &Edit{Added: make([]Added, 0, len(r.live))}
	for _, a := range r.added {
		if r.live[a.Table.Number] == a {
			sum.Added = append(sum.Added, a)
		}
	}
	if r.state.Version, err = new(Version).Apply(sum); err != nil {
		return err
	}
	return r.state.checkNumbers()
}
