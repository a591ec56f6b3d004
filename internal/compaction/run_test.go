package compaction

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// versions is a source over "key@seq=value" and "key@seq-" (a tombstone), in the order given.
type versions struct {
	keys   []ikey.Key
	values [][]byte
	at     int
	err    error // answered at the end
	closed bool
}

func source(text string) *versions {
	s := &versions{}
	for field := range strings.FieldsSeq(text) {
		key, rest, _ := strings.Cut(field, "@")
		var seq uint64
		kind, value := ikey.Set, ""
		if digits, ok := strings.CutSuffix(rest, "-"); ok {
			kind, rest = ikey.Delete, digits
		} else {
			rest, value, _ = strings.Cut(rest, "=")
		}
		if _, err := fmt.Sscan(rest, &seq); err != nil {
			panic("compaction: a broken test: " + field)
		}
		s.keys = append(s.keys, ikey.Key{User: []byte(key), Trailer: ikey.MakeTrailer(ikey.Seq(seq), kind)})
		s.values = append(s.values, []byte(value))
	}
	return s
}

func (s *versions) First() bool            { s.at = 0; return s.at < len(s.keys) }
func (s *versions) Next() bool             { s.at++; return s.at < len(s.keys) }
func (s *versions) SeekGE(k ikey.Key) bool { panic("compaction: broken logic: it only reads forward") }
func (s *versions) Key() ikey.Key          { return s.keys[s.at] }
func (s *versions) Value() []byte          { return s.values[s.at] }
func (s *versions) Err() error             { return s.err }
func (s *versions) Close() error           { s.closed = true; return nil }

// disk is a directory of tables.
type disk struct {
	t    *testing.T
	fs   vfs.FS
	next uint64
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.Mkdir("db"); err != nil {
		t.Fatal(err)
	}
	return &disk{t: t, fs: fs}
}

func (d *disk) env(tableSize uint64) Env {
	filter, err := bloomblock.ParamsFor(0.01)
	if err != nil {
		d.t.Fatal(err)
	}
	return Env{
		FS: d.fs, Dir: "db", TableSize: tableSize, BlockSize: 256, Codec: sstable.None, Filter: filter, Open: d.open,
		NewNumber: func() (uint64, error) { d.next++; return d.next, nil },
	}
}

func (d *disk) open(m *manifest.Table) (merge.Source, error) {
	f, err := d.fs.Open(filename.Make("db", filename.Table, m.Number))
	if err != nil {
		return nil, err
	}
	dom := new(epoch.Domain)
	r := sstable.NewReader(f, sstable.Meta{Name: "t", ID: m.ID, Size: m.Size, TailLen: m.TailLen, FilterLen: m.FilterLen}, cache.New(1<<20, dom), dom)
	return r.Iter(sstable.IterOptions{Bypass: true}), nil
}

// text reads tables back: "key@seq=value …", tables divided by bars.
func (d *disk) text(tables []*manifest.Table) string {
	d.t.Helper()
	var b strings.Builder
	for i, m := range tables {
		if i > 0 {
			b.WriteString("| ")
		}
		src, err := d.open(m)
		if err != nil {
			d.t.Fatal(err)
		}
		for ok := src.First(); ok; ok = src.Next() {
			k := src.Key()
			if k.Trailer.Kind() == ikey.Delete {
				fmt.Fprintf(&b, "%s@%d- ", k.User, k.Trailer.Seq())
			} else {
				fmt.Fprintf(&b, "%s@%d=%s ", k.User, k.Trailer.Seq(), src.Value())
			}
		}
		if err := errors.Join(src.Err(), src.Close()); err != nil {
			d.t.Fatal(err)
		}
	}
	return strings.TrimSpace(b.String())
}

