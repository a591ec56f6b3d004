package salvage

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// Spills sort the versions of logs. Whenever the versions in memory reach the limit, they are sorted into a file.
//
//	add* sources close
type spills struct {
	env    compaction.Env // of the new store, whose directory has the files
	limit  int64          // bytes in memory
	bytes  int64
	held   []version
	files  []vfs.File
	tables []*sstable.Reader
	names  []string
}

// A version is a version of a key in memory.
type version struct {
	key   ikey.Key
	value []byte
}

const versionBytes = 80 // memory for a version without its key and value

// add copies a version.
func (s *spills) add(k ikey.Key, value []byte) error {
	b := append(append(make([]byte, 0, len(k.User)+len(value)), k.User...), value...)
	n := len(k.User)
	s.held = append(s.held, version{ikey.Key{User: b[:n:n], Trailer: k.Trailer}, b[n:]})
	s.bytes += int64(len(b)) + versionBytes
	if s.bytes < s.limit {
		return nil
	}
	return s.spill()
}

// sort sorts the versions in memory. It removes duplicates, which copied logs cause.
func (s *spills) sort() {
	slices.SortFunc(s.held, func(a, b version) int { return ikey.Compare(a.key, b.key) })
	s.held = slices.CompactFunc(s.held, func(a, b version) bool { return ikey.Compare(a.key, b.key) == 0 })
}

// spill sorts the versions in memory into a file.
func (s *spills) spill() error {
	s.sort()
	number, err := s.env.Numbers.NewNumber()
	if err != nil {
		return err
	}
	name := filename.Make(s.env.Dir, filename.Temp, number)
	f, err := s.env.FS.Create(name)
	if err != nil {
		return err
	}
	s.files, s.names = append(s.files, f), append(s.names, name)
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	w := sstable.NewWriter(f, sstable.WriterOptions{ID: binary.LittleEndian.Uint64(id[:]), Codec: sstable.S2})
	for _, v := range s.held {
		if err := w.Add(v.key, v.value); err != nil {
			return err
		}
	}
	info, err := w.Finish()
	if err != nil {
		return err
	}
	r, err := sstable.Open(f, int64(info.Size), name) //nolint:gosec // of a file
	if err != nil {
		return err
	}
	s.tables = append(s.tables, r)
	clear(s.held)
	s.held, s.bytes = s.held[:0], 0
	return nil
}

// sources returns sorted sources of all versions that were added.
func (s *spills) sources() (all []source) {
	for _, r := range s.tables {
		all = append(all, spilled{r.Iter(sstable.IterOptions{Bypass: true})})
	}
	s.sort()
	return append(all, &sorted{versions: s.held})
}

// close closes and removes the files. The sources must be closed already.
func (s *spills) close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	for _, name := range s.names {
		errs = append(errs, s.env.FS.Remove(name))
	}
	return errors.Join(errs...)
}

// A spilled source reads versions from a file.
type spilled struct{ *sstable.Iter }

// Age returns 0, which is less than the age of any table. If logs and tables have equal versions, any of
// them is right.
func (spilled) Age() int { return 0 }

// A sorted source has its versions in memory.
type sorted struct{ versions []version } // the first one is the current one

// First reports whether there is a version.
func (s *sorted) First() bool { return len(s.versions) > 0 }

// Next moves to the next version.
func (s *sorted) Next() bool {
	s.versions = s.versions[1:]
	return s.First()
}

// Key returns the key of the current version.
func (s *sorted) Key() ikey.Key { return s.versions[0].key }

// Value returns the value of the current version.
func (s *sorted) Value() []byte { return s.versions[0].value }

// Age returns 0 like that of a spilled source.
func (s *sorted) Age() int { return 0 }

// Err returns nil.
func (s *sorted) Err() error { return nil }

// Close returns nil.
func (s *sorted) Close() error { return nil }
