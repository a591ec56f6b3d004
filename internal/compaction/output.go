package compaction

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/vfs"
)

// An output is a table that is being written.
type output struct {
	env        Env
	number     uint64
	file       vfs.File
	w          *sstable.Writer
	started    bool   // a version was added
	key        []byte // of the last version
	superseded bool   // some key has several versions
}

// begin creates the file of the next table, which w writes.
func begin(env Env, w *sstable.Writer) (*output, error) {
	number, err := env.Numbers.NewNumber()
	if err != nil {
		return nil, err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	file, err := env.FS.Create(filename.Make(env.Dir, filename.Table, number))
	if err != nil {
		return nil, err
	}
	w.Reset(file, sstable.WriterOptions{
		ID: binary.LittleEndian.Uint64(id[:]), BlockSize: env.BlockSize, Codec: env.Codec,
		Filter: env.Filter, Prefix: env.Prefix, Seed: env.Seed,
	})
	return &output{env: env, number: number, file: file, w: w}, nil
}

// holds reports whether the last version belongs to key.
func (o *output) holds(key []byte) bool { return o.started && bytes.Equal(o.key, key) }

// reaches reports whether the last version is at or after key.
func (o *output) reaches(key []byte) bool { return o.started && bytes.Compare(o.key, key) >= 0 }

// finish completes the table, whose file is then to be synced and closed.
func (o *output) finish() (*manifest.Table, error) {
	info, err := o.w.Finish()
	if err != nil {
		o.abandon()
		return nil, err
	}
	t := Table(o.number, info)
	if o.superseded {
		t.Flags |= manifest.Superseded
	}
	return t, nil
}

// Syncs make finished files durable while others are written: of the time of a flush in order, half was waiting for the
// disk. Each sends its error.
type Syncs []chan error

// Sync begins to make a file durable, after which it is closed. It waits while more than ahead others would not be
// durable yet, and returns the error of an earlier one.
func (s *Syncs) Sync(f vfs.File, ahead int) (err error) {
	if len(*s) == ahead {
		err = step.Take((*s)[0])
		*s = (*s)[1:]
	}
	done := make(chan error, 1)
	step.Go(func() { done <- errors.Join(f.Sync(), f.Close()) })
	*s = append(*s, done)
	return err
}

// Wait waits for all files and returns the errors that Sync has not returned.
func (s *Syncs) Wait() (err error) {
	for _, done := range *s {
		err = errors.Join(err, step.Take(done))
	}
	*s = nil
	return err
}

// abandon removes the unfinished file. If that fails, the next Open removes it as an orphan.
func (o *output) abandon() {
	_ = o.file.Close()
	_ = o.env.FS.Remove(filename.Make(o.env.Dir, filename.Table, o.number))
}

// remove removes the files of finished tables. If that fails, the next Open removes them as orphans.
func remove(env Env, tables []*manifest.Table) {
	for _, t := range tables {
		_ = env.FS.Remove(filename.Make(env.Dir, filename.Table, t.Number))
	}
}

// Table returns the manifest's description of the table in the file with the given number.
func Table(number uint64, info sstable.Info) *manifest.Table {
	t := &manifest.Table{
		Number: number, ID: info.ID, Size: info.Size, TailLen: info.TailLen, FilterLen: info.FilterLen,
		Smallest: info.Smallest, Largest: info.Largest, MinSeq: info.MinSeq, MaxSeq: info.MaxSeq,
		Entries: info.Entries, Deletes: info.Deletes, RangeDeletes: info.RangeDeletes, FilterRate: info.FilterRate,
	}
	if info.LargestExclusive {
		t.Flags |= manifest.LargestExclusive
	}
	if info.LargestInfinite {
		t.Flags |= manifest.LargestInfinite
	}
	if info.IndexInParts {
		t.Flags |= manifest.IndexInParts
	}
	if info.RangesOverlap {
		t.Flags |= manifest.RangesOverlap
	}
	return t
}
