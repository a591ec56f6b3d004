package tree

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/pages"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/internal/tablefile"
)

// A Table is one table of the tree, as long as any state names it. It is removed from the disk after the last state
// that names it is released.
type Table struct {
	Meta   *manifest.Table // immutable
	Reader *sstable.Reader
	File   *tablefile.File
	Level  atomic.Int32 // current level
	refs   atomic.Int64 // states that name it

	Keys, Prefixes Filter

	Ready   atomic.Bool // its filter is, or was, in memory as far as the plan had memory for it
	Damaged atomic.Bool // a filter of the table is known to be damaged

	fingerprint atomic.Pointer[uint64] // nil until it is asked for

	Loading  step.Mutex // held while parts of the table are loaded or dropped, so that each is counted once
	Counted  TableBytes // guarded by Loading: the counted bytes in memory
	Released bool       // guarded by Loading: no state names it any more

	TableCounts
}

// TableBytes are the bytes that a table has in memory, by part. The parts of its index are not among them: they are
// counted by sstable.PartPool. Description is that of manifest.Table.DescriptionBytes, once the
// table was read.
type TableBytes struct{ Filter, Prefix, Top, RangeDeletes, Description int64 }

// Minus returns the differences to other bytes.
func (b TableBytes) Minus(o TableBytes) TableBytes {
	return TableBytes{
		b.Filter - o.Filter, b.Prefix - o.Prefix, b.Top - o.Top, b.RangeDeletes - o.RangeDeletes,
		b.Description - o.Description,
	}
}

// Plus returns the sums with other bytes.
func (b TableBytes) Plus(o TableBytes) TableBytes {
	return TableBytes{
		b.Filter + o.Filter, b.Prefix + o.Prefix, b.Top + o.Top, b.RangeDeletes + o.RangeDeletes,
		b.Description + o.Description,
	}
}

// Fixed returns the bytes of what stays as long as its table.
func (b TableBytes) Fixed() int64 { return b.Top + b.RangeDeletes + b.Description }

// Shared is what the tables of a store share.
type Shared struct {
	Domain *epoch.Domain // of the readers of tables and cached blocks
	Files  *tablefile.Dir
	Blocks *cache.Cache
	Parts  *sstable.PartPool // of indexes
	Pieces *pages.Pieces     // memory of filters; nil: the collector's heap
}

// NewTable returns the table described by a manifest. It reads nothing.
func (s Shared) NewTable(meta *manifest.Table) *Table {
	t := &Table{Meta: meta, File: s.Files.File(meta.Number)}
	t.Keys.Most.Store(math.MaxInt64)
	t.Reader = sstable.NewReader(t.File, MetaOf(meta, t.File.Name), s.Blocks, s.Parts, s.Domain)
	t.Reader.UseMemory(s.Pieces)
	t.Keys.TableFilter, t.Prefixes.TableFilter = &t.Reader.Keys, &t.Reader.Prefixes
	return t
}

// MetaOf returns what a reader of a table must know. name is that of its file, for errors.
func MetaOf(t *manifest.Table, name string) sstable.Meta {
	m := sstable.Meta{
		Name: name, Size: t.Size, ID: t.ID, TailLen: t.TailLen, FilterLen: t.FilterLen,
		Check: func(i sstable.Info) error { return differs(i, t) },
	}
	if t.Flags&manifest.SeqOverridden != 0 {
		m.Seq = t.MaxSeq
	}
	return m
}

// Fingerprint returns the table's fingerprint. It reads the tail of the file at the first call.
func (t *Table) Fingerprint() (uint64, error) {
	if p := t.fingerprint.Load(); p != nil {
		return *p, nil
	}
	sum, err := stream.Fingerprint(t.File, t.File.Name, t.Meta)
	if err == nil {
		t.fingerprint.Store(&sum)
	}
	return sum, err
}

// Filters returns both filters of the table.
func (t *Table) Filters() [2]*Filter { return [...]*Filter{&t.Keys, &t.Prefixes} }

// A Filter is a filter of a table, with a plan that says how much of it shall be in memory.
type Filter struct {
	*sstable.TableFilter

	Most   atomic.Int64           // the most bytes, by the last plan; 0 for no filter
	ladder atomic.Pointer[ladder] // nil until its header is known
}

// A ladder is what a filter can be in memory.
type ladder struct {
	rate  float64
	forms []bloomblock.Form
}

// Forms returns the forms that the filter may have for a promised rate of at most rate, from none on, or nil while its
// header is not known. The result is kept for the next call.
func (f *Filter) Forms(rate float64) []bloomblock.Form {
	if l := f.ladder.Load(); l != nil && l.rate == rate {
		return l.forms
	}
	forms := f.TableFilter.Forms(rate)
	if forms != nil {
		f.ladder.Store(&ladder{rate, forms})
	}
	return forms
}

// Known reports whether the forms of the filter are known.
func (f *Filter) Known() bool { return f.ladder.Load() != nil }

// Want returns the bytes of memory that the filter has by the plan, 0 while its forms for the rate are not known.
func (f *Filter) Want(rate float64) int64 {
	if l := f.ladder.Load(); l != nil && l.rate == rate {
		allowed := f.Allowed(l.forms)
		return allowed[len(allowed)-1].Bytes
	}
	return 0
}

// Forget makes the next call of Forms read again, after the filter was found damaged.
func (f *Filter) Forget() { f.ladder.Store(nil) }

// Allowed returns those of forms, which ascend from none on, that the plan allows.
func (f *Filter) Allowed(forms []bloomblock.Form) []bloomblock.Form {
	most := f.Most.Load()
	n := len(forms)
	for n > 1 && forms[n-1].Bytes > most {
		n--
	}
	return forms[:n]
}

// differs returns an error if the properties of a table's file differ from its entry in the manifest.
func differs(i sstable.Info, meta *manifest.Table) error {
	i.FilterRate = meta.FilterRate // the tail does not contain it
	t := compaction.Table(meta.Number, i)
	t.Flags |= meta.Flags & (manifest.SeqOverridden | manifest.Superseded)
	if t.Flags&manifest.SeqOverridden != 0 {
		t.MinSeq, t.MaxSeq = meta.MaxSeq, meta.MaxSeq
	}
	if !t.Equal(meta) {
		return fmt.Errorf("holds %v, the manifest has %v", t, meta)
	}
	return nil
}

// TableCounts counts the answers of the filter of one table, and the searches without a filter.
type TableCounts struct {
	Negatives                                 atomic.Uint64 // estimated by a sample
	TruePositives, FalsePositives, Unfiltered atomic.Uint64
}

// LoadCounts returns the counters in the form that the manifest keeps.
func (c *TableCounts) LoadCounts() manifest.Counts {
	return manifest.Counts{
		Negatives: c.Negatives.Load(), TruePositives: c.TruePositives.Load(),
		FalsePositives: c.FalsePositives.Load(), Unfiltered: c.Unfiltered.Load(),
	}
}

// RestoreCounts sets the counters to those kept by the manifest.
func (c *TableCounts) RestoreCounts(from manifest.Counts) {
	c.Negatives.Store(from.Negatives)
	c.TruePositives.Store(from.TruePositives)
	c.FalsePositives.Store(from.FalsePositives)
	c.Unfiltered.Store(from.Unfiltered)
}

// counts returns the counters of all tables, by table number.
func (s *State) counts() map[uint64]manifest.Counts {
	counts := map[uint64]manifest.Counts{}
	s.EachTable(func(_ int, t *Table) { counts[t.Meta.Number] = t.LoadCounts() })
	return counts
}
