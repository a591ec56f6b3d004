package compaction

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// An outline is a tree of which there is nothing but its version.
type outline struct {
	t      *testing.T
	policy Leveled
	v      *manifest.Version
	next   uint64 // the last number of a table or a run
}

func newOutline(t *testing.T, policy Leveled) outline {
	t.Helper()
	return outline{t: t, policy: policy, v: &manifest.Version{}}
}

func (o *outline) apply(e *manifest.Edit) {
	o.t.Helper()
	e.NextFile = o.next + 2
	v, err := o.v.Apply(e)
	must(o.t, err)
	o.v = v
}

// A grove is a tree whose tables are sets of keys: nothing is written.
type grove struct {
	outline
	keys    map[uint64][]uint64 // of each table, ascending
	flushed uint64              // bytes
	written uint64              // bytes, by compactions
	tables  int                 // the most at rest
	runs    int                 // the most at rest
}

func newGrove(t *testing.T, policy Leveled) *grove {
	t.Helper()
	return &grove{outline: newOutline(t, policy), keys: map[uint64][]uint64{}}
}

// Bytes of the smallest table, and of each key, about as the store writes them.
const tableBytes, keyBytes = 600, 80

// table makes a table.
func (g *grove) table(keys []uint64, flags manifest.Flags) *manifest.Table {
	g.next++
	g.keys[g.next] = keys
	m := &manifest.Table{
		Number: g.next, ID: g.next, TailLen: 1, Size: tableBytes + keyBytes*uint64(len(keys)),
		Smallest: binary.BigEndian.AppendUint64(nil, keys[0]),
		Largest:  binary.BigEndian.AppendUint64(nil, keys[len(keys)-1]),
		Entries:  uint64(len(keys)), Flags: flags, MinSeq: 1, MaxSeq: 1,
	}
	return m
}

// flush adds a run of one table and carries out what the policy picks.
func (g *grove) flush(flags manifest.Flags, keys ...uint64) {
	g.t.Helper()
	m := g.table(keys, flags)
	g.flushed += m.Size
	g.apply(&manifest.Edit{Added: NewRun([]*manifest.Table{m})})
	g.settle()
	g.tables, g.runs = max(g.tables, g.v.NumTables()), max(g.runs, g.v.Runs())
}

func (g *grove) settle() {
	g.t.Helper()
	for i := 0; ; i++ {
		p := g.policy.Pick(Shape{Version: g.v})
		if p == nil {
			return
		}
		if i == 100_000 {
			g.t.Fatalf("no end of compactions: %s", p.text())
		}
		g.carry(p)
	}
}

func (g *grove) carry(p *Plan) {
	g.t.Helper()
	var outputs []*manifest.Table
	if !p.Move {
		var keys []uint64
		for _, in := range p.Inputs {
			for _, m := range in.Tables {
				keys = append(keys, g.keys[m.Number]...)
				delete(g.keys, m.Number)
			}
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		for part := range slices.Chunk(keys, int(g.policy.TableSize/keyBytes)) {
			outputs = append(outputs, g.table(part, 0))
			g.written += outputs[len(outputs)-1].Size
		}
	}
	g.next++
	g.apply(Edit(g.v, p, outputs, g.next))
}

// TestSmallFlushesLeaveFewTablesAndAreRarelyRewritten flushes a few keys at a time. Each table is compared with what it
// would be if all were merged, and what compactions write with the logarithm of that.
func TestSmallFlushesLeaveFewTablesAndAreRarelyRewritten(t *testing.T) {
	testkit.Long(t)
	one := Leveled{Trigger: 8, Slow: 12, Stop: 16, Ratio: 10, TableSize: 8 << 20, BaseLevelSize: 64 << 20}
	deep := Leveled{Trigger: 8, Slow: 12, Stop: 16, Ratio: 4, TableSize: 64 << 10, BaseLevelSize: 256 << 10}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name  string
		n     int // flushes
		flags manifest.Flags
		keys  func(i uint64) []uint64
	}{
		{"ascending keys", 10_000, 0, func(i uint64) []uint64 { return []uint64{i} }},
		{"descending keys", 10_000, 0, func(i uint64) []uint64 { return []uint64{1<<40 - i} }},
		{"random keys", 10_000, 0, func(uint64) []uint64 { return []uint64{rng.Uint64()} }},
		{"one key", 10_000, 0, func(uint64) []uint64 { return []uint64{7} }},
		{"ingested tables in order", 10_000, manifest.SeqOverridden, func(i uint64) []uint64 { return []uint64{i} }},
		{"ingested tables", 10_000, manifest.SeqOverridden, func(uint64) []uint64 { return []uint64{rng.Uint64()} }},
		{"random keys, a hundred at a time", 2000, 0, func(uint64) []uint64 {
			keys := make([]uint64, 100)
			for i := range keys {
				keys[i] = rng.Uint64()
			}
			slices.Sort(keys)
			return keys
		}},
		{"memtables of all sizes", 1000, 0, func(uint64) []uint64 {
			keys := make([]uint64, 1<<rng.IntN(12))
			for i := range keys {
				keys[i] = rng.Uint64()
			}
			slices.Sort(keys)
			return keys
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, policy := range map[string]Leveled{"one level": one, "several levels": deep} {
				g := newGrove(t, policy)
				for i := range uint64(c.n) {
					g.flush(c.flags, c.keys(i)...)
				}
				var size uint64
				for level := range g.v.Levels {
					size += g.v.Bytes(level)
				}
				most := int(2*size/(policy.TableSize/smallPart)) + policy.Slow
				wrote, limit := float64(g.written)/float64(g.flushed), 1+math.Log2(float64(g.flushed)/1000)
				t.Logf("%s: at most %d tables and %d runs, at the end %d and %d; %.2f bytes written a byte flushed",
					name, g.tables, g.runs, g.v.NumTables(), g.v.Runs(), wrote)
				if g.tables > most || g.runs > policy.Stop || wrote > limit {
					t.Errorf("%s: %d tables, %d runs, %.2f bytes written a byte flushed, want at most %d, %d, %.2f",
						name, g.tables, g.runs, wrote, most, policy.Stop, limit)
				}
			}
		})
	}
}

