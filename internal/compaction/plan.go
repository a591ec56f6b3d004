package compaction

import "github.com/bloomkv/bloomkv/internal/manifest"

const last = manifest.NumLevels - 1

// A Plan is one compaction: the inputs, newest data first, become tables of the level To. Their keys span a range; all
// tables of To that share a key with the range are among the inputs, unless To is 0. In level 0 neighboring runs become
// one.
type Plan struct {
	To     int
	Inputs []Input
	Move   bool // the tables change their level as they are

	above map[int]cover // range tombstones of the levels above the inputs of a level; set by Shape.Hide
}

// An Input is a set of tables of one run.
type Input struct {
	Level  int
	Run    uint64
	Tables []*manifest.Table
}

// Bytes returns the size of all inputs.
func (p *Plan) Bytes() uint64 { return bytesOf(p.Inputs) }

// Edit returns the change that a finished compaction makes: the inputs are removed, and the outputs join the run of the
// output level, or form the run newRun if the level is empty. If all inputs are of the output level, the outputs join
// the oldest run among them: a Manual then sees that the run has old data.
func Edit(v *manifest.Version, p *Plan, outputs []*manifest.Table, newRun uint64) *manifest.Edit {
	e := &manifest.Edit{}
	for _, in := range p.Inputs {
		for _, t := range in.Tables {
			e.Deleted = append(e.Deleted, manifest.Deleted{Level: in.Level, Number: t.Number})
		}
	}
	if p.Move {
		outputs = p.Inputs[0].Tables
	}
	if len(outputs) == 0 {
		return e
	}
	run := newRun
	switch runs := v.Levels[p.To]; {
	case p.Inputs[0].Level == p.To:
		run = p.Inputs[len(p.Inputs)-1].Run
	case len(runs) > 0:
		run = runs[0].ID
	}
	for _, t := range outputs {
		e.Added = append(e.Added, manifest.Added{Level: p.To, Run: run, Table: t})
	}
	return e
}

func bytesOf(inputs []Input) (n uint64) {
	for _, in := range inputs {
		for _, t := range in.Tables {
			n += t.Size
		}
	}
	return n
}

// boundsOfTables returns the range from the first to the last key of one or more tables.
func boundsOfTables(tables []*manifest.Table) manifest.Bounds {
	b := tables[0].Bounds()
	for _, t := range tables[1:] {
		b = b.Union(t.Bounds())
	}
	return b
}

// boundsOf returns the range from the first to the last key of one or more inputs.
func boundsOf(inputs []Input) manifest.Bounds {
	b := boundsOfTables(inputs[0].Tables)
	for _, in := range inputs[1:] {
		b = b.Union(boundsOfTables(in.Tables))
	}
	return b
}

// NewRun returns the tables of one flush as a new run of level 0. The run has the number of its last table, so that
// run numbers grow from flush to flush.
func NewRun(tables []*manifest.Table) (added []manifest.Added) {
	for _, t := range tables {
		added = append(added, manifest.Added{Level: 0, Run: tables[len(tables)-1].Number, Table: t})
	}
	return added
}
