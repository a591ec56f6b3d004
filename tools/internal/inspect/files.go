package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// A File is a file in the directory of a store that is not part of the store.
type File struct {
	File   string `json:"file"`           // escaped
	Kind   string `json:"kind"`           // by its name: "table", "log", "manifest", "temporary" or "unknown"
	Bytes  int64  `json:"bytes"`          // 0 if it is not known
	Mode   string `json:"mode,omitempty"` // of a file that is not regular
	Fate   string `json:"fate"`           // "removed" or "kept" when the store is opened
	Reason string `json:"reason"`         // the reason for Fate
}

// The fates of a file when the store is opened.
const (
	fateRemoved = "removed"
	fateKept    = "kept"
)

// An Opening describes what opening the store would do if nobody has it open.
type Opening struct {
	Refused   *Damage  `json:"refused,omitempty"` // then the other fields are zero
	Records   int      `json:"records_replayed"`  // 0 after a clean Close
	CutOff    *Damage  `json:"cut_off,omitempty"` // where the logs end; what follows was never acknowledged
	Discarded []string `json:"logs_discarded"`    // complete logs after that
	Mark      string   `json:"mark,omitempty"`    // of the store once it is open, escaped: see bloomkv.DB.Mark
}

// A view is the directory of a store as it was when it was read.
type view struct {
	dir   string
	names []string // read before the manifest, so that it knows their numbers
	found recovery.Listing
}

func newView(dir string) (*view, error) {
	names, err := vfs.OS.List(dir)
	if err != nil {
		return nil, err
	}
	return &view{dir, names, recovery.List(names)}, nil
}

// addNew adds the files that the manifest names and that were made after the names were read, before the manifest was.
func (v *view) addNew(m *manifest.State) {
	add := func(kind filename.Kind, number uint64) {
		name := filename.Base(kind, number)
		if i, known := slices.BinarySearch(v.found[kind], number); !known {
			if _, err := vfs.OS.Stat(filepath.Join(v.dir, name)); err == nil {
				v.names = append(v.names, name)
				v.found[kind] = slices.Insert(v.found[kind], i, number)
			}
		}
	}
	for _, t := range m.Version.Tables() {
		add(filename.Table, t.Number)
	}
	if m.Log != nil {
		add(filename.Log, m.Log.Number)
	}
}

// addFiles adds the logs, other files, and what opening would do to the facts of a store.
func (v *view) addFiles(ctx context.Context, s *Store, m *manifest.State, o Options) {
	s.Opening = v.opening(ctx, m)
	known := map[string]bool{s.Manifest: true, filename.CurrentName: true, filename.LockName: true}
	for _, n := range v.found.LogsFrom(m.MinLog) {
		name := filename.Base(filename.Log, n)
		known[name] = true
		l, err := readLog(ctx, filepath.Join(v.dir, name), n, o, 0)
		s.wrong, s.Logs = append(s.wrong, err), append(s.Logs, l.Log)
	}
	for _, t := range m.Version.Tables() {
		name := filename.Base(filename.Table, t.Number)
		known[name] = true
		if _, there := slices.BinarySearch(v.found[filename.Table], t.Number); !there {
			s.Missing = append(s.Missing, name)
		}
	}
	if m.Log != nil && !slices.Contains(v.found[filename.Log], m.Log.Number) {
		s.Missing = append(s.Missing, filename.Base(filename.Log, m.Log.Number))
	}
	orphans := v.found.Orphans(m)
	for _, name := range v.names {
		if known[name] {
			continue
		}
		f := v.file(name)
		switch {
		case f.Kind == "unknown":
		case s.Opening.Refused != nil:
			f.Reason += ", and opening is refused"
		case slices.Contains(orphans, name):
			f.Fate = fateRemoved
		}
		s.Others = append(s.Others, f)
	}
	s.addRefusal()
}

// addRefusal adds the reason why opening is refused to the errors, unless it is known.
func (s *Store) addRefusal() {
	if r := s.Opening.Refused; r != nil && !s.knows(r.err) {
		s.wrong = append(s.wrong, r.err)
	}
}

// knows reports whether a problem of the same file, or the same problem, is already known.
func (s *Store) knows(err error) bool {
	what := err.Error()
	if damage, ok := errors.AsType[*corrupt.Error](err); ok {
		what = damage.File
	}
	return slices.ContainsFunc(s.wrong,
		func(err error) bool { return err != nil && strings.Contains(err.Error(), what) })
}

// opening determines what opening would do. It reads damaged logs again, since another process may be writing them.
func (v *view) opening(ctx context.Context, m *manifest.State) Opening {
	o := Opening{Discarded: []string{}}
	if err := v.found.Check(vfs.OS, v.dir, m); err != nil {
		o.Refused = damageOf(err)
		return o
	}
	numbers := v.found.LogsFrom(m.MinLog)
	var last string
	for range readings {
		logs := recovery.Logs{FS: recovery.Until(ctx, vfs.OS), Dir: v.dir, Mark: m.Log, Last: m.LastSeq}
		counted, gap, err := logs.Judge(numbers)
		o.Refused, o.Records, o.CutOff = damageOf(err), logs.Records, damageOf(gap)
		if err == nil {
			mark := m.Mark
			if logs.Newest.Seq > 0 {
				mark = logs.Newest
			}
			o.Mark = words.Escaped(mark.Bytes, len(mark.Bytes))
			for _, n := range numbers[counted:] {
				o.Discarded = append(o.Discarded, filename.Base(filename.Log, n))
			}
			break
		}
		o.Records, o.CutOff = 0, nil
		if last == err.Error() {
			break
		}
		last = err.Error()
	}
	return o
}

