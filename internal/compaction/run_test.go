package compaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

func TestAFlushKeepsTheNewestOfEachKeyAndEveryTombstone(t *testing.T) {
	d := newDisk(t)
	src, dels := source("a@9=x a@3=y b@7- b@2=z c@1=w e~g@6,8")
	res, err := Flush(t.Context(), src, dels, d.env(1<<20))
	must(t, err)
	if got, want := d.text(res.Tables), "a@9=x b@7- c@1=w e~g@8"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	m := res.Tables[0]
	if res.Read != 5 || res.Dropped != 2 || res.Skipped != 0 {
		t.Errorf("read %d, dropped %d, skipped %d", res.Read, res.Dropped, res.Skipped)
	}
	if m.Entries != 3 || m.Deletes != 1 || m.RangeDeletes != 1 || m.MinSeq != 1 || m.MaxSeq != 9 ||
		m.Bounds().String() != `["a","g")` || m.Flags != manifest.LargestExclusive {
		t.Errorf("table %v, flags %x", m, m.Flags)
	}
}

func TestAFlushOfRangeTombstonesAlone(t *testing.T) {
	d := newDisk(t)
	src, dels := source("^~c@5 d~∞@6,7")
	res, err := Flush(t.Context(), src, dels, d.env(1<<20))
	must(t, err)
	if got, want := d.text(res.Tables), "^~c@5 d~∞@7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	m := res.Tables[0]
	if m.Entries != 0 || m.RangeDeletes != 2 || m.Bounds().String() != `["",∞)` || !src.closed {
		t.Errorf("table %v", m)
	}
}

func TestAFlushOfNothingWritesNothing(t *testing.T) {
	d := newDisk(t)
	res, err := Flush(t.Context(), &versions{}, nil, d.env(1<<20))
	if err != nil || len(res.Tables) != 0 || d.next != 0 {
		t.Errorf("got %v, %v", res, err)
	}
}

// Two runs of level 0 and all of level 5 are merged into level 5. Bars separate tables.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name                       string
		newest, older, base, below string // runs of level 0, of level 5, and of level 6
		snapshots                  []ikey.Seq
		want                       string
	}{
		{"the newest run wins", "a@9=new", "a@5=old b@4=b", "", "", nil, "a@0=new b@0=b"},
		{"a tombstone with nothing under it goes, with what it hides", "a@9-", "a@5=old b@4=b", "", "", nil, "b@0=b"},
		{
			"a tombstone stays while a lower level may hold the key", "a@9-", "a@5=old b@4=b", "", "a@1=deep", nil,
			"a@9- b@0=b",
		},
		{"bounds are enough to keep it", "b@9-", "c@5=c", "", "a@1=deep z@2=deep", nil, "b@9- c@5=c"},
		{"a tombstone beside the bounds of what is below goes", "b@9-", "c@5=c", "", "d@1=deep", nil, "c@0=c"},
		{"the base level's run takes part", "a@9-", "b@8=b", "a@3=base c@2=base", "", nil, "b@0=b c@0=base"},
		{
			"the sequence stays where something older lies below", "a@9=new", "b@8=b", "", "a@1=deep", nil,
			"a@9=new b@0=b",
		},
		{"a snapshot keeps an older version", "a@9=new", "a@5=old", "a@3=older", "", []ikey.Seq{6}, "a@9=new a@0=old"},
		{
			"a range tombstone hides what is in older runs", "a~c@9", "a@5=a c@4=c", "b@2=b d@1=d", "", nil,
			"c@0=c d@0=d",
		},
		{
			"not what is newer in its own", "a@11=new a~c@9", "a@5=a c@4=c", "b@2=b d@1=d", "", nil,
			"a@0=new c@0=c d@0=d",
		},
		{
			"one in an older run does not hide what is newer", "b@9=new", "a~c@7", "b@2=b d@1=d", "", nil,
			"b@0=new d@0=d",
		},
		{"one stays above what it may hide", "a~c@9", "a@5=a", "b@2=b d@1=d", "b@0=deep", nil, "d@0=d a~c@9"},
		{
			"those of all runs are cut where they overlap", "a~d@9", "b~e@7", "d@2=d z@1=z", "a@0=deep z@0=deep", nil,
			"z@1=z a~d@9 d~e@7",
		},
		{
			"a snapshot keeps what it sees under one", "a~c@9", "a@5=a", "b@2=b d@1=d", "",
			[]ikey.Seq{4},
			"b@2=b d@0=d a~c@9",
		},
		{"nothing but range tombstones", "a~c@9", "b~d@7", "", "a@1=x d@1=x", nil, "a~c@9 c~d@7"},
		{"nothing stays", "a~∞@9", "a@7=x", "b@1=x", "", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk(t)
			v := d.level(&manifest.Version{}, 0, 11, c.older)
			v = d.level(v, 0, 12, c.newest)
			p := &Plan{To: 5}
			for _, r := range v.Levels[0] {
				p.Inputs = append(p.Inputs, Input{0, r.ID, r.Tables})
			}
			if c.base != "" {
				v = d.level(v, 5, 10, c.base)
				p.Inputs = append(p.Inputs, Input{5, 10, v.Levels[5][0].Tables})
			}
			if c.below != "" {
				v = d.level(v, 6, 9, c.below)
			}
			res, err := Run(t.Context(), v, p, d, d.env(1<<20, c.snapshots...))
			must(t, err)
			if got := d.text(res.Tables); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			after, err := v.Apply(withNext(Edit(v, p, res.Tables, 99)))
			must(t, err)
			if len(after.Levels[0]) != 0 || len(after.Levels[5]) > 1 {
				t.Errorf("after: %v", after)
			}
		})
	}
}

