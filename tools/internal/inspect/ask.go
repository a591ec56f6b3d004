package inspect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sort"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// Ask follows a key through the tables that a store has now, newest data first: it reads one filter of each run, and
// one block of each table. If tables cannot be read, it returns the answers of the others too.
func Ask(ctx context.Context, dir string, key []byte) (k *Key, err error) {
	for range readings { // again if a compaction has removed a table
		before := Stamp(dir)
		m, failed := manifest.Load(recovery.Until(ctx, vfs.OS), dir)
		if failed != nil {
			return nil, failed
		}
		k, err = newKeys([][]byte{key}).Key, nil
		for level, runs := range m.Version.Levels {
			for i := range runs {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				err = errors.Join(err, k.askRun(dir, level, &runs[i]))
			}
		}
		if !errors.Is(err, fs.ErrNotExist) || Stamp(dir) == before {
			break
		}
	}
	return k, err
}

// sampleKeys returns a key that the store has, one that it has not, and one that it has not but a filter lets through,
// as far as they are found without much work.
func (t *tree) sampleKeys(ctx context.Context, dir string) (all []*Key) {
	last := t.runs[len(t.runs)-1]
	m := last.members[len(last.members)/2]
	there := func(k *Key) bool {
		return slices.ContainsFunc(k.Tables, func(t KeyTable) bool { return t.Found != "nothing" && t.File != "" })
	}
	maybe := func(k *Key) bool {
		return slices.ContainsFunc(k.Tables, func(t KeyTable) bool { return t.Verdict == "false positive" })
	}
	add := func(key []byte, fits func(k *Key) bool) bool {
		k, err := Ask(ctx, dir, key)
		if err != nil || !fits(k) {
			return false
		}
		all = append(all, k)
		return true
	}
	add(m.meta.Smallest, there)
	const most = 20_000
	absent, passing := false, m.filter == nil
	for i := 0; i < most && !(absent && passing); i++ {
		key := fmt.Appendf(bytes.Clone(m.meta.Smallest), "?%d", i)
		if m.meta.EndsBefore(key) || len(key) > words.KeyLimit {
			break
		}
		if passes := m.filter != nil && m.filter.MayContain(bloomblock.HashKey(key)); passes && !passing {
			passing = add(key, func(k *Key) bool { return maybe(k) && !there(k) })
		} else if !passes && !absent {
			absent = add(key, func(k *Key) bool { return !maybe(k) && !there(k) }) || i > 10
		}
	}
	return all
}

// A Rain asks the filters of a store for absent keys: random hashes at random places among the keys.
type Rain struct {
	dir       string
	tables    []rainTable
	predicted float64
	promised  float64
}

// A rainTable is a table on which drops fall: between the shares of the keys where it begins and ends.
type rainTable struct {
	file     string
	from, to float64
	bytes    uint64          // of its filter and its index in the file
	form     bloomblock.Form // of its filter in memory
	whole    bool            // the filter in the file is asked
}

// A Fallen is the result of a rain.
type Fallen struct {
	Drops     int       `json:"drops"`
	Passed    int       `json:"passed"`    // times that a filter let a drop through
	Promised  float64   `json:"promised"`  // the most that are promised for each drop; 0 if unknown
	Predicted float64   `json:"predicted"` // by the bits of the filters
	Unread    int       `json:"unread"`    // tables that were not asked: they are gone, or there are too many bytes
	Through   []Through `json:"through"`   // some of Passed
}

// A Through is a drop that a filter let through: the table, and the share of the keys before it.
type Through struct {
	File string  `json:"file"`
	At   float64 `json:"at"`
}

const (
	rainDrops   = 10_000
	mostRain    = 64 << 20 // bytes that are read
	mostThrough = 400
)

// Rain returns the rain on the store as it was read, from its directory.
func (s *Store) Rain() *Rain { return s.rain }

// rainOn returns the rain on a tree.
func (t *tree) rainOn(s *Store, dir string) *Rain {
	r := &Rain{dir: dir, predicted: s.Tree.Predicted}
	r.promised, _ = s.mostWasted()
	for _, m := range t.members {
		if m.meta.Entries > 0 {
			r.tables = append(r.tables, rainTable{
				m.facts.File, m.place.From, m.place.To, m.meta.FilterLen + m.meta.TailLen, m.form, m.place.InFile,
			})
		}
	}
	return r
}

// Fall lets drops fall that depend on the seed alone. It reads one table at a time. A damaged filter lets everything
// through, as it does for a lookup; tables that do not exist any more are not asked.
func (r *Rain) Fall(ctx context.Context, seed uint64) (*Fallen, error) {
	type drop struct {
		at   float64
		hash bloomblock.Hash
	}
	random := rand.New(rand.NewPCG(seed, 0))
	drops := make([]drop, rainDrops)
	for i := range drops {
		drops[i] = drop{random.Float64(), bloomblock.Hash(random.Uint64())}
	}
	slices.SortFunc(drops, func(a, b drop) int { return cmp.Compare(a.at, b.at) })
	f := &Fallen{Drops: rainDrops, Promised: r.promised, Predicted: r.predicted, Through: []Through{}}
	left := uint64(mostRain)
	for _, t := range r.tables {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if t.bytes > left {
			f.Unread++
			continue
		}
		left -= t.bytes
		under := drops[sort.Search(rainDrops, func(i int) bool { return drops[i].at >= t.from }):]
		under = under[:sort.Search(len(under), func(i int) bool { return under[i].at >= t.to })]
		err := withTable(filepath.Join(r.dir, t.file), func(o *openTable) error {
			if err := o.reader.Load(0); err != nil {
				return err
			}
			if !t.whole {
				o.reader.Keys.Reduce([]bloomblock.Form{t.form})
			}
			filter := o.reader.Filter()
			for _, d := range under {
				if filter == nil || filter.MayContain(d.hash) {
					f.Passed++
					f.Through = append(f.Through, Through{t.file, d.at})
				}
			}
			return nil
		})
		if err != nil {
			f.Unread++
		}
	}
	random.Shuffle(len(f.Through), func(i, k int) { f.Through[i], f.Through[k] = f.Through[k], f.Through[i] })
	f.Through = f.Through[:min(len(f.Through), mostThrough)]
	return f, nil
}
