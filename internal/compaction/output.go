package compaction

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
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

// finish completes the table, which is then to be synced.
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

// sync syncs and closes a finished table. After an error its file is removed.
func (o *output) sync() error {
	if err := o.file.Sync(); err != nil {
		o.abandon()
		return err
	}
	if err := o.file.Close(); err != nil {
		return errors.Join(err, o.env.FS.Remove(filename.Make(o.env.Dir, filename.Table, o.number)))
	}
	return nil
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