// file describes a file that is not part of the store by its name. By default it is kept.
func (v *view) file(name string) File {
	f := File{
		File: words.Escaped([]byte(name), nameLimit), Kind: "unknown", Fate: fateKept,
		Reason: "not the name of a store file",
	}
	switch kind, _ := filename.Parse(name); kind {
	case filename.Table:
		f.Kind, f.Reason = "table", "no level has it"
	case filename.Log:
		f.Kind, f.Reason = "log", "its contents are in tables"
	case filename.Manifest:
		f.Kind, f.Reason = "manifest", "CURRENT does not name it"
	case filename.Temp:
		f.Kind, f.Reason = "temporary", "left over from an interrupted write"
	case filename.Unknown, filename.Current, filename.Lock:
	}
	if info, err := vfs.OS.Stat(filepath.Join(v.dir, name)); err == nil {
		f.Bytes = info.Size()
		if !info.Mode().IsRegular() {
			f.Mode, f.Bytes = info.Mode().String(), 0
		}
	}
	return f
}

// nameLimit is the number of bytes of a file name that are shown.
const nameLimit = 256

// Stamp returns a text that differs between states of the tables of a store: the name and the size of the manifest. It
// is empty if they are not known.
func Stamp(dir string) string {
	number, err := manifest.ReadCurrent(vfs.OS, dir)
	if err != nil {
		return ""
	}
	name := filename.Base(filename.Manifest, number)
	info, err := vfs.OS.Stat(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d", name, info.Size())
}

// ForeignStamp is like Stamp for a directory of tables of another store: it has the number of tables, their sizes and
// the latest change of one.
func ForeignStamp(dir string) string {
	names, _ := vfs.OS.List(dir)
	n, size, latest := 0, int64(0), time.Time{}
	for _, name := range names {
		if !isForeignName(name) {
			continue
		}
		if info, err := vfs.OS.Stat(filepath.Join(dir, name)); err == nil {
			n, size = n+1, size+info.Size()
			if info.ModTime().After(latest) {
				latest = info.ModTime()
			}
		}
	}
	return fmt.Sprintf("%d tables, %d bytes, %d", n, size, latest.UnixNano())
}

// forgive drops what is said of files that another process removed before they were found or read: those that the
// manifest no longer names. If opening was refused for such a file, it is determined anew, and there may be others.
func (s *Store) forgive(ctx context.Context, dir string) {
	for range readings {
		if s.Wrong() == nil && len(s.Missing) == 0 {
			return
		}
		v, err := newView(dir)
		if err != nil {
			return
		}
		m, err := manifest.Load(recovery.Until(ctx, vfs.OS), dir)
		if err != nil {
			return
		}
		live := map[string]bool{}
		for _, t := range m.Version.Tables() {
			live[filename.Base(filename.Table, t.Number)] = true
		}
		removed := func(name string) bool {
			kind, number := filename.Parse(name)
			return !live[name] && (kind != filename.Log || number < m.MinLog)
		}
		gone := map[string]bool{} // named by the manifest that was read
		for _, name := range s.Missing {
			gone[name] = removed(name)
		}
		forgiven := func(err error) bool {
			if damage, ok := errors.AsType[*corrupt.Error](err); ok && gone[damage.File] {
				return true
			}
			var path *fs.PathError
			return errors.Is(err, fs.ErrNotExist) && errors.As(err, &path) && removed(filepath.Base(path.Path))
		}
		s.wrong = slices.DeleteFunc(s.wrong, forgiven)
		s.Missing = slices.DeleteFunc(s.Missing, removed)
		s.Flags = slices.DeleteFunc(s.Flags, func(f Flag) bool { return gone[f.File] })
		r := s.Opening.Refused
		if r == nil || !forgiven(r.err) {
			return
		}
		v.addNew(&m)
		s.Opening = v.opening(ctx, &m)
		s.addRefusal()
	}
}

// String describes what opening would do, unless it is refused.
func (o *Opening) String() string {
	s := "opening the store replays nothing: all data is in tables"
	if o.Records > 0 || o.CutOff != nil {
		s = fmt.Sprintf("opening the store replays %s of logs", words.Plural(o.Records, "record"))
	}
	if o.CutOff != nil {
		s += fmt.Sprintf(", and discards what follows them: %s", words.AppendPrintable(nil, []byte(o.CutOff.Error)))
	}
	if len(o.Discarded) > 0 {
		s += fmt.Sprintf("; it discards %s after that", words.Plural(len(o.Discarded), "log"))
	}
	return s
}