// TestTablesThatAreNotSmallOnlyMove loads tables of an eighth of TableSize and more in order.
func TestTablesThatAreNotSmallOnlyMove(t *testing.T) {
	policy := Leveled{Trigger: 8, Slow: 12, Stop: 16, Ratio: 10, TableSize: 64 << 10, BaseLevelSize: 512 << 10}
	g := newGrove(t, policy)
	keys := make([]uint64, (policy.TableSize/smallPart-tableBytes)/keyBytes+1)
	for i := range uint64(1000) {
		for j := range keys {
			keys[j] = i<<16 + uint64(j)
		}
		g.flush(0, slices.Clone(keys)...)
	}
	if g.written > 0 {
		t.Errorf("%d bytes were written by compactions, want none", g.written)
	}
}

// TestSmallTablesOfBeforeAreJoined begins with what earlier versions left: a table for each flush.
func TestSmallTablesOfBeforeAreJoined(t *testing.T) {
	testkit.Long(t)
	for _, level := range []int{3, last} {
		g := newGrove(t, Leveled{Trigger: 8, Slow: 12, Stop: 16, Ratio: 10, TableSize: 8 << 20, BaseLevelSize: 1 << 26})
		e := &manifest.Edit{}
		for i := range uint64(1500) {
			e.Added = append(e.Added, manifest.Added{Level: level, Run: 1 << 20, Table: g.table([]uint64{i}, 0)})
		}
		g.next = 1 << 20
		g.apply(e)
		if g.settle(); g.v.NumTables() != 1 || g.written > 1500*(tableBytes+keyBytes) {
			t.Errorf("level %d: %d tables, and %d bytes were written; want one, written once", level, g.v.NumTables(),
				g.written)
		}
	}
}

// TestAJoinedRunIsAsOldAsItsOldestData joins old runs with one that came after a call of Compact had begun.
func TestAJoinedRunIsAsOldAsItsOldestData(t *testing.T) {
	f := tree(t, "0: a-f:10 | e-h:10 | a-b:10\n6: a-c:61 d-d:60")
	oldest, newer := f.Levels[0][2].ID, f.Levels[0][0].ID
	shape := f.shape()
	p := &Plan{To: 0, Inputs: shape.level0Runs()}
	out := *f.Levels[0][0].Tables[0]
	out.Number, out.ID = 500, 500
	v, err := f.Apply(withNext(Edit(f.Version, p, []*manifest.Table{&out}, 900)))
	must(t, err)
	if runs := v.Levels[0]; len(runs) != 1 || runs[0].ID != oldest {
		t.Fatalf("%v, want run %d", v, oldest)
	}
	m := &Manual{UpTo: newer}
	if got, want := m.Next(f.of(v), leveled).text(), "0[a-f] 6[a-c d-d] merge to 6"; got != want {
		t.Errorf("Compact picks %s, want %s", got, want)
	}
}