func TestAFlushKeepsTheNewestOfEachKeyAndEveryTombstone(t *testing.T) {
	d := newDisk(t)
	res, err := Flush(t.Context(), source("a@9=x a@3=y b@7- b@2=z c@1=w"), d.env(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := d.text(res.Tables), "a@9=x b@7- c@1=w"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	m := res.Tables[0]
	if res.Read != 5 || res.Dropped != 2 || m.Entries != 3 || m.Deletes != 1 || m.MinSeq != 1 || m.MaxSeq != 9 || string(m.Smallest) != "a" || string(m.Largest) != "c" {
		t.Errorf("read %d, dropped %d, table %v", res.Read, res.Dropped, m)
	}
}

// level puts a flushed source into a version.
func (d *disk) level(v *manifest.Version, level int, run uint64, text string) *manifest.Version {
	d.t.Helper()
	res, err := Flush(d.t.Context(), source(text), d.env(1<<20))
	if err != nil {
		d.t.Fatal(err)
	}
	e := &manifest.Edit{NextFile: 1 << 20}
	for _, m := range res.Tables {
		e.Added = append(e.Added, manifest.Added{Level: level, Run: run, Table: m})
	}
	if v, err = v.Apply(e); err != nil {
		d.t.Fatal(err)
	}
	return v
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name                       string
		newest, older, base, below string // runs of level 0, of level 5, and of level 6
		want                       string
	}{
		{"the newest run wins", "a@9=new", "a@5=old b@4=b", "", "", "a@0=new b@0=b"},
		{"a tombstone with nothing under it goes, with what it hides", "a@9-", "a@5=old b@4=b", "", "", "b@0=b"},
		{"a tombstone stays while a lower level may hold the key", "a@9-", "a@5=old b@4=b", "", "a@1=deep", "a@9- b@0=b"},
		{"bounds are enough to keep it", "b@9-", "c@5=c", "", "a@1=deep z@2=deep", "b@9- c@5=c"},
		{"a tombstone beside the bounds of what is below goes", "b@9-", "c@5=c", "", "d@1=deep", "c@0=c"},
		{"the base level's run takes part", "a@9-", "b@8=b", "a@3=base c@2=base", "", "b@0=b c@0=base"},
		{"the sequence stays where something older lies below", "a@9=new", "b@8=b", "", "a@1=deep", "a@9=new b@0=b"},
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
			res, err := Run(t.Context(), v, p, d.env(1<<20))
			if err != nil {
				t.Fatal(err)
			}
			if got := d.text(res.Tables); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			after, err := v.Apply(withNext(Edit(v, p, res.Tables, 99)))
			if err != nil {
				t.Fatal(err)
			}
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

func TestOutputsAreCutBetweenKeysAndAreDisjoint(t *testing.T) {
	d := newDisk(t)
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "k%05d@%d=%s ", i, i+1, strings.Repeat("v", 50))
	}
	res, err := Flush(t.Context(), source(b.String()), d.env(16<<10))
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Tables) < 4 {
		t.Fatalf("%d tables, want several", len(res.Tables))
	}
	for i := 1; i < len(res.Tables); i++ {
		if bytes.Compare(res.Tables[i-1].Largest, res.Tables[i].Smallest) >= 0 {
			t.Errorf("tables %d and %d overlap", i-1, i)
		}
	}
}

func TestWhatFailsLeavesNoFile(t *testing.T) {
	boom := errors.New("boom")
	full := strings.Repeat("v", 3000)
	text := "a@1=" + full + " b@2=" + full + " c@3=" + full + " d@4=" + full + " e@5=" + full + " f@6=" + full
	for name, run := range map[string]func(d *disk) error{
		"the source fails": func(d *disk) error {
			s := source(text)
			s.err = boom
			_, err := Flush(context.Background(), s, d.env(4<<10))
			return err
		},
		"numbers run out": func(d *disk) error {
			env := d.env(4 << 10)
			env.NewNumber = func() (uint64, error) {
				if d.next++; d.next > 2 {
					return 0, boom
				}
				return d.next, nil
			}
			_, err := Flush(context.Background(), source(text), env)
			return err
		},
		"a write fails": func(d *disk) error {
			env := d.env(4 << 10)
			writes := 0
			env.FS = vfs.NewHook(d.fs, func(op vfs.Op) error {
				if op.Kind == vfs.OpWrite {
					if writes++; writes > 2 {
						return boom
					}
				}
				return nil
			})
			_, err := Flush(context.Background(), source(text), env)
			return err
		},
		"a sync fails": func(d *disk) error {
			env := d.env(4 << 10)
			env.FS = vfs.NewHook(d.fs, func(op vfs.Op) error {
				if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, "2.sst") {
					return boom
				}
				return nil
			})
			_, err := Flush(context.Background(), source(text), env)
			return err
		},
		"keys out of order": func(d *disk) error {
			_, err := Flush(context.Background(), source("b@1=x a@2=y"), d.env(4<<10))
			if err == nil {
				return nil
			}
			return errors.Join(err, boom)
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

func TestACountThatTheManifestDoesNotHaveAbandonsTheCompaction(t *testing.T) {
	d := newDisk(t)
	v := d.level(&manifest.Version{}, 0, 1, "a@1=x b@2=y")
	v.Levels[0][0].Tables[0].Entries++
	p := &Plan{To: 6, Inputs: []Input{{0, 1, v.Levels[0][0].Tables}}}
	if _, err := Run(t.Context(), v, p, d.env(1<<20)); !errors.Is(err, errCount) {
		t.Errorf("got %v, want errCount", err)
	}
	if names, _ := d.fs.List("db"); len(names) != 1 {
		t.Errorf("left: %v, want the input alone", names)
	}
}

func TestACancelledCompactionEndsSoonAndLeavesNothing(t *testing.T) {
	d := newDisk(t)
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "k%05d@%d=v ", i, i+1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := source(b.String())
	_, err := Flush(ctx, s, d.env(1<<20))
	if !errors.Is(err, context.Canceled) || s.at > 2048 || !s.closed {
		t.Errorf("got %v after %d versions, source closed: %v", err, s.at, s.closed)
	}
	if names, _ := d.fs.List("db"); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}
