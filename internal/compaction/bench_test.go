package compaction

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// benchRun adds a run of n keys, every step-th of all, and of range tombstones that each cover half the distance to
// the next key.
func benchRun(b *testing.B, d *disk, v *manifest.Version, level int, run uint64, n, step, dels int) *manifest.Version {
	b.Helper()
	s := &versions{}
	value := bytes.Repeat([]byte("v"), 100)
	for i := range n {
		key := fmt.Appendf(nil, "user%012d", i*step+int(run%5))
		s.keys = append(s.keys, ikey.Key{User: key, Trailer: ikey.MakeTrailer(ikey.Seq(run*1e6)+ikey.Seq(i), ikey.Set)})
		s.values = append(s.values, value)
	}
	var l rangedel.List
	for i := range dels {
		at := i * n * step / dels
		l = append(l, rangedel.Fragment{
			Start: fmt.Appendf(nil, "user%012d", at), End: fmt.Appendf(nil, "user%012d", at+step/2+1),
			Seqs: []ikey.Seq{ikey.Seq(run*1e6) + 1},
		})
	}
	env := d.env(8 << 20)
	env.BlockSize = 4096
	res, err := Flush(b.Context(), s, l, env)
	must(b, err)
	e := &manifest.Edit{NextFile: 1 << 20}
	for _, m := range res.Tables {
		e.Added = append(e.Added, manifest.Added{Level: level, Run: run, Table: m})
	}
	v, err = v.Apply(e)
	must(b, err)
	return v
}

// BenchmarkRun merges four runs of level 0 and one of level 6, 200,000 versions in all.
func BenchmarkRun(b *testing.B) {
	for _, c := range []struct {
		name      string
		dels      int // in each run of level 0
		snapshots []ikey.Seq
	}{
		{"points", 0, nil},
		{"points and snapshots", 0, []ikey.Seq{1500000, 2500000, 3500000, 9000000}},
		{"points and 10 range deletes", 10, nil},
		{"points and 10000 range deletes", 10000, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := newDisk(b)
			v := benchRun(b, d, &manifest.Version{}, 6, 1, 100000, 8, 0)
			for run := range uint64(4) {
				v = benchRun(b, d, v, 0, run+2, 25000, 32, c.dels)
			}
			shape := Shape{Version: v}
			p := shape.mergeLevel0(last)
			env := d.env(8<<20, c.snapshots...)
			env.BlockSize = 4096
			var read uint64
			for b.Loop() {
				res, err := merged(b.Context(), v, p, d, env)
				must(b, err)
				read += res.Read
				remove(env, res.Tables)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(read), "ns/version")
		})
	}
}

// BenchmarkPick picks from a tree in shape: 4,000 tables of the last level below 300 tables with range tombstones that
// do not justify a compaction.
func BenchmarkPick(b *testing.B) {
	e := &manifest.Edit{NextFile: 1 << 20}
	dels := map[uint64]rangedel.List{}
	key := func(n uint64) []byte { return fmt.Appendf(nil, "user%08d", n) }
	for i := range uint64(4000) {
		e.Added = append(e.Added, manifest.Added{Level: last, Run: 1, Table: &manifest.Table{
			Number: i + 1, ID: i, Size: 8 << 20, TailLen: 1, Entries: 80000, MinSeq: 1, MaxSeq: 2,
			Smallest: key(i * 1000), Largest: key(i*1000 + 999),
		}})
	}
	for i := range uint64(300) {
		m := &manifest.Table{
			Number: i + 5000, ID: i, Size: 8 << 20, TailLen: 1, Entries: 80000, MinSeq: 1, MaxSeq: 9, RangeDeletes: 3,
			Smallest: key(i * 10000), Largest: key(i*10000 + 9999),
		}
		for j := range m.RangeDeletes {
			at := i*10000 + j*100
			d := rangedel.Fragment{Start: key(at), End: key(at + 50), Seqs: []ikey.Seq{9}}
			dels[m.Number] = append(dels[m.Number], d)
		}
		e.Added = append(e.Added, manifest.Added{Level: last - 1, Run: 1, Table: m})
	}
	v, err := new(manifest.Version).Apply(e)
	must(b, err)
	policy := leveled
	policy.BaseLevelSize = 64 << 20
	shape := Shape{Version: v, Facts: &forest{dels: dels}}
	b.ReportAllocs()
	for b.Loop() {
		if p := policy.Pick(shape); p != nil {
			b.Fatal(p.text())
		}
	}
}