// TestPickJoins picks where TableSize is 160, so that tables below 20 are small.
func TestPickJoins(t *testing.T) {
	for _, c := range []struct{ name, tree, want string }{
		{
			"four runs become one if what they overlap is larger",
			"0: a-f:10 | e-h:10 | a-b:10 | c-e:10\n6: a-c:21 d-d:20", "0[a-f] 0[e-h] 0[a-b] 0[c-e] merge to 0",
		},
		{
			"a run that is larger than the others together stays", "0: a-z:10 | a-z:10 | a-z:10 | a-z:31\n6: a-z:400",
			"0[a-z] 0[a-z] 0[a-z] merge to 0",
		},
		{
			"older runs go down without a large newer one", "0: a-z:900 | a-z:10 | a-z:10 | a-z:10\n6: a-z:30",
			"0[a-z] 0[a-z] 0[a-z] 6[a-z] merge to 6",
		},
		{
			"runs each of which is too large for the newer ones stay",
			"0: a-z:1 | a-z:4 | a-z:16 | a-z:64\n6: a-z:300", "nothing",
		},
		{"a run that is not small moves", "0: s-t:9 | q-r:9 | o-p:9 | m-n:20\n6: a-l:9", "0[m-n] move to 6"},
		{
			"small runs join the small table beside them",
			"0: s-t:19 | q-r:19 | o-p:19 | m-n:19\n6: a-k:100 l-l:19",
			"0[s-t] 0[q-r] 0[o-p] 0[m-n] 6[l-l] merge to 6",
		},
		{
			"one on each side", "0: s-t:19 | q-r:19 | o-p:19 | m-n:19\n6: a-l:19 x-x:19 y-z:19",
			"0[s-t] 0[q-r] 0[o-p] 0[m-n] 6[a-l x-x] merge to 6",
		},
		{
			"but no other", "0: s-t:19 | q-r:19 | o-p:19 | m-n:19\n6: a-l:20 x-z:20",
			"0[s-t] 0[q-r] 0[o-p] 0[m-n] merge to 6",
		},
		{"a small run that was ingested waits for more", "0: c-d:19:i\n6: a-b:20", "nothing"},
		{"one that is not small moves at once", "0: c-d:10:i e-f:10:i\n6: a-b:20", "0[c-d e-f] move to 6"},

		{"four small tables become one", "6: a-a:19 b-b:19 c-c:19 d-d:19", "6[a-a b-b c-c d-d] merge to 6"},
		{"three stay", "6: a-a:19 b-b:19 c-c:19", "nothing"},
		{"those that are not small stay", "6: a-a:20 b-b:20 c-c:20 d-d:20", "nothing"},
		{"also between small ones", "6: a-a:19 b-b:19 c-c:20 d-d:19 e-e:19", "nothing"},
		{
			"one that is larger than the others together stays", "6: a-a:1 b-b:19 c-c:3 d-d:3",
			"6[c-c d-d] merge to 6",
		},
		{"one that is as large does not", "6: a-a:1 b-b:6 c-c:3 d-d:2", "6[a-a b-b c-c d-d] merge to 6"},
		{
			"as many as a table holds", "6: a-a:19 b-b:19 c-c:19 d-d:19 e-e:19 f-f:19 g-g:19 h-h:19 i-i:19",
			"6[a-a b-b c-c d-d e-e f-f g-g h-h] merge to 6",
		},
		{"in any level and run", "0: e-f:9 | a-a:9 b-b:9 c-c:9 d-d:9", "0[a-a b-b c-c d-d] merge to 0"},
		{
			"not if the next level cuts the output", "5: a-a:19 e-e:19 i-i:19 m-m:19\n6: b-b:600 f-f:600 j-j:600",
			"nothing",
		},
		{
			"but up to there", "5: a-a:19 c-c:19 e-e:19 i-i:19 m-m:19\n6: b-b:600 f-f:600 l-l:600",
			"5[a-a c-c e-e i-i] merge to 5",
		},
		{
			"but no more keys than a table has", "6: a-a:19:e9000000 b-b:19:e9000000 c-c:19:e9000000 d-d:19:e90000000",
			"nothing",
		},
		{"with range tombstones", "6: a-a:19 b-c):19:r1 d-d:19 e-e:19", "6[a-a b-c) d-d e-e] merge to 6"},
		{
			"those that a range tombstone above deletes wait for it", "0: a-e):19:a~e@9\n6: a-a:3 b-b:3 c-c:3 d-d:3",
			"nothing",
		},
		{
			"others beside them do not", "0: a-c):19:a~c@9\n6: a-a:3 b-b:3 c-c:3 d-d:3 e-e:3 f-f:3",
			"6[c-c d-d e-e f-f] merge to 6",
		},
		{
			"a level above its target comes first", "5: a-c:150 e-g:150\n6: a-a:19 b-b:19 c-c:19 d-d:19 h-h:1900",
			"5[e-g] move to 6",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := tree(t, c.tree)
			policy := leveled
			policy.TableSize = 160
			shape := f.shape()
			if got := policy.Pick(shape).text(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			shape.Idle = true
			if got := policy.Pick(shape).text(); len(f.Levels[0]) == 0 && got != c.want {
				t.Errorf("while nobody writes got %s, want %s as ever", got, c.want)
			}
		})
	}
}

