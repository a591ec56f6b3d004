package compaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// versions is a source of the given versions.
type versions struct {
	keys    []ikey.Key
	values  [][]byte
	at      int
	err     error // returned at the end
	closing error
	closed  bool
}

// source parses versions "key@seq=value" and "key@seq-" (a tombstone), in the given order, and range tombstones
// "start~end@seq,seq". The end "∞" is infinite; "^" is the empty key.
func source(text string) (*versions, rangedel.List) {
	s := &versions{}
	var ts []rangedel.Tombstone
	bytesOf := func(name string) []byte {
		switch name {
		case "^", "∞":
			return nil
		default:
			return []byte(name)
		}
	}
	number := func(text string) ikey.Seq {
		var n ikey.Seq
		if _, err := fmt.Sscan(text, &n); err != nil {
			panic("compaction: a broken test: " + text)
		}
		return n
	}
	for field := range strings.FieldsSeq(text) {
		key, rest, _ := strings.Cut(field, "@")
		if start, end, ok := strings.Cut(key, "~"); ok {
			for seq := range strings.SplitSeq(rest, ",") {
				ts = append(ts, rangedel.Tombstone{Start: bytesOf(start), End: bytesOf(end), Seq: number(seq)})
			}
			continue
		}
		kind, value := ikey.Set, ""
		if digits, ok := strings.CutSuffix(rest, "-"); ok {
			kind, rest = ikey.Delete, digits
		} else {
			rest, value, _ = strings.Cut(rest, "=")
		}
		s.keys = append(s.keys, ikey.Key{User: bytesOf(key), Trailer: ikey.MakeTrailer(number(rest), kind)})
		s.values = append(s.values, []byte(value))
	}
	return s, rangedel.Fragmented(ts)
}

func (s *versions) First() bool            { s.at = 0; return s.at < len(s.keys) }
func (s *versions) Next() bool             { s.at++; return s.at < len(s.keys) }
func (s *versions) Last() bool             { return s.forward() }
func (s *versions) Prev() bool             { return s.forward() }
func (s *versions) SeekGE(k ikey.Key) bool { return s.forward() }
func (s *versions) SeekLT(k ikey.Key) bool { return s.forward() }
func (s *versions) forward() bool          { panic("compaction: broken logic: it only reads forward") }
func (s *versions) Key() ikey.Key          { return s.keys[s.at] }
func (s *versions) Value() []byte          { return s.values[s.at] }
func (s *versions) Err() error             { return s.err }
func (s *versions) Close() error           { s.closed = true; return s.closing }

// begun begins a compaction.
func begun(ctx context.Context, v *manifest.Version, p *Plan, tables Inputs, env Env) (*Merge, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	return Begin(ctx, cancel, v, p, tables, env)
}

// merged carries out a plan that is not a move. Another goroutine helps, or has merged all parts, the last one first.
func merged(ctx context.Context, v *manifest.Version, p *Plan, tables Inputs, env Env) (Result, error) {
	m, err := begun(ctx, v, p, tables, env)
	if err != nil {
		return Result{}, err
	}
	var helper sync.WaitGroup
	defer helper.Wait()
	if len(m.parts)%2 > 0 {
		helper.Go(func() { m.Help() })
	} else {
		slices.Reverse(m.parts)
		for m.Help() {
		}
		slices.Reverse(m.parts)
	}
	return m.Finish()
}

// A disk is a directory of tables. It implements Inputs and Numbers.
type disk struct {
	t      testing.TB
	fs     vfs.FS
	mu     sync.Mutex // guards next and opened
	next   uint64
	opened []uint64 // tables, as inputs
	asked  []uint64 // tables, for their range tombstones
	read   map[uint64]*content

	samples map[uint64]*sstable.Reader // where samples and filters come from; nil for none
}

func newDisk(tb testing.TB) *disk {
	tb.Helper()
	fs := vfstest.NewMem()
	must(tb, fs.Mkdir("db"))
	return &disk{t: tb, fs: fs}
}

func (d *disk) env(tableSize uint64, snapshots ...ikey.Seq) Env {
	filter, err := bloomblock.ParamsFor(0.01)
	must(d.t, err)
	return Env{
		FS: d.fs, Dir: "db", Numbers: d, TableSize: tableSize, BlockSize: 256, Codec: sstable.None, Filter: filter,
		Snapshots: snapshots,
	}
}

