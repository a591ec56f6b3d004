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

func TestRun(t *testing.T) {
	testkit.Script(t, "testdata/run.txt", func(t *testing.T, input string) string {
		snapshots := snapshotsOf(t, &input)
		d := newDisk(t)
		v := d.level(&manifest.Version{}, 0, 11, argument(&input, "older"))
		v = d.level(v, 0, 12, argument(&input, "newest"))
		p := &Plan{To: 5}
		for _, r := range v.Levels[0] {
			p.Inputs = append(p.Inputs, Input{0, r.ID, r.Tables})
		}
		if base := argument(&input, "base"); base != "" {
			v = d.level(v, 5, 10, base)
			p.Inputs = append(p.Inputs, Input{5, 10, v.Levels[5][0].Tables})
		}
		if below := argument(&input, "below"); below != "" {
			v = d.level(v, 6, 9, below)
		}
		res, err := merged(t.Context(), v, p, d, d.env(1<<20, snapshots...))
		must(t, err)
		after, err := v.Apply(withNext(Edit(v, p, res.Tables, 99)))
		must(t, err)
		if len(after.Levels[0]) != 0 || len(after.Levels[5]) > 1 {
			t.Errorf("after: %v", after)
		}
		left := res.Read - res.Dropped
		for _, m := range res.Tables {
			left -= m.Entries
		}
		if left != 0 {
			t.Errorf("read %d versions, dropped %d, and %d are missing", res.Read, res.Dropped, left)
		}
		return d.text(res.Tables)
	})
}

func withNext(e *manifest.Edit) *manifest.Edit {
	e.NextFile = 1 << 20
	return e
}

func TestTablesThatAreDeletedAsAWholeAreNotRead(t *testing.T) {
	testkit.Script(t, "testdata/skip.txt", func(t *testing.T, input string) string {
		snapshots := snapshotsOf(t, &input)
		d := newDisk(t)
		v := d.level(&manifest.Version{}, 6, 10, argument(&input, "below"))
		v = d.level(v, 0, 11, argument(&input, "older"))
		v = d.level(v, 0, 12, argument(&input, "newest"), snapshots...)
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
		res, err := merged(t.Context(), v, p, d, d.env(1<<20, snapshots...))
		must(t, err)
		kept := d.text(res.Tables)
		opened, asked := d.opened, d.asked
		var skipped, read uint64
		for n, m := range all {
			if slices.Contains(opened, n) {
				read += m.Entries
			} else if !slices.Contains(asked, n) {
				skipped += m.Size
			}
		}
		if res.Read != read || res.Skipped != skipped {
			t.Errorf("read %d versions and skipped %d bytes, want %d and %d", res.Read, res.Skipped, read, skipped)
		}
		slices.Sort(opened)
		return fmt.Sprintf("%s\nopened %d, asked %d", kept, opened, asked)
	})
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
		res, err = merged(t.Context(), v, p, d, d.env(1<<20, c.snapshots...))
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

func (u unreadable) Open(*manifest.Table) (merge.Source, error)         { return nil, u.err }
func (u unreadable) RangeDels(*manifest.Table) (*rangedel.Index, error) { return nil, u.err }

func TestWhatFailsLeavesNoFile(t *testing.T) {
	boom := errors.New("boom")
	merge := func(env Env, d *disk, text string) error { // each version is a table, and makes a part
		p := &Plan{To: 6, Inputs: []Input{{Level: 0, Run: 1}}}
		for version := range strings.FieldsSeq(text) {
			src, dels := source(version)
			res, err := Flush(context.Background(), src, dels, d.env(1<<20))
			must(d.t, err)
			p.Inputs[0].Tables = append(p.Inputs[0].Tables, res.Tables...)
		}
		defer remove(d.env(0), p.Inputs[0].Tables)
		env.PartSize = 1
		_, err := merged(context.Background(), &manifest.Version{}, p, d, env)
		return err
	}
	text := strings.ReplaceAll("a@1=V b@2=V c@3=V d@4=V e@5=V f@6=V x~y@7", "V", strings.Repeat("v", 3000))
	flush := func(env Env, text string) error {
		src, dels := source(text)
		res, err := Flush(context.Background(), src, dels, env)
		if err != nil && len(res.Tables) > 0 {
			return fmt.Errorf("tables and an error: %s", err.Error())
		}
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
	syncFails := func(file string) func(d *disk) error {
		return func(d *disk) error {
			return flush(failing(d, func(op vfstest.Op) bool {
				return op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, file)
			}), text)
		}
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
		"no number for range tombstones": func(d *disk) error {
			env := d.env(4 << 10)
			env.Numbers, d.next = fewNumbers{d, boom}, 2
			return flush(env, "x~y@7")
		},
		"the first sync fails":  syncFails("1.sst"),
		"the second sync fails": syncFails("2.sst"),
		"the third sync fails":  syncFails("3.sst"),
		"the last sync fails":   syncFails("4.sst"),
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
			_, err := merged(context.Background(), &manifest.Version{}, p, unreadable{d, boom}, d.env(4<<10))
			return err
		},
		"an input does not open": func(d *disk) error {
			m := &manifest.Table{Number: 7, Entries: 1, Smallest: []byte("a"), Largest: []byte("b")}
			p := &Plan{To: 6, Inputs: []Input{{0, 1, []*manifest.Table{m}}}}
			_, err := merged(context.Background(), &manifest.Version{}, p, unreadable{d, boom}, d.env(4<<10))
			return err
		},
		"a part fails": func(d *disk) error {
			return merge(failing(d, func(op vfstest.Op) bool { return op.Kind == vfstest.OpSync }), d, "a@1= b@1= c@1=")
		},
		"a part fails after another is written": func(d *disk) error {
			return merge(failing(d, func(op vfstest.Op) bool {
				return op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, "4.sst")
			}), d, "a@1= b@1=")
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

func TestPartsBeginWhereTablesDo(t *testing.T) {
	table := func(smallest string, size uint64) *manifest.Table {
		return &manifest.Table{Smallest: []byte(smallest), Largest: []byte("z"), Size: size}
	}
	in := input{runs: [][]*manifest.Table{
		{table("", 10), table("f", 30)},
		{table("", 100), table("c", 100), table("f", 100), table("h", 60)},
	}}
	for size, want := range map[uint64]string{
		0:   `["",∞) 1.00 `,
		1:   `["","c") 0.28 ["c","f") 0.25 ["f","h") 0.33 ["h",∞) 0.15 `,
		100: `["","c") 0.28 ["c","f") 0.25 ["f",∞) 0.47 `,
		120: `["","f") 0.53 ["f",∞) 0.47 `,
		201: `["",∞) 1.00 `,
	} {
		var got strings.Builder
		for _, p := range in.parts(size) {
			fmt.Fprintf(&got, "%v %.2f ", p.bounds(), p.share)
		}
		if got.String() != want {
			t.Errorf("parts of %d: %s, want %s", size, got.String(), want)
		}
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
			if _, err := merged(t.Context(), v, p, d, d.env(1<<20)); !errors.Is(err, corrupt.Err) {
				t.Errorf("got %v, want damage", err)
			}
			if names, _ := d.fs.List("db"); len(names) != 1 {
				t.Errorf("left: %v, want the input alone", names)
			}
		})
	}
}