func withNext(e *manifest.Edit) *manifest.Edit {
	e.NextFile = 1 << 20
	return e
}

// Tables that newer inputs delete as a whole are not opened. Tables are numbered from the oldest run on: first those of
// level 6, then those of level 0.
func TestTablesThatAreDeletedAsAWholeAreNotRead(t *testing.T) {
	for _, c := range []struct {
		name                 string
		newest, older, below string // runs of level 0, and of level 6
		snapshots            []ikey.Seq
		opened, asked, want  string
	}{
		{
			"inside one tombstone", "b~g@9", "z@8=z", "a@1=a|c@2=c d@3=d|e@4=e|h@5=h", nil, "[1 4 5]", "[6]",
			"a@0=a h@0=h z@0=z",
		},
		{"up to an exclusive end", "b~d@9", "z@8=z", "b~d@2 c@3=c|d@3=d", nil, "[2 3]", "[4]", "d@0=d z@0=z"},
		{"not at an exclusive end", "b~d@9", "z@8=z", "b@2=b d@1=c", nil, "[1 2]", "[3]", "d@0=c z@0=z"},
		{"an infinite one inside an infinite one", "b~∞@9", "z@8=z", "a@1=a|c@1=c d~∞@3", nil, "[1]", "[4]", "a@0=a"},
		{
			"not an infinite one inside another", "b~z@9", "zz@8=z", "a@1=a|c@1=c d~∞@3", nil, "[1 2 3]", "[4 2]",
			"a@0=a zz@0=z",
		},
		{
			"covered by several that touch", "b~d@9 d~f@8", "z@8=z", "a@1=a|c@2=c d@3=d", nil, "[1 3]", "[4]",
			"a@0=a z@0=z",
		},
		{"covered by several runs", "b~d@9", "d~f@8", "a@1=a|c@2=c d@3=d", nil, "[1]", "[4 3]", "a@0=a"},
		{"covered by several runs that overlap", "b~da@9", "c~f@8", "a@1=a|c@2=c d@3=d", nil, "[1]", "[4 3]", "a@0=a"},
		{"not over a gap", "b~c@9 ca~f@8", "z@8=z", "a@1=a|bb@2=c d@3=d", nil, "[1 2 3]", "[4]", "a@0=a z@0=z"},
		{"an older run of level 0 as well", "b~∞@9", "d@8=z", "a@1=a", nil, "[1]", "[3]", "a@0=a"},
		{
			"a table with range tombstones is not asked for them", "b~∞@9", "c~f@7 d@8=z", "a@1=a|e@2=e", nil, "[1]",
			"[4]", "a@0=a",
		},
		{"not one with something newer", "b~∞@6", "z@9=z", "a@1=a|e@2=e", nil, "[1 3]", "[4]", "a@0=a z@0=z"},
		{
			"a snapshot between keeps it", "b~∞@9", "z@8=z", "a@1=a|e@2=e",
			[]ikey.Seq{3},
			"[1 2]", "[4]",
			"a@0=a e@2=e b~∞@9",
		},
		{"a snapshot before all does not", "b~∞@9", "z@8=z", "e@4=e f@5=f", []ikey.Seq{3}, "[]", "[3]", "b~∞@9"},
		{"nor one after all", "b~∞@9", "z@8=z", "e@4=e f@5=f", []ikey.Seq{9}, "[]", "[3]", ""},
		{"one within the table keeps it", "b~∞@9", "z@8=z", "e@4=e f@6=f", []ikey.Seq{5}, "[1]", "[3]", "e@4=e b~∞@9"},
		{"the newest at a snapshot counts", "b~∞@7,9", "zz@8=z", "e@4=e f@5=f", []ikey.Seq{7}, "[]", "[3]", "b~∞@9"},
		{
			"tables without versions are not opened", "b~d@9", "e@8=e", "a@1=a|c~e@3", nil, "[1 3]", "[4 2]",
			"a@0=a e@0=e",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDisk(t)
			v := d.level(&manifest.Version{}, 6, 10, c.below)
			v = d.level(v, 0, 11, c.older)
			v = d.level(v, 0, 12, c.newest, c.snapshots...)
			p := &Plan{To: 6}
			all := map[uint64]*manifest.Table{}
			for _, level := range []int{0, 6} {
				for _, r := range v.Levels[level] {
					p.Inputs = append(p.Inputs, Input{level, r.ID, r.Tables})
					for _, m := range r.Tables {
						all[m.Number] = m
					}
				}
			}
			res, err := Run(t.Context(), v, p, d, d.env(1<<20, c.snapshots...))
			must(t, err)
			if got := d.text(res.Tables); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			opened, asked := d.opened, d.asked
			var skipped, read uint64
			for n, m := range all {
				if slices.Contains(d.opened, n) {
					read += m.Entries
				} else if !slices.Contains(asked, n) {
					skipped += m.Size
				}
			}
			slices.Sort(opened)
			if fmt.Sprint(opened) != c.opened || fmt.Sprint(asked) != c.asked {
				t.Errorf("opened %d, asked %d; want %s, %s", opened, asked, c.opened, c.asked)
			}
			if res.Read != read || res.Skipped != skipped {
				t.Errorf("read %d versions and skipped %d bytes, want %d and %d", res.Read, res.Skipped, read, skipped)
			}
		})
	}
}

