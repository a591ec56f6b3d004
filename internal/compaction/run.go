package compaction

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// Env is what writing tables needs of the store.
type Env struct {
	FS        vfs.FS
	Dir       string
	NewNumber func() (uint64, error)                      // a file number never used before
	Open      func(*manifest.Table) (merge.Source, error) // a cursor over an input; it bypasses the block cache
	TableSize uint64                                      // bytes at which an output ends
	BlockSize int                                         //
	Codec     sstable.Codec                               // of the output level
	Filter    bloomblock.Params                           // of the output level
}

// Result is what a Write left on the disk, synced except for the names in the directory.
type Result struct {
	Tables  []*manifest.Table // ascending, disjoint
	Read    uint64            // versions read
	Dropped uint64            // versions that were shadowed, or tombstones with nothing under them
}

// Flush writes all of a memtable. Of versions of one key the newest stays; tombstones stay, as older runs may hold their keys.
func Flush(ctx context.Context, src merge.Source, env Env) (Result, error) {
	return write(ctx, src, &retain{newest: true}, nil, env)
}

// Run merges the inputs of a plan that is not a move. v is the version that the plan was picked from.
func Run(ctx context.Context, v *manifest.Version, p *Plan, env Env) (Result, error) {
	var sources []merge.Source
	for _, in := range p.Inputs {
		tables := in.Tables
		sources = append(sources, merge.NewConcat(len(tables), nil, func(i int) (merge.Source, error) { return env.Open(tables[i]) }))
	}
	var grand []*manifest.Table
	if p.To < last && len(v.Levels[p.To+1]) > 0 {
		grand = v.Levels[p.To+1][0].Tables
	}
	res, err := write(ctx, merge.New(sources...), newRetain(v, p.To), grand, env)
	if err != nil {
		return res, err
	}
	var want uint64
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			want += t.Entries
		}
	}
	if res.Read != want {
		remove(env, res.Tables)
		return Result{}, fmt.Errorf("compaction: read %d versions, the manifest has %d: %w", res.Read, want, errCount)
	}
	return res, nil
}

var errCount = errors.New("inputs and manifest disagree")

// maxOverlap bounds the bytes of the next level that one output overlaps, in tables, so that it can later be merged down
// without rewriting half of that level.
const maxOverlap = 10

// write drains src, which it closes, into tables. After an error no file is left.
func write(ctx context.Context, src merge.Source, keep *retain, grand []*manifest.Table, env Env) (res Result, err error) {
	defer func() {
		err = errors.Join(err, src.Close())
		if err != nil {
			remove(env, res.Tables)
			res.Tables = nil
		}
	}()
	var out *output
	var overlap uint64
	for ok := src.First(); ok; ok = src.Next() {
		if res.Read++; res.Read&1023 == 0 && ctx.Err() != nil {
			err = ctx.Err()
			break
		}
		k := src.Key()
		trailer, stays := keep.keep(k)
		if !stays {
			res.Dropped++
			continue
		}
		for len(grand) > 0 && string(grand[0].Largest) < string(k.User) {
			overlap += grand[0].Size
			grand = grand[1:]
		}
		// Only one version of a key stays, so that a cut between two kept versions is a cut between keys.
		if out != nil && (out.w.Size() >= env.TableSize || overlap > maxOverlap*env.TableSize) {
			if err = out.finish(&res); err != nil {
				out = nil
				break
			}
			out = nil
		}
		if out == nil {
			overlap = 0
			if out, err = begin(env); err != nil {
				break
			}
		}
		if err = out.w.Add(ikey.Key{User: k.User, Trailer: trailer}, src.Value()); err != nil {
			break
		}
	}
	err = errors.Join(err, src.Err())
	if out != nil {
		if err == nil {
			err = out.finish(&res)
		} else {
			out.abandon()
		}
	}
	return res, err
}

// An output is one table being written.
type output struct {
	env    Env
	number uint64
	file   vfs.File
	w      *sstable.Writer
}

func begin(env Env) (*output, error) {
	number, err := env.NewNumber()
	if err != nil {
		return nil, err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	file, err := env.FS.Create(filename.Make(env.Dir, filename.Table, number))
	if err != nil {
		return nil, err
	}
	return &output{env, number, file, sstable.NewWriter(file, sstable.WriterOptions{
		ID: binary.LittleEndian.Uint64(id[:]), BlockSize: env.BlockSize, Codec: env.Codec, Filter: env.Filter,
	})}, nil
}

// finish completes, syncs and closes the table and adds it to the result.
func (o *output) finish(res *Result) error {
	info, err := o.w.Finish()
	if err == nil {
		err = o.file.Sync()
	}
	if err != nil {
		o.abandon()
		return err
	}
	if err := o.file.Close(); err != nil {
		return errors.Join(err, o.env.FS.Remove(filename.Make(o.env.Dir, filename.Table, o.number)))
	}
	res.Tables = append(res.Tables, &manifest.Table{
		Number: o.number, ID: info.ID, Size: info.Size, TailLen: info.TailLen, FilterLen: info.FilterLen,
		Smallest: info.Smallest, Largest: info.Largest, MinSeq: info.MinSeq, MaxSeq: info.MaxSeq,
		Entries: info.Entries, Deletes: info.Deletes, FilterRate: o.env.Filter.Rate(),
	})
	return nil
}

// abandon removes the unfinished file. What goes wrong with that is left to the next Open, which removes orphans.
func (o *output) abandon() {
	_ = o.file.Close()
	_ = o.env.FS.Remove(filename.Make(o.env.Dir, filename.Table, o.number))
}

func remove(env Env, tables []*manifest.Table) {
	for _, t := range tables {
		_ = env.FS.Remove(filename.Make(env.Dir, filename.Table, t.Number))
	}
}

// Edit is the change a finished compaction makes: the inputs go, the outputs come into the run of the output level,
// which is newRun where there is none.
func Edit(v *manifest.Version, p *Plan, outputs []*manifest.Table, newRun uint64) *manifest.Edit {
	e := &manifest.Edit{}
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			e.Deleted = append(e.Deleted, manifest.Deleted{Level: in.Level, Number: t.Number})
		}
	}
	if p.Move {
		outputs = p.Inputs[0].Tables
	}
	if len(outputs) == 0 {
		return e
	}
	run := newRun
	if runs := v.Levels[p.To]; len(runs) > 0 {
		run = runs[0].ID
	}
	for _, t := range outputs {
		e.Added = append(e.Added, manifest.Added{Level: p.To, Run: run, Table: t})
	}
	return e
}
