// Package salvage reads what can be read of a store that may be damaged, and writes it into the tables of a new
// one: the newest version of each key by its sequence number, unless a tombstone or a range tombstone that can be
// read deletes it. Each block of a table, each record of a log and each edit of a manifest is judged by its own
// checksum. The files that are read are not changed.
//
// A table counts if the manifest adds it and does not delete it. A table that the manifest does not name counts too,
// unless all of the manifest was read and is newer than the table: then the table was replaced, and is left over.
//
// Several versions of a key may have the sequence number 0, which compaction gives to the oldest data. If the manifest
// places all tables, the version in the higher level or newer run is newer, else that in the table with the higher
// number.
package salvage

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Salvage reads one store.
//
//	survey write
type Salvage struct {
	fs     vfs.FS
	dir    string
	found  recovery.Listing
	traces manifest.Traces
	tables []*table
	dels   []rangedel.Tombstone // of tables, and later of logs
	last   ikey.Seq             // of the manifest, and later of the logs
	mark   batch.Mark           // the newest seen

	// Losses in logs behind the mark: those from behindMark on, up to behindLogs, in losses.
	behindMark, behindLogs int

	progress    func(done, total uint64)
	done, total uint64 // bytes

	losses  []Loss
	records int
	entries uint64

	unnamed   []string // tables that count though the manifest does not name them
	leftOver  []string // tables that do not count
	unplaced  []string // tables that count, that no manifest places, and whose sequence numbers are all 0 or 1
	behindGap bool     // log records were read after a loss
}

// A Result describes the tables of a new store.
type Result struct {
	Tables   []*manifest.Table // ascending and disjoint, one version of each key, with sequence number 0
	Mark     []byte            // of the new store: the newest seen, or none if data before it may be lost
	Manifest string            // name of the manifest that was read; empty if none could be
	Read     int               // tables of the old store that count
	Logs     int
	Records  int    // of logs
	Entries  uint64 // versions read
	Keys     uint64 // keys in the new tables
	Bytes    uint64 // of the new tables
	Losses   []Loss
	Doubts   []string // sentences about what cannot be known
}

// survey reads the manifest in dir and the tail of each table. Damage is no error. The errors are recovery.ErrMissing
// for a directory without any file of a store, those of unknown formats, those of listing the directory, and that of
// ctx.
func survey(ctx context.Context, fsys vfs.FS, dir string) (*Salvage, error) {
	s := &Salvage{fs: fsys, dir: dir}
	var err error
	if s.found, err = recovery.Survey(fsys, dir); err != nil {
		return nil, err
	}
	f := s.found
	if len(f[filename.Table])+len(f[filename.Log])+len(f[filename.Manifest])+len(f[filename.Current]) == 0 {
		return nil, recovery.ErrMissing
	}
	lost := func(name string, from, to int64, reason error) {
		s.lose(Loss{File: name, Offset: from, Bytes: to - from, Part: "manifest", Harmless: true, Err: reason})
	}
	s.traces, err = manifest.Trace(ctx, fsys, dir, f[filename.Manifest], lost)
	if err != nil {
		return nil, err
	}
	s.last, s.mark = s.traces.LastSeq, s.traces.Mark
	return s, s.findTables(ctx)
}

// recordedEntries returns the number of versions in the tables that count, as far as it is known.
func (s *Salvage) recordedEntries() (n uint64) {
	for _, t := range s.tables {
		n += t.meta.Entries
	}
	return n
}

// write reads all files that count and writes the new tables. It sorts up to memory bytes of the logs' operations at
// once; the others are kept in temporary files in env.Dir. progress may be nil. After an error no file is left.
func (s *Salvage) write(
	ctx context.Context, env compaction.Env, memory int64, progress func(done, total uint64),
) (res Result, err error) {
	s.progress = progress
	logs := s.found.LogsFrom(s.traces.MinLog)
	s.count(logs)
	spill := &spills{env: env, limit: memory}
	defer func() { err = errors.Join(err, spill.close()) }()
	if err := s.readLogs(ctx, logs, spill); err != nil {
		return res, err
	}
	q := queue{}
	defer func() { err = errors.Join(err, q.close()) }()
	for _, src := range spill.sources() {
		q.add(src)
	}
	for _, c := range s.chains(ctx) {
		q.add(c)
	}
	load := compaction.NewLoader(env, nil)
	if err := s.merge(ctx, &q, load); err != nil {
		load.Abandon()
		return res, err
	}
	if res.Tables, err = load.Finish(ctx); err != nil {
		return res, err
	}
	s.advance(s.total - s.done)
	for _, t := range res.Tables {
		res.Keys += t.Entries
		res.Bytes += t.Size
	}
	if s.traces.Number != 0 {
		res.Manifest = filename.Base(filename.Manifest, s.traces.Number)
	}
	res.Read, res.Logs, res.Records, res.Entries = len(s.tables), len(logs), s.records, s.entries
	res.Doubts = s.doubts()
	if len(s.mark.Bytes) > 0 && s.markHolds() {
		res.Mark = s.mark.Bytes
	}
	slices.SortStableFunc(s.losses, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
	})
	res.Losses = s.losses
	return res, nil
}

// count adds up the bytes to be read.
func (s *Salvage) count(logs []uint64) {
	for _, t := range s.tables {
		s.total += t.size
	}
	for _, n := range logs {
		if info, err := s.fs.Stat(filename.Make(s.dir, filename.Log, n)); err == nil {
			s.total += uint64(info.Size()) //nolint:gosec // not negative
		}
	}
}

// merge adds the newest version of each key that is not deleted to load.
func (s *Salvage) merge(ctx context.Context, q *queue, load *compaction.Loader) error {
	dels := rangedel.FragmentedFor(nil, s.dels)
	var last []byte
	first := true
	for q.next() {
		if s.entries++; s.entries&1023 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		k := q.key()
		if !first && bytes.Equal(k.User, last) {
			continue // an older version
		}
		first = false
		last = append(last[:0], k.User...)
		if k.Trailer.Kind() != ikey.Set || dels.Covering(k.User, ikey.MaxSeq) > k.Trailer.Seq() {
			continue
		}
		if err := load.Add(ikey.Key{User: k.User, Trailer: ikey.MakeTrailer(0, ikey.Set)}, q.value()); err != nil {
			return err
		}
	}
	return cmp.Or(q.err, ctx.Err())
}