func TestAnIngestedTableHasItsSequence(t *testing.T) {
	d := newDisk(t)
	v := d.level(&manifest.Version{}, 6, 10, "a@3=a b@2=b c@1=c")
	src, dels := source("b@1=new a~d@1")
	res, err := Flush(t.Context(), src, dels, d.env(1<<20))
	must(t, err)
	m := res.Tables[0]
	m.Flags |= manifest.SeqOverridden
	m.MinSeq, m.MaxSeq = 7, 7
	e := &manifest.Edit{NextFile: 1 << 20, Added: []manifest.Added{{Level: 0, Run: 11, Table: m}}}
	v, err = v.Apply(e)
	must(t, err)
	p := &Plan{To: 6, Inputs: []Input{{0, 11, v.Levels[0][0].Tables}, {6, 10, v.Levels[6][0].Tables}}}
	for _, c := range []struct {
		snapshots []ikey.Seq
		want      string
	}{{nil, "b@0=new"}, {[]ikey.Seq{2}, "b@7=new b@2=b c@1=c a~d@7"}} {
		res, err = Run(t.Context(), v, p, d, d.env(1<<20, c.snapshots...))
		must(t, err)
		if got := d.text(res.Tables); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// fewNumbers allocates two numbers and then fails.
type fewNumbers struct {
	*disk
	err error
}

func (n fewNumbers) NewNumber() (uint64, error) {
	if n.next++; n.next > 2 {
		return 0, n.err
	}
	return n.next, nil
}

// unreadable are inputs that can't be read.
type unreadable struct {
	*disk
	err error
}

func (u unreadable) Open(*manifest.Table) (merge.Source, error)       { return nil, u.err }
func (u unreadable) RangeDels(*manifest.Table) (rangedel.List, error) { return nil, u.err }

func TestWhatFailsLeavesNoFile(t *testing.T) {
	boom := errors.New("boom")
	text := strings.ReplaceAll("a@1=V b@2=V c@3=V d@4=V e@5=V f@6=V x~y@7", "V", strings.Repeat("v", 3000))
	flush := func(env Env, text string) error {
		src, dels := source(text)
		_, err := Flush(context.Background(), src, dels, env)
		return err
	}
	failing := func(d *disk, fails func(op vfstest.Op) bool) Env { // an env in whose file system some operations fail
		env := d.env(4 << 10)
		env.FS = vfstest.NewHook(d.fs, func(op vfstest.Op) error {
			if fails(op) {
				return boom
			}
			return nil
		})
		return env
	}
	for name, run := range map[string]func(d *disk) error{
		"the source fails": func(d *disk) error {
			src, dels := source(text)
			src.err = boom
			_, err := Flush(context.Background(), src, dels, d.env(4<<10))
			return err
		},
		"closing the source fails": func(d *disk) error {
			src, dels := source(text)
			src.closing = boom
			_, err := Flush(context.Background(), src, dels, d.env(4<<10))
			return err
		},
		"numbers run out": func(d *disk) error {
			env := d.env(4 << 10)
			env.Numbers = fewNumbers{d, boom}
			return flush(env, text)
		},
		"a write fails": func(d *disk) error {
			writes := 0
			return flush(failing(d, func(op vfstest.Op) bool {
				if op.Kind == vfstest.OpWrite {
					writes++
				}
				return op.Kind == vfstest.OpWrite && writes > 2
			}), text)
		},
		"a sync fails": func(d *disk) error {
			return flush(failing(d, func(op vfstest.Op) bool {
				return op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, "2.sst")
			}), text)
		},
		"the last sync fails": func(d *disk) error {
			return flush(failing(d, func(op vfstest.Op) bool {
				return op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, "4.sst")
			}), text)
		},
		"keys out of order": func(d *disk) error {
			err := flush(d.env(4<<10), "b@1=x a@2=y")
			if err == nil {
				return nil
			}
			return errors.Join(err, boom)
		},
		"range tombstones cannot be had": func(d *disk) error {
			m := &manifest.Table{Number: 7, RangeDeletes: 1, Smallest: []byte("a"), Largest: []byte("b")}
			p := &Plan{To: 6, Inputs: []Input{{0, 1, []*manifest.Table{m}}}}
			_, err := Run(context.Background(), &manifest.Version{}, p, unreadable{d, boom}, d.env(4<<10))
			return err
		},
		"an input does not open": func(d *disk) error {
			m := &manifest.Table{Number: 7, Entries: 1, Smallest: []byte("a"), Largest: []byte("b")}
			p := &Plan{To: 6, Inputs: []Input{{0, 1, []*manifest.Table{m}}}}
			_, err := Run(context.Background(), &manifest.Version{}, p, unreadable{d, boom}, d.env(4<<10))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			if err := run(d); !errors.Is(err, boom) {
				t.Errorf("got %v, want boom", err)
			}
			names, err := d.fs.List("db")
			if err != nil || len(names) != 0 {
				t.Errorf("left: %v, %v", names, err)
			}
		})
	}
}

