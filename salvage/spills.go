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
	env   compaction.Env // of the new store, whose directory has the files
	limit int64          // bytes in memory
	bytes int64
	held  []version
	files []spill
}

// A spill is a file of sorted versions.
type spill struct {
	name  string
	file  vfs.File
	table *sstable.Reader // nil after an error
}

const versionBytes = 88 // memory for a version without its key and value

// add copies a version.
func (s *spills) add(k ikey.Key, value []byte) error {
	b := append(append(make([]byte, 0, len(k.User)+len(value)), k.User...), value...)
	n := len(k.User)
	s.held = append(s.held, version{key: ikey.Key{User: b[:n:n], Trailer: k.Trailer}, value: b[n:]})
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
	s.files = append(s.files, spill{name: name, file: f})
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
	s.files[len(s.files)-1].table = r
	clear(s.held)
	s.held, s.bytes = s.held[:0], 0
	return nil
}

// sources returns sources of all versions that were added.
func (s *spills) sources() (all []source) {
	for _, f := range s.files {
		all = append(all, func(yield func(version, error) bool) {
			it := f.table.Iter(sstable.IterOptions{Bypass: true})
			for ok := it.First(); ok; ok = it.Next() {
				if !yield(version{key: it.Key(), value: it.Value()}, nil) {
					_ = it.Close() // no move has failed
					return
				}
			}
			if err := it.Close(); err != nil { // that of a move
				yield(version{}, err)
			}
		})
	}
	s.sort()
	return append(all, func(yield func(version, error) bool) {
		for _, v := range s.held {
			if !yield(v, nil) {
				return
			}
		}
	})
}

// close closes and removes the files. The sources must have ended.
func (s *spills) close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.file.Close(), s.env.FS.Remove(f.name))
	}
	return errors.Join(errs...)
}
