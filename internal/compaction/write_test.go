package compaction

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// Outputs are cut before the first key of the next table, and range tombstones with them.
func TestTablesAreCutBetweenKeys(t *testing.T) {
	long := strings.Repeat("v", 600) // two such make a table
	for _, c := range []struct {
		name, input string
		snapshots   []ikey.Seq
		want        string
	}{
		{"no range tombstone", "a@1=V b@2=V c@3=V d@4=V e@5=V", nil, "a@1=V b@2=V | c@3=V d@4=V | e@5=V"},
		{
			"one over all", "a@7=V b@8=V c@9=V d@9=V e@9=V ^~∞@6", nil,
			"a@7=V b@8=V ^~c@6 | c@9=V d@9=V c~e@6 | e@9=V e~∞@6",
		},
		{"one up to a cut", "a@7=V b@8=V c@9=V b~c@6", nil, "a@7=V b@8=V b~c@6 | c@9=V"},
		{
			"one behind the last key of a full table begins the next", "a@7=V b@8=V c@9=V bb~c@6", nil,
			"a@7=V b@8=V | c@9=V bb~c@6",
		},
		{"one behind a cut", "a@7=V b@8=V c@9=V c~d@6", nil, "a@7=V b@8=V | c@9=V c~d@6"},
		{"one between keys begins a table", "a@7=V b@8=V d@9=V c~ca@6", nil, "a@7=V b@8=V | d@9=V c~ca@6"},
		{"one behind all keys", "a@7=V b@8=V x~z@6", nil, "a@7=V b@8=V | x~z@6"},
		{"one over the last key and on", "a@7=V b@8=V b~z@6", nil, "a@7=V b@8=V b~z@6"},
		{
			"versions of a key stay together", "a@9=V a@7=V a@5=V a@3=V b@2=V",
			[]ikey.Seq{3, 5, 7},
			"a@9=V a@7=V a@5=V a@3=V | b@2=V",
		},
		{
			"with what lies over them", "a@9=V a@7=V a@5=V a@3=V b@2=V ^~∞@4",
			[]ikey.Seq{3, 5, 7},
			"a@9=V a@7=V a@5=V a@3=V ^~b@4 | b@2=V b~∞@4",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk(t)
			src, dels := source(strings.ReplaceAll(c.input, "V", long))
			res, err := Flush(t.Context(), src, dels, d.env(1100, c.snapshots...))
			must(t, err)
			if got := strings.ReplaceAll(d.text(res.Tables), long, "V"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Four long values make a table, and half of one is little.
func TestTablesEndAtCuts(t *testing.T) {
	long := strings.Repeat("v", 600)
	for _, c := range []struct{ cuts, input, want string }{
		{"c", "a@1=V b@2=V c@3=V d@4=V", "a@1=V b@2=V | c@3=V d@4=V"},
		{"bb c e z", "a@1=V b@2=V d@3=V f@4=V", "a@1=V b@2=V | d@3=V | f@4=V"},
		{"b c d", "a@1=v b@2=v c@3=v d@4=v", "a@1=v b@2=v c@3=v d@4=v"},
		{"b d f", "a@1=V c@2=v e@3=V g@4=V", "a@1=V | c@2=v e@3=V | g@4=V"},
		{"g h", "a@1=V b@2=V c@3=V d@4=V e@5=v g@6=v h@7=V", "a@1=V b@2=V c@3=V d@4=V | e@5=v | g@6=v h@7=V"},
		{"b", "a@2=V b@3=V ^~c@1", "a@2=V ^~b@1 | b@3=V b~c@1"},
	} {
		d := newDisk(t)
		env := d.env(2300)
		for key := range strings.FieldsSeq(c.cuts) {
			env.Cuts = append(env.Cuts, []byte(key))
		}
		src, dels := source(strings.ReplaceAll(c.input, "V", long))
		res, err := Flush(t.Context(), src, dels, env)
		must(t, err)
		if got := strings.ReplaceAll(d.text(res.Tables), long, "V"); got != c.want {
			t.Errorf("cuts %s: got  %s\nwant %s", c.cuts, got, c.want)
		}
	}
}

// On a single processor, another goroutine has a turn after every yieldEvery versions, except for the few that the
// scheduler gives to goroutines of the runtime.
func TestOthersRunWhileTablesAreWritten(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := newDisk(t)
	var text strings.Builder
	const turns = 100
	for i := range turns * yieldEvery {
		fmt.Fprintf(&text, "k%06d@7=v ", i)
	}
	src, dels := source(text.String())
	var had atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			had.Add(1)
			runtime.Gosched()
		}
	})
	res, err := Flush(t.Context(), src, dels, d.env(1<<20))
	n := had.Load()
	stop.Store(true)
	wg.Wait()
	must(t, err)
	if res.Read != turns*yieldEvery || n < turns/2 {
		t.Errorf("another goroutine had %d turns while %d versions were written, want at least %d", n, res.Read,
			turns/2)
	}
}

func TestManyRangeTombstonesAreDividedAmongTables(t *testing.T) {
	d := newDisk(t)
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "k%05d~k%05dx@%d ", i, i, i+1)
	}
	src, dels := source(b.String())
	res, err := Flush(t.Context(), src, dels, d.env(16<<10))
	must(t, err)
	if n := len(res.Tables); n < 4 || n > 8 {
		t.Errorf("%d tables of %d bytes each, want several", n, res.Tables[0].Size)
	}
	var got []string
	for i, m := range res.Tables {
		if i > 0 && !res.Tables[i-1].EndsBefore(m.Smallest) {
			t.Errorf("%v and %v overlap", res.Tables[i-1], m)
		}
		got = append(got, d.text([]*manifest.Table{m}))
	}
	if strings.Join(got, " ") != strings.TrimSpace(b.String()) {
		t.Error("the tombstones are not the same")
	}
}

