package tree

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
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

	// Keys and Prefixes are the plans for the table's filters in memory.
	Keys, Prefixes FilterPlan

	Ready   atomic.Bool // its filter is, or was, in memory as far as the plan had memory for it
	Damaged atomic.Bool // a filter of the table is known to be damaged

	fingerprint atomic.Pointer[uint64] // nil until it is asked for

	Loading sync.Mutex // held while parts of the table are loaded or dropped, so that each is counted once
	Counted TableBytes // guarded by Loading: the counted bytes in memory

	TableCounts
}

// TableBytes are the bytes that a table has in memory, by part. The parts of its index are not among them: they are
// counted by sstable.PartPool.
type TableBytes struct{ Filter, Prefix, Top, RangeDeletes int64 }

// NewTable returns the table described by a manifest. It reads nothing.
func NewTable(meta *manifest.Table, files *tablefile.Dir, blocks *cache.Cache, parts *sstable.PartPool) *Table {
	t := &Table{Meta: meta, File: files.File(meta.Number)}
	t.Keys.Bytes.Store(math.MaxInt64)
	m := sstable.Meta{Name: t.File.Name, Size: meta.Size, ID: meta.ID, TailLen: meta.TailLen, FilterLen: meta.FilterLen}
	if meta.Flags&manifest.SeqOverridden != 0 {
		m.Seq = meta.MaxSeq
	}
	m.Facts = facts{meta}
	t.Reader = sstable.NewReader(t.File, m, blocks, parts, files.Domain)
	return t
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

// A FilterPlan says how much of a filter of a table shall be in memory.
type FilterPlan struct {
	Bytes  atomic.Int64           // at most, by the last plan; 0 for no filter
	ladder atomic.Pointer[ladder] // nil until its header is known
}

// A ladder is what a filter can be in memory.
type ladder struct {
	rate  float64
	forms []bloomblock.Form
}

// Forms returns the forms that the filter may have for a promised rate of at most rate, by read, which returns nil
// while the header is not known. The result is kept for the next call.
func (p *FilterPlan) Forms(rate float64, read func(rate float64) []bloomblock.Form) []bloomblock.Form {
	if l := p.ladder.Load(); l != nil && l.rate == rate {
		return l.forms
	}
	forms := read(rate)
	if forms != nil {
		p.ladder.Store(&ladder{rate, forms})
	}
	return forms
}

// Known reports whether the forms of the filter are known.
func (p *FilterPlan) Known() bool { return p.ladder.Load() != nil }

// Want returns the bytes of memory that the filter has by the plan, 0 while its forms for the rate are not known.
func (p *FilterPlan) Want(rate float64) int64 {
	if l := p.ladder.Load(); l != nil && l.rate == rate {
		return p.Form(l.forms).Bytes
	}
	return 0
}

// Forget makes the next call of Forms read again, after a filter was found damaged.
func (p *FilterPlan) Forget() { p.ladder.Store(nil) }

// Form returns the largest of forms, which ascend from none on, that the plan allows.
func (p *FilterPlan) Form(forms []bloomblock.Form) bloomblock.Form {
	allowed := p.Allowed(forms)
	return allowed[len(allowed)-1]
}

// Allowed returns those of forms, which ascend from none on, that the plan allows.
func (p *FilterPlan) Allowed(forms []bloomblock.Form) []bloomblock.Form {
	most := p.Bytes.Load()
	n := len(forms)
	for n > 1 && forms[n-1].Bytes > most {
		n--
	}
	return forms[:n]
}

// facts holds what the manifest knows about a table.
type facts struct{ meta *manifest.Table }

// Check returns an error if the properties of a table's file differ from its entry in the manifest.
func (f facts) Check(i sstable.Info) error {
	meta := f.meta
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
