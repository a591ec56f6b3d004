package compaction

import (
	"sort"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/merge"
)

// runTables gives a merge the inputs of one run.
type runTables struct {
	tables []*manifest.Table
	inputs Inputs
}

var _ merge.Tables = runTables{}

func (r runTables) Len() int { return len(r.tables) }

func (r runTables) Find(user []byte) int {
	return sort.Search(len(r.tables), func(i int) bool { return !r.tables[i].EndsBefore(user) })
}

func (r runTables) Bounds(i int) merge.Bounds { return Bounds(r.tables[i]) }

func (r runTables) Open(i int) (merge.Source, error) { return r.inputs.Open(r.tables[i]) }

// Bounds converts the bounds of a table for package merge.
func Bounds(t *manifest.Table) merge.Bounds {
	b := merge.Bounds{Smallest: t.Smallest, Largest: t.Largest}
	switch {
	case t.Flags&manifest.LargestInfinite != 0:
		b.Upper = merge.Infinite
	case t.Flags&manifest.LargestExclusive != 0:
		b.Upper = merge.Exclusive
	}
	return b
}