func TestStaleKeysOfTheLastLevelStartACompactionEarlier(t *testing.T) {
	policy := leveled
	policy.Trigger = 8
	for _, c := range []struct {
		runs  int
		stale float64
		want  int
	}{{3, 1, 3}, {3, 0.99, 8}, {2, 1, 8}, {4, 0.75, 4}, {4, 0.74, 8}, {9, 1, 8}} {
		f := tree(t, "0: a-z:10"+strings.Repeat(" | a-z:10", c.runs-1)+"\n6: a-z:100")
		f.stale = c.stale
		shape := f.shape()
		if got := policy.trigger(&shape, last); got != c.want {
			t.Errorf("%v of the keys are stale: of %d runs %d start one, want %d", c.stale, c.runs, got, c.want)
		}
	}
}

// TestTheNewerHalfIsMergedBeforeWritersAreSlowed has runs each of which is too large for the newer ones.
func TestTheNewerHalfIsMergedBeforeWritersAreSlowed(t *testing.T) {
	policy := leveled
	policy.BaseLevelSize = 1 << 20
	text := "a-z:1 | a-z:4 | a-z:16 | a-z:64 | a-z:256 | a-z:1024 | a-z:4096"
	f := tree(t, "0: "+text+"\n6: a-z:90000")
	if got := policy.Pick(f.shape()).text(); got != "nothing" || policy.Backlog(f.Version).Runs != 0 {
		t.Errorf("with 7 runs %s, backlog %+v", got, policy.Backlog(f.Version))
	}
	f = tree(t, "0: "+text+" | a-z:16384\n6: a-z:90000")
	want := "0[a-z] 0[a-z] 0[a-z] 0[a-z] merge to 0"
	if got := policy.Pick(f.shape()).text(); got != want || policy.Backlog(f.Version).Runs != 5 {
		t.Errorf("with 8 runs %s, want %s; backlog %+v, want 5 runs", got, want, policy.Backlog(f.Version))
	}
}

// TestTablesThatStaySmallAreJoinedOnce has blocks, or values, that before compression are as large as a table, and
// tables that should end at each key.
func TestTablesThatStaySmallAreJoinedOnce(t *testing.T) {
	const tables, tableSize = 12, 16 << 10
	policy := leveled
	policy.Trigger, policy.TableSize, policy.BaseLevelSize = 8, tableSize, 1<<30
	for _, c := range []struct {
		name             string
		block, keys, len int
		cuts             bool
	}{
		{"blocks", 64 << 10, 100, 200, false},
		{"values", 1 << 10, 1, 16 << 10, false},
		{"cuts", 4 << 10, 3, 800, true},
	} {
		for _, level := range []int{0, 6} {
			d := newDisk(t)
			env := d.env(tableSize)
			env.BlockSize, env.Codec = c.block, sstable.S2
			e := &manifest.Edit{NextFile: 1 << 20}
			once := env // a table for each flush
			once.TableSize = 1 << 20
			for i := range tables {
				src := &versions{}
				for j := range c.keys {
					key := ikey.Key{User: fmt.Appendf(nil, "k%05d", c.keys*i+j), Trailer: ikey.MakeTrailer(1, ikey.Set)}
					src.keys, src.values = append(src.keys, key), append(src.values, make([]byte, c.len))
					if c.cuts {
						env.Cuts = append(env.Cuts, key.User)
					}
				}
				res, err := Flush(t.Context(), src, nil, once)
				must(t, err)
				e.Added = append(e.Added, manifest.Added{Level: level, Run: 1, Table: res.Tables[0]})
			}
			v, err := new(manifest.Version).Apply(e)
			must(t, err)
			before := v.NumTables()
			plans := 0
			for p := policy.Pick(Shape{Version: v}); p != nil && plans < tables; p = policy.Pick(Shape{Version: v}) {
				plans++
				res, err := merged(t.Context(), v, p, d, env)
				must(t, err)
				v, err = v.Apply(withNext(Edit(v, p, res.Tables, 2)))
				must(t, err)
			}
			if n := v.NumTables(); before != tables || plans == 0 || plans == tables || n >= policy.Trigger {
				t.Errorf("%s, level %d: %d tables have become %d by %d compactions", c.name, level, before, n, plans)
			}
		}
	}
}