func TestATableEndsWhenItHasAsManyKeysAsItsFiltersCanHold(t *testing.T) {
	d := newDisk(t)
	w := tableWriter{env: d.env(1 << 30), size: 1 << 30}
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		must(t, w.add(ikey.Key{User: []byte(key), Trailer: ikey.MakeTrailer(1, ikey.Set)}, nil))
		if key == "b" || key == "d" {
			w.keys += maxKeys - 2 // as if there were more before it
		}
	}
	must(t, w.finish(t.Context()))
	if got, want := d.text(w.tables), "a@1= b@1= | c@1= d@1= | e@1="; got != want {
		t.Errorf("tables %s, want %s", got, want)
	}
}

// TestTheBytesOfOpenTombstonesAreCounted adds keys under tombstones over each other, which end and are cut.
func TestTheBytesOfOpenTombstonesAreCounted(t *testing.T) {
	dels := rangedel.List{}
	for _, r := range []string{"a~z", "b~y", "c~f", "g~x"} {
		dels = append(dels, rangedel.Fragment{Start: []byte(r[:1]), End: []byte(r[2:]), Seqs: []ikey.Seq{8, 9}})
	}
	w := tableWriter{env: newDisk(t).env(1000), size: 1000, dels: dels}
	cuts, most := 0, 0
	for _, key := range []string{"d", "dd", "h", "hh", "i", "xx", "yy", "zz"} {
		before := w.out
		must(t, w.add(ikey.Key{User: []byte(key), Trailer: ikey.MakeTrailer(1, ikey.Set)}, make([]byte, 600)))
		if w.out != before {
			cuts++
		}
		want := uint64(0)
		for i, f := range w.open {
			if most = max(most, i); i > 0 {
				want += 12 + uint64(len(f.Start)+len(f.End)+8*len(f.Seqs))
			}
		}
		if w.held != want {
			t.Errorf("at %s: %d bytes, want %d of all but the first of %s", key, w.held, want, listText(w.open))
		}
	}
	if cuts < 3 || most < 2 {
		t.Errorf("%d cuts, %d open tombstones: the test has lost its point", cuts, most+1)
	}
	must(t, w.finish(t.Context()))
}

func TestALoaderWritesAllThatItIsGiven(t *testing.T) {
	d := newDisk(t)
	const want = "a@3=x a@2=y b@1-"
	src, dels := source(want + " c~d@7")
	l := NewLoader(d.env(1<<20), dels)
	for ok := src.First(); ok; ok = src.Next() {
		must(t, l.Add(src.Key(), src.Value()))
	}
	tables, err := l.Finish(t.Context())
	if got := d.text(tables); err != nil || got != want+" c~d@7" {
		t.Errorf("got %s, %v", got, err)
	}
}