func TestWhatTheManifestDoesNotHaveAbandonsTheCompaction(t *testing.T) {
	for name, change := range map[string]func(m *manifest.Table){
		"another number of versions":         func(m *manifest.Table) { m.Entries++ },
		"more range tombstones":              func(m *manifest.Table) { m.RangeDeletes++ },
		"fewer range tombstones":             func(m *manifest.Table) { m.RangeDeletes-- },
		"range tombstones before the bounds": func(m *manifest.Table) { m.Smallest = []byte("b") },
		"range tombstones behind the bounds": func(m *manifest.Table) { m.Largest = []byte("c") },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			v := d.level(&manifest.Version{}, 0, 1, "b@1=x c@2=y a~b@3 c~d@4")
			change(v.Levels[0][0].Tables[0])
			p := &Plan{To: 6, Inputs: []Input{{0, 1, v.Levels[0][0].Tables}}}
			if _, err := Run(t.Context(), v, p, d, d.env(1<<20)); !errors.Is(err, corrupt.Err) {
				t.Errorf("got %v, want damage", err)
			}
			if names, _ := d.fs.List("db"); len(names) != 1 {
				t.Errorf("left: %v, want the input alone", names)
			}
		})
	}
}

func TestACancelledCompactionEndsSoonAndLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "k%05d@%d=v k%05d~k%05dx@%d ", i, i+1, i, i, i+1)
	}
	d := newDisk(t)
	src, _ := source(b.String())
	_, err := Flush(ctx, src, nil, d.env(1<<20))
	if !errors.Is(err, context.Canceled) || src.at > 2048 || !src.closed {
		t.Errorf("got %v after %d versions, source closed: %v", err, src.at, src.closed)
	}
	_, dels := source(b.String())
	if _, err := Flush(ctx, &versions{}, dels, d.env(1<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("range tombstones: got %v", err)
	}
	v := d.level(&manifest.Version{}, 0, 1, "c~d@4")
	p := &Plan{To: 6, Inputs: []Input{{0, 1, v.Levels[0][0].Tables}}}
	if _, err := Run(ctx, v, p, d, d.env(1<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("inputs: got %v", err)
	}
	if names, _ := d.fs.List("db"); len(names) != 1 {
		t.Errorf("left: %v, want the input alone", names)
	}
}

// TestANewRunIsNewerThanItsLevel merges a tombstone and a value into a level that holds older versions of their
// keys: the tombstone must stay, and the value must keep its sequence number.
func TestANewRunIsNewerThanItsLevel(t *testing.T) {
	d := newDisk(t)
	v := d.level(&manifest.Version{}, 1, 10, "a@1=old b@2=old")
	v = d.level(v, 0, 11, "a@3- b@4=new c@5=c")
	p := &Plan{To: 1, NewRun: true, Inputs: []Input{{0, 11, v.Levels[0][0].Tables}}}
	res, err := Run(t.Context(), v, p, d, d.env(1<<20))
	must(t, err)
	if got, want := d.text(res.Tables), "a@3- b@4=new c@0=c"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	v, err = v.Apply(withNext(Edit(v, p, res.Tables, 12)))
	must(t, err)
	if runs := v.Levels[1]; len(runs) != 2 || runs[0].ID != 12 || runs[0].Tables[0] != res.Tables[0] {
		t.Errorf("%v, want a second run, as the newest", v)
	}
}
