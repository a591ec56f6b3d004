package read

import (
	"bytes"
	"context"
	"errors"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/digest"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/memtable"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// Digest returns the digest of the newest data. A filter in it has the units that the rate of its level needs, by the
// plan, from the file: memory may have less of it. A memtable counts as a run of level 0. Digest reads no data block.
func (r *Reader) Digest(ctx context.Context, plan *filterplan.Plan) (*digest.Digest, error) {
	mark := r.Tree.Mark() // before the state, which then has all writes up to it
	now, err := r.Tree.Now()
	if err != nil {
		return nil, err
	}
	s, seq := now.State, now.Seq
	defer r.Tree.Release(s)
	var runs [][]*digest.Part
	for _, m := range append([]*memtable.Table{s.Mem}, s.Frozen...) {
		p, err := r.memtablePart(ctx, m, seq, plan.Levels[0].Rate)
		if err != nil {
			return nil, err
		}
		if p != nil {
			runs = append(runs, []*digest.Part{p})
		}
	}
	for _, run := range s.Runs {
		parts := make([]*digest.Part, len(run.Tables))
		for i, t := range run.Tables {
			p, err := r.tablePart(t, seq, plan.Levels[run.Level].Rate)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			parts[i] = p
		}
		runs = append(runs, parts)
	}
	return r.newDigest(runs, mark)
}

// Rebuild returns the digest of the keys that have a value now, with one filter of the given parameters. It reads all
// keys. It calls progress, if not nil, now and then with the number of keys read and that of versions in tables.
func (r *Reader) Rebuild(
	ctx context.Context, params bloomblock.Params, progress func(done, total uint64),
) (*digest.Digest, error) {
	mark := r.Tree.Mark() // before the state, as in Digest
	total := uint64(0)
	if s := r.Tree.Hold(); s != nil {
		s.EachTable(func(_ int, t *tree.Table) { total += t.Meta.Entries })
		r.Tree.Release(s)
	}
	c, err := r.Open(nil, nil, true, Newest, nil)
	if err != nil {
		return nil, err
	}
	b := partBuilder{hashes: bloomblock.Builder{Seed: r.Seed}}
	for ok := c.First(); ok && ctx.Err() == nil; ok = c.Next() {
		b.add(c.Key())
		if progress != nil && b.part.Keys%keysBetweenChecks == 0 {
			progress(b.part.Keys, total)
		}
	}
	err = errors.Join(ctx.Err(), c.Err())
	c.Close()
	if err != nil {
		return nil, err
	}
	if b.part.Keys == 0 {
		return r.newDigest(nil, mark)
	}
	if err := b.finish(params); err != nil {
		return nil, err
	}
	return r.newDigest([][]*digest.Part{{&b.part}}, mark)
}

func (r *Reader) newDigest(runs [][]*digest.Part, mark batch.Mark) (*digest.Digest, error) {
	d, err := digest.New(r.Seed, runs)
	if err != nil {
		return nil, err
	}
	return d.Marked(mark.Bytes)
}

// keysBetweenChecks is the number of keys, which take about a millisecond, after which others are asked or informed.
const keysBetweenChecks = 1 << 13

// A partBuilder makes a part of single keys. The order of calls is
//
//	add* finish
type partBuilder struct {
	part   digest.Part
	hashes bloomblock.Builder
}

// add adds a key. Keys ascend.
func (b *partBuilder) add(key []byte) {
	if b.part.Keys++; b.part.Keys == 1 {
		b.part.Lo = bytes.Clone(key)
		b.part.Hi = []byte{} // not nil, even if the only key is empty
	}
	b.part.Hi = append(b.part.Hi[:0], key...)
	b.hashes.Add(bloomblock.HashKey(key))
}

// finish completes the part with a filter of the given parameters.
func (b *partBuilder) finish(params bloomblock.Params) error {
	return b.part.SetFilter(b.hashes.AppendBlock(nil, params))
}

// tablePart returns the part of a table.
func (r *Reader) tablePart(t *tree.Table, seq ikey.Seq, maxRate float64) (*digest.Part, error) {
	m := t.Meta
	if m.Entries == 0 {
		maxRate = 1 // there are only range tombstones
	}
	filter, err := r.Tables.CopyFilter(t, maxRate)
	if err != nil {
		return nil, r.failed(err)
	}
	b := m.Bounds()
	p := &digest.Part{
		ID: m.ID, Keys: m.Entries, Lo: b.Lo, Hi: b.Hi, Exclusive: b.Hi != nil && b.Exclusive,
		Header: filter.Header, Units: filter.Units,
	}
	if m.RangeDeletes > 0 {
		p.Deleted = deleted(t.Reader.RangeDels().List(), seq)
		if m.MaxSeq > seq {
			p.ID = 0 // a later digest may see more range tombstones
		}
	}
	return p, nil
}

// memtablePart returns the part of a memtable, with a filter of the given rate. It returns nil if a reader at seq sees
// nothing in the memtable.
//
// The filter of the memtable itself is of no use: it is made for the keys that the memtable will have, and of 32 bits
// of each hash, for a rate of a few in a hundred.
func (r *Reader) memtablePart(
	ctx context.Context, m *memtable.Table, seq ikey.Seq, rate float64,
) (*digest.Part, error) {
	b := partBuilder{hashes: bloomblock.Builder{Seed: r.Seed}}
	p := &b.part
	var c memtable.Cursor
	c.Reset(m, seq)
	defer func() { _ = c.Close() }()
	for ok := c.First(); ok; ok = c.Next() {
		if k := c.Key(); k.Trailer.Kind() != ikey.Delete {
			b.add(k.User)
		}
		if p.Keys%keysBetweenChecks == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	p.Deleted = deleted(m.RangeDels().List([]ikey.Seq{seq}), seq)
	if n := len(p.Deleted); n > 0 {
		if first := p.Deleted[0].Start; p.Keys == 0 || bytes.Compare(first, p.Lo) < 0 {
			p.Lo = first
		}
		if last := p.Deleted[n-1].End; last == nil || bytes.Compare(last, p.Hi) > 0 {
			p.Hi, p.Exclusive = last, last != nil
		}
	} else if p.Keys == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	if rate >= 1 || p.Keys == 0 {
		return p, nil
	}
	params, err := bloomblock.ParamsFor(rate)
	if err == nil {
		err = b.finish(params)
	}
	return p, err
}

// deleted returns copies of the ranges that the tombstones cover for a reader at seq.
func deleted(l rangedel.List, seq ikey.Seq) (ranges []digest.Range) {
	var seen []rangedel.Tombstone // all with one number, so that those that meet become one fragment
	for i := range l {
		if f := &l[i]; f.Newest(seq) > 0 {
			seen = append(seen, rangedel.Tombstone{Start: f.Start, End: f.End, Seq: 1})
		}
	}
	for _, f := range rangedel.FragmentedFor(nil, seen) {
		ranges = append(ranges, digest.Range{Start: bytes.Clone(f.Start), End: bytes.Clone(f.End)})
	}
	return ranges
}