func (d *disk) NewNumber() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next++
	return d.next, nil
}

func (d *disk) Open(m *manifest.Table) (merge.Source, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = append(d.opened, m.Number)
	return d.reader(m).Iter(sstable.IterOptions{Bypass: true}), nil
}

func (d *disk) RangeDels(m *manifest.Table) (*rangedel.Index, error) {
	d.asked = append(d.asked, m.Number)
	return rangedel.NewIndex(d.rangeDels(m)), nil
}

func (d *disk) Sample(m *manifest.Table) *bloomblock.Sample {
	if d.samples == nil {
		return nil
	}
	s, err := d.sampled(m).Sample()
	must(d.t, err)
	return s
}

func (d *disk) Filter(m *manifest.Table) *bloomblock.Filter {
	if d.samples == nil {
		return nil
	}
	return d.sampled(m).Filter()
}

// sampled returns a reader that has its filter in memory.
func (d *disk) sampled(m *manifest.Table) *sstable.Reader {
	r := d.samples[m.Number]
	if r == nil {
		r = d.reader(m)
		must(d.t, r.Load(0))
		d.samples[m.Number] = r
	}
	return r
}

func (d *disk) reader(m *manifest.Table) *sstable.Reader {
	d.t.Helper()
	f, err := d.fs.Open(filename.Make("db", filename.Table, m.Number))
	must(d.t, err)
	meta := sstable.Meta{Name: "t", ID: m.ID, Size: m.Size, TailLen: m.TailLen, FilterLen: m.FilterLen}
	if m.Flags&manifest.SeqOverridden != 0 {
		meta.Seq = m.MaxSeq
	}
	dom := new(epoch.Domain)
	return sstable.NewReader(f, meta, cache.New(1<<20, dom), sstable.NewPartPool(1<<20), dom)
}

func (d *disk) rangeDels(m *manifest.Table) rangedel.List {
	d.t.Helper()
	r := d.reader(m)
	must(d.t, r.Load(1))
	return r.RangeDels().List()
}

// text formats the content of tables: "key@seq=value … start~end@seq …", with bars between tables.
func (d *disk) text(tables []*manifest.Table) string {
	d.t.Helper()
	var b strings.Builder
	for i, m := range tables {
		if i > 0 {
			b.WriteString("| ")
		}
		src := d.reader(m).Iter(sstable.IterOptions{Bypass: true})
		for ok := src.First(); ok; ok = src.Next() {
			b.WriteString(versionText(src.Key(), src.Value()) + " ")
		}
		must(d.t, errors.Join(src.Err(), src.Close()))
		if dels := listText(d.rangeDels(m)); dels != "" {
			b.WriteString(dels + " ")
		}
	}
	return strings.TrimSpace(b.String())
}

func versionText(k ikey.Key, value []byte) string {
	user := string(k.User)
	if user == "" {
		user = "^"
	}
	if k.Trailer.Kind() == ikey.Delete {
		return fmt.Sprintf("%s@%d-", user, k.Trailer.Seq())
	}
	return fmt.Sprintf("%s@%d=%s", user, k.Trailer.Seq(), value)
}

func listText(l rangedel.List) string {
	var words []string
	for _, f := range l {
		start, end := string(f.Start), string(f.End)
		if start == "" {
			start = "^"
		}
		if f.End == nil {
			end = "∞"
		}
		var seqs []string
		for _, seq := range f.Seqs {
			seqs = append(seqs, fmt.Sprint(seq))
		}
		words = append(words, start+"~"+end+"@"+strings.Join(seqs, ","))
	}
	return strings.Join(words, " ")
}

// level flushes sources and adds them to a version as one run. Bars in text separate tables.
func (d *disk) level(v *manifest.Version, level int, run uint64, text string, snapshots ...ikey.Seq) *manifest.Version {
	d.t.Helper()
	e := &manifest.Edit{NextFile: 1 << 20}
	for part := range strings.SplitSeq(text, "|") { // a table for each part
		src, dels := source(part)
		res, err := Flush(d.t.Context(), src, dels, d.env(1<<20, snapshots...))
		must(d.t, err)
		for _, m := range res.Tables {
			e.Added = append(e.Added, manifest.Added{Level: level, Run: run, Table: m})
		}
	}
	v, err := v.Apply(e)
	must(d.t, err)
	return v
}