// unsteady are inputs that open as given at first, and then as they are.
type unsteady struct {
	*disk
	opens []func() (merge.Source, error)
}

func (u *unsteady) Open(m *manifest.Table) (merge.Source, error) {
	if len(u.opens) > 0 {
		open := u.opens[0]
		if u.opens = u.opens[1:]; open != nil {
			return open()
		}
	}
	return u.disk.Open(m)
}

func TestAnInputThatIsMiscountedIsReadAgain(t *testing.T) {
	boom := errors.New("boom")
	empty := func() (merge.Source, error) { return new(versions), nil }
	for _, c := range []struct {
		name  string
		opens []func() (merge.Source, error)
		want  string
	}{
		{"it has all", []func() (merge.Source, error){empty}, "compaction: read 0 versions and then 2"},
		{"it does not open", []func() (merge.Source, error){
			empty, func() (merge.Source, error) { return nil, boom },
		}, "boom"},
		{"it does not close", []func() (merge.Source, error){
			empty, func() (merge.Source, error) { return &versions{closing: boom}, nil },
		}, "boom"},
	} {
		d := newDisk(t)
		v := d.level(&manifest.Version{}, 0, 1, "b@1=x c@2=y")
		p := &Plan{To: 6, Inputs: []Input{{0, 1, v.Levels[0][0].Tables}}}
		_, err := merged(t.Context(), v, p, &unsteady{d, c.opens}, d.env(1<<20))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// TestAnAbandonedMergeLeavesNoFile has some of its parts merged before, or all.
func TestAnAbandonedMergeLeavesNoFile(t *testing.T) {
	for helped, numbers := range []uint64{3, 4, 5, 6} {
		d := newDisk(t)
		v := d.level(&manifest.Version{}, 0, 1, "b@1=x|d@2=y|f@3=z")
		env := d.env(1 << 20)
		env.PartSize = 1
		m, err := begun(t.Context(), v, &Plan{To: 6, Inputs: []Input{{0, 1, v.Levels[0][0].Tables}}}, d, env)
		must(t, err)
		for range helped {
			m.Help()
		}
		if m.Untaken() != 3-helped || m.Merged() != (helped == 3) {
			t.Errorf("%d of 3 parts are merged: %d are not taken, all are %v", helped, m.Untaken(), m.Merged())
		}
		m.Abandon()
		if names, err := d.fs.List("db"); err != nil || len(names) != 3 || d.next != numbers {
			t.Errorf("%d parts merged: left %v of %d, want the three inputs; %v", helped, names, d.next, err)
		}
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
	if _, err := merged(ctx, v, p, d, d.env(1<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("inputs: got %v", err)
	}
	if names, _ := d.fs.List("db"); len(names) != 1 {
		t.Errorf("left: %v, want the input alone", names)
	}
}