// An output ends when it overlaps as many bytes of the next level as ten tables have.
func TestOutputsOverlapLittleOfTheNextLevel(t *testing.T) {
	d := newDisk(t)
	v := d.level(&manifest.Version{}, 0, 11, "a@9=a c@9=c d@9=d e@9=e b~bx@8")
	var below []string
	for _, k := range []string{"a", "aa", "b", "c", "d"} {
		below = append(below, k+"@1="+strings.Repeat("v", 4000))
	}
	v = d.level(v, 6, 10, strings.Join(below, "|"))
	r := v.Levels[0][0]
	res, err := merged(t.Context(), v, &Plan{To: 5, Inputs: []Input{{0, r.ID, r.Tables}}}, d, d.env(800))
	must(t, err)
	if got, want := d.text(res.Tables), "a@9=a | c@9=c b~bx@8 | d@9=d e@0=e"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestATableWithMoreThanTheNewestVersionSaysSo(t *testing.T) {
	d := newDisk(t)
	full := strings.Repeat("v", 3000)
	src, _ := source("a@9=" + full + " b@8=" + full + " c@7=x c@3=" + full + " d@2=" + full)
	res, err := Flush(t.Context(), src, nil, d.env(4<<10, 5))
	must(t, err)
	var got []bool
	for _, m := range res.Tables {
		got = append(got, m.Flags&manifest.Superseded != 0)
	}
	if want := []bool{false, true}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestATableIsSyncedWhileTheNextOneIsWritten lets each sync wait until the next table was created; the last one ends
// the flush.
func TestATableIsSyncedWhileTheNextOneIsWritten(t *testing.T) {
	d := newDisk(t)
	env := d.env(4 << 10)
	var b strings.Builder
	for i := range 600 {
		fmt.Fprintf(&b, "k%05d@%d=%s ", i, i+1, strings.Repeat("v", 20))
	}
	const tables = 3
	created := make(chan struct{}, 2*tables)
	syncs := 0
	env.FS = vfstest.NewHook(d.fs, func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpCreate:
			created <- struct{}{}
		case vfstest.OpSync: // syncs follow each other
			if syncs++; syncs <= tables {
				for range 2 { // its own, and that of the next table
					select {
					case <-created:
					case <-time.After(testkit.Patience):
						t.Error("the next table was not created before the sync of the last one ended")
						return nil
					}
				}
				created <- struct{}{}
			}
		default:
		}
		return nil
	})
	src, _ := source(b.String())
	res, err := Flush(t.Context(), src, nil, env)
	must(t, err)
	if len(res.Tables) <= tables || syncs != len(res.Tables) {
		t.Errorf("%d tables and %d syncs, want more than %d of both", len(res.Tables), syncs, tables)
	}
}

// TestRangeTombstonesThatOverlapAreCutWithTheirTables writes tables of range tombstones that overlap, with keys between
// and without, and compares what covers each key, for each snapshot. It counts the bytes too: each table repeats what
// is open where it begins.
func TestRangeTombstonesThatOverlapAreCutWithTheirTables(t *testing.T) {
	testkit.Long(t)
	flushes := 0
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 3))
		const keys = 200
		key := func(i int) []byte { return fmt.Appendf(nil, "%04d", i) }
		var ts []rangedel.Tombstone
		var snapshots []ikey.Seq
		n := 40 + rng.IntN(200)
		for i := range n {
			lo := rng.IntN(keys - 1)
			hi := lo + 1 + rng.IntN(keys-lo)
			if seed%3 == 0 { // each inside the last
				lo, hi = i*keys/2/n, keys-i*keys/2/n
			}
			d := rangedel.Tombstone{Start: key(lo), End: key(hi), Seq: ikey.Seq(2 * (i + 1))}
			if rng.IntN(20) == 0 {
				d.End = nil
			}
			ts = append(ts, d)
			snapshots = append(snapshots, d.Seq)
		}
		var text strings.Builder
		if seed%4 > 0 {
			for i := range keys {
				fmt.Fprintf(&text, "%s@%d=%s ", key(i), 2*n+3, strings.Repeat("v", rng.IntN(100)))
			}
		}
		src, _ := source(text.String())
		dels := rangedel.FragmentedFor(snapshots, ts)
		if !dels.Overlaps() {
			continue
		}
		d := newDisk(t)
		res, err := Flush(t.Context(), src, dels, d.env(1000, snapshots...))
		must(t, err)
		var bytes, written uint64
		var all rangedel.List
		for i, m := range res.Tables {
			if i > 0 && !res.Tables[i-1].EndsBefore(m.Smallest) {
				t.Fatalf("seed %d: %v and %v overlap", seed, res.Tables[i-1], m)
			}
			all = append(all, d.rangeDels(m)...)
			bytes += m.Size
		}
		flushes++
		for i := range dels {
			written += bytesOfDel(&dels[i])
		}
		most := 3*(uint64(text.Len())+written) + uint64(len(res.Tables))*500
		if bytes > most {
			t.Errorf("seed %d: %d tables have %d bytes, want at most %d", seed, len(res.Tables), bytes, most)
		}
		if len(res.Tables) == 1 {
			t.Errorf("seed %d: one table of %d bytes", seed, bytes)
		}
		got := rangedel.NewIndex(all)
		for i := range keys + 1 {
			for range 20 {
				seq := snapshots[rng.IntN(n)]
				want := ikey.Seq(0)
				for _, d := range ts {
					k := string(key(i))
					if d.Seq <= seq && string(d.Start) <= k && (d.End == nil || k < string(d.End)) {
						want = max(want, d.Seq)
					}
				}
				if got := got.Covering(key(i), seq); got != want {
					t.Fatalf("seed %d: over %d at %d: got %d, want %d", seed, i, seq, got, want)
				}
			}
		}
	}
	if flushes < 10 {
		t.Errorf("%d flushes of range tombstones that overlap: the test tests nothing", flushes)
	}
}
