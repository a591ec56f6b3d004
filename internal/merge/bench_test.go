package merge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// keys is a source like a table's cursor, which copies each key to its own buffer. It allocates nothing.
type keys struct {
	all []ikey.Key
	i   int
	key []byte
}

func (s *keys) at(i int) bool {
	if s.i = i; uint(i) >= uint(len(s.all)) {
		return false
	}
	s.key = append(s.key[:0], s.all[i].User...)
	return true
}

func (s *keys) search(k ikey.Key) int {
	return sort.Search(len(s.all), func(i int) bool { return ikey.Compare(s.all[i], k) >= 0 })
}

func (s *keys) First() bool            { return s.at(0) }
func (s *keys) Last() bool             { return s.at(len(s.all) - 1) }
func (s *keys) SeekGE(k ikey.Key) bool { return s.at(s.search(k)) }
func (s *keys) SeekLT(k ikey.Key) bool { return s.at(s.search(k) - 1) }
func (s *keys) Next() bool             { return s.at(s.i + 1) }
func (s *keys) Prev() bool             { return s.at(s.i - 1) }
func (s *keys) Key() ikey.Key          { return ikey.Key{User: s.key, Trailer: s.all[s.i].Trailer} }
func (s *keys) Value() []byte          { return nil }
func (s *keys) Err() error             { return nil }
func (s *keys) Close() error           { return nil }

// keyRun is a run of tables of keys, which are opened as one reused source.
type keyRun struct {
	tables [][]ikey.Key
	src    keys
}

func newKeyRun(all []ikey.Key, size int) *keyRun {
	return &keyRun{tables: slices.Collect(slices.Chunk(all, size))}
}

func (r *keyRun) Len() int { return len(r.tables) }

func (r *keyRun) Find(user []byte) int {
	return sort.Search(len(r.tables), func(i int) bool { return string(r.Bounds(i).Hi) >= string(user) })
}

func (r *keyRun) Bounds(i int) Bounds {
	t := r.tables[i]
	return Bounds{Lo: t[0].User, Hi: t[len(t)-1].User}
}

func (r *keyRun) Open(i int) (Source, error) {
	r.src.all = r.tables[i]
	return &r.src, nil
}

// spread distributes n ascending keys to k sources, run successive keys at a time.
func spread(k, n, run int) [][]ikey.Key {
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([][]ikey.Key, k)
	src := 0
	for i := range n {
		if i%run == 0 {
			src = rng.IntN(k)
		}
		all[src] = append(all[src], ikey.Search(fmt.Appendf(nil, "user%012d", i*7919), ikey.Seq(i)))
	}
	return all
}

// A pooled is a merge with its sources, as a store keeps it for the next iterator.
type pooled struct {
	m       Iter
	runs    []*keyRun
	concats []Concat
	sources []Source
}

// newPooled returns a merge with one run of tables, or one plain source, for each element of all.
func newPooled(all [][]ikey.Key, plain bool) *pooled {
	p := &pooled{concats: make([]Concat, len(all)), sources: make([]Source, len(all))}
	for i, ks := range all {
		p.runs = append(p.runs, newKeyRun(ks, 1000))
		p.sources[i] = &p.concats[i]
		if plain {
			p.sources[i] = &keys{all: ks}
		}
	}
	return p
}

func (p *pooled) begin() {
	for i, r := range p.runs {
		p.concats[i].Reset(r)
	}
	p.m.Reset(p.sources)
}

func TestAPooledMergeAllocatesNothing(t *testing.T) {
	all := spread(5, 20000, 3)
	p := newPooled(all, false)
	k := ikey.Search([]byte("user000080000000"), ikey.MaxSeq)
	skip := ikey.Search([]byte("user000120000000"), ikey.MaxSeq)
	var targets []ikey.Key
	for i := range all {
		targets = append(targets, ikey.Key{User: k.User, Trailer: k.Trailer - ikey.Trailer(i)})
	}
	steps := 0
	walk := func() {
		p.begin()
		m := &p.m
		for ok := m.SeekEach(targets, false); ok && steps < 9000; ok = m.Next() {
			steps++
		}
		for ok := m.Prev(); ok && steps < 15000; ok = m.Prev() {
			steps++
		}
		for ok := m.Skip(1, skip, false); ok && steps < 18000; ok = m.Next() {
			steps++
		}
		for ok := m.Skip(0, k, true); ok && steps < 19000; ok = m.Prev() {
			steps++
		}
		for range 4 {
			if !m.First() || !m.Next() || !m.Prev() || !m.SeekGE(k) || !m.SeekLT(k) || !m.Next() || !m.Last() ||
				m.Err() != nil {
				t.Fatal("the merge has no current version")
			}
		}
		must(t, m.Close())
	}
	walk()
	if steps < 15000 {
		t.Fatalf("%d steps", steps)
	}
	if n := testing.AllocsPerRun(10, func() { steps = 0; walk() }); n != 0 {
		t.Errorf("a walk allocates %v times", n)
	}
}

func BenchmarkStep(b *testing.B) {
	for _, bench := range []struct {
		name   string
		k, run int // number of sources; number of successive keys in one
		plain  bool
	}{
		{"1 source", 1, 1, true},
		{"5 sources at random", 5, 1, true},
		{"5 sources by hundreds", 5, 100, true},
		{"16 sources at random", 16, 1, true},
		{"1 run", 1, 1, false},
		{"5 runs at random", 5, 1, false},
		{"5 runs by hundreds", 5, 100, false},
	} {
		p := newPooled(spread(bench.k, 100000, bench.run), bench.plain)
		p.begin()
		b.Run(bench.name+", forward", func(b *testing.B) {
			ok := false
			for b.Loop() {
				if ok = ok && p.m.Next(); !ok {
					ok = p.m.First()
				}
			}
		})
		b.Run(bench.name+", backward", func(b *testing.B) {
			ok := false
			for b.Loop() {
				if ok = ok && p.m.Prev(); !ok {
					ok = p.m.Last()
				}
			}
		})
		b.Run(bench.name+", in turns", func(b *testing.B) {
			p.m.SeekGE(ikey.Search([]byte("user000300000000"), ikey.MaxSeq))
			for b.Loop() {
				p.m.Next()
				p.m.Prev()
			}
		})
		must(b, p.m.Close())
	}
}
