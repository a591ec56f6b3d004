package compaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A forest is a version with the facts about its tables.
type forest struct {
	*manifest.Version
	dels map[uint64]rangedel.List
	old  map[uint64]bool // outdated tables
}

// tree parses a version from lines "LEVEL: a-c:10 d-f):20:2 x-∞:9 | …". Bars separate runs, newest first. A table has
// bounds, bytes, and after colons other properties:
//
//	7        point tombstones, of 100 versions     e50   another number of versions
//	r2       range tombstones, not in memory       d~f@9 one in memory, over [d, f), with sequence 9
//	1..9     sequences, else 1..2                  i, v  ingested, with superseded versions
//	o        outdated
func tree(t *testing.T, text string) forest {
	t.Helper()
	e := &manifest.Edit{}
	f := forest{dels: map[uint64]rangedel.List{}, old: map[uint64]bool{}}
	number, run := uint64(1), uint64(1000)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		var level int
		name, rest, _ := strings.Cut(line, ":")
		scan(t, name, &level)
		for part := range strings.SplitSeq(rest, "|") {
			run--
			for field := range strings.FieldsSeq(part) {
				f.table(t, e, level, run, number, strings.Split(field, ":"))
				number++
			}
		}
	}
	e.NextFile = max(number+1, 1001)
	v, err := new(manifest.Version).Apply(e)
	must(t, err)
	f.Version = v
	return f
}

func scan(t *testing.T, text string, n any) {
	t.Helper()
	if _, err := fmt.Sscan(text, n); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
}

func (f *forest) table(t *testing.T, e *manifest.Edit, level int, run, number uint64, parts []string) {
	t.Helper()
	lo, hi, _ := strings.Cut(parts[0], "-")
	m := &manifest.Table{Number: number, ID: number, Smallest: []byte(lo), Entries: 100, TailLen: 1}
	m.MinSeq, m.MaxSeq = 1, 2
	if hi == "∞" {
		m.Flags = manifest.LargestInfinite
	} else {
		hi, exclusive := strings.CutSuffix(hi, ")")
		if m.Largest = []byte(hi); exclusive {
			m.Flags = manifest.LargestExclusive
		}
	}
	scan(t, parts[1], &m.Size)
	for _, p := range parts[2:] {
		stretch, seq, isDel := strings.Cut(p, "@")
		low, high, isSeqs := strings.Cut(p, "..")
		switch {
		case isDel:
			d := rangedel.Fragment{Seqs: []ikey.Seq{0}}
			start, end, _ := strings.Cut(stretch, "~")
			if d.Start = []byte(start); end != "∞" {
				d.End = []byte(end)
			}
			scan(t, seq, &d.Seqs[0])
			f.dels[number] = append(f.dels[number], d)
			m.RangeDeletes++
			m.MaxSeq = max(m.MaxSeq, d.Seqs[0])
		case isSeqs:
			scan(t, low, &m.MinSeq)
			scan(t, high, &m.MaxSeq)
		case p == "i":
			m.Flags |= manifest.SeqOverridden
		case p == "o":
			f.old[number] = true
		case p == "v":
			m.Flags |= manifest.Superseded
		case p[0] == 'r':
			scan(t, p[1:], &m.RangeDeletes)
		case p[0] == 'e':
			scan(t, p[1:], &m.Entries)
		default:
			scan(t, p, &m.Deletes)
		}
	}
	e.Added = append(e.Added, manifest.Added{Level: level, Run: run, Table: m})
}

// text formats a plan: the inputs by level with their bounds, and the output level.
func (p *Plan) text() string {
	if p == nil {
		return "nothing"
	}
	var b strings.Builder
	for _, in := range p.Inputs {
		fmt.Fprintf(&b, "%d[", in.Level)
		for i, t := range in.Tables {
			if i > 0 {
				b.WriteByte(' ')
			}
			hi := string(t.Largest)
			switch {
			case t.Flags&manifest.LargestInfinite != 0:
				hi = "∞"
			case t.Flags&manifest.LargestExclusive != 0:
				hi += ")"
			}
			fmt.Fprintf(&b, "%s-%s", t.Smallest, hi)
		}
		b.WriteString("] ")
	}
	verb := "merge"
	if p.Move {
		verb = "move"
	}
	fmt.Fprintf(&b, "%s to %d", verb, p.To)
	return b.String()
}

// The base level is the last one up to 1000 bytes there, and the one above up to 10,000.
var leveled = Leveled{Trigger: 4, Slow: 8, Stop: 12, Ratio: 10, BaseLevelSize: 1000}

func (f *forest) shape(snapshots ...ikey.Seq) Shape {
	return Shape{Version: f.Version, Snapshots: snapshots, Facts: f}
}

// of returns the shape of a later version.
func (f *forest) of(v *manifest.Version) Shape { return Shape{Version: v, Facts: f} }

func (f *forest) RangeDels(t *manifest.Table) rangedel.List { return f.dels[t.Number] }
func (f *forest) Outdated(_ int, t *manifest.Table) bool    { return f.old[t.Number] }

func TestPick(t *testing.T) {
	for _, c := range []struct{ name, tree, want string }{
		{"an empty tree is in shape", "", "nothing"},
		{"three runs wait for a fourth", "0: a-z:10 | a-z:10 | a-z:10", "nothing"},
		{
			"four runs go to the last level together",
			"0: a-f:10 | e-h:10 | a-b:10 | c-e:10\n6: a-c:60 d-d:60 x-z:100",
			"0[a-f] 0[e-h] 0[a-b] 0[c-e] 6[a-c d-d] merge to 6",
		},
		{
			"sequential runs move, the oldest first", "0: s-t:10 | q-r:10 | o-p:10 | m-n:10\n6: a-l:100",
			"0[m-n] move to 6",
		},
		{
			"tombstones do not move into the last level", "0: s-t:10 | q-r:10 | o-p:10 | m-n:10:3\n6: a-l:100",
			"0[s-t] 0[q-r] 0[o-p] 0[m-n] merge to 6",
		},
		{
			"range tombstones neither", "0: s-t:10 | q-r:10 | o-p:10 | m-n):10:r1\n6: a-l:100",
			"0[s-t] 0[q-r] 0[o-p] 0[m-n)] merge to 6",
		},
		{
			"tombstones may move into a level above the last", "0: s-t:10 | q-r:10 | o-p:10 | m-n:10:3\n6: a-l:2000",
			"0[m-n] move to 5",
		},
		{"range tombstones too", "0: s-t:10 | q-r:10 | o-p:10 | m-n):10:r1\n6: a-l:2000", "0[m-n)] move to 5"},
		{
			"a grown last level moves the base level up", "0: a-f:10 | e-h:10 | a-b:10 | c-e:10\n6: a-l:2000\n",
			"0[c-e] move to 5",
		},
		{
			"the base level is two up where the last is a hundred times as large",
			"0: a-f:10 | a-h:10 | a-b:10 | a-e:10\n4: b-c:1\n6: a-l:20000",
			"0[a-f] 0[a-h] 0[a-b] 0[a-e] 4[b-c] merge to 4",
		},
		{
			"a level over its target gives the table with the least overlap",
			"5: a-c:150 e-g:150\n6: a-b:500 c-d:500 e-f:500 g-g:400",
			"5[e-g] 6[e-f g-g] merge to 6",
		},
		{"a table over a gap moves", "5: a-c:150 e-g:150\n6: a-b:900 h-i:900", "5[e-g] move to 6"},
		{
			"an exclusive end does not touch what begins there", "5: a-c:150 e-h):150\n6: a-b:900 h-i:900",
			"5[e-h)] move to 6",
		},
		{
			"an infinite end touches all behind", "5: a-b:150 e-∞:150\n6: a-b:200 h-i:900 x-z:900",
			"5[a-b] 6[a-b] merge to 6",
		},
		{
			"what an infinite end touches takes part", "5: e-∞:250:r1\n6: a-b:900 h-i:900 x-z:900",
			"5[e-∞] 6[h-i x-z] merge to 6",
		},
		{"what stands above the base level goes down", "3: a-c:1\n6: a-z:100", "3[a-c] move to 4"},
		{
			"level 0 merges into what stands above the base level, not past it",
			"0: a-f:10 | a-h:10 | a-b:10 | a-e:10\n4: b-c:1\n6: a-l:20",
			"0[a-f] 0[a-h] 0[a-b] 0[a-e] 4[b-c] merge to 4",
		},
		{
			"level 0 first where it is worse",
			"0: a-b:9 | a-b:9 | a-b:9 | a-b:9 | a-b:9 | a-b:9 | a-b:9 | a-b:10\n5: a-b:219\n6: a-l:2000",
			"0[a-b] 0[a-b] 0[a-b] 0[a-b] 0[a-b] 0[a-b] 0[a-b] 0[a-b] 5[a-b] merge to 5",
		},
		{
			"level 0 takes all that its infinite end touches",
			"0: a-b:10 | a-b:10 | a-b:10 | b-∞:10\n6: a-c:40 d-d:40 x-z:40",
			"0[a-b] 0[a-b] 0[a-b] 0[b-∞] 6[a-c d-d x-z] merge to 6",
		},

		{"an ingested run moves at once, as far as it gets", "0: c-d:10:i\n6: a-b:20000 e-f:9", "0[c-d] move to 6"},
		{"it stops above what it overlaps", "0: c-d:10:i\n6: a-c:20000", "0[c-d] move to 5"},
		{"it stays where it overlaps the base level", "0: c-d:10:i\n6: a-c:10", "nothing"},
		{
			"it stays under what it overlaps above the base level", "0: c-d:10:i\n3: d-e:1\n6: a-b:10",
			"3[d-e] move to 4",
		},
		{"it waits until it is the oldest run", "0: c-d:10:i | a-b:10\n6: a-b:20", "nothing"},
		{"it is not moved into the last level with tombstones", "0: c-d:10:i:4\n6: a-b:20000", "0[c-d] move to 5"},
		{"nor with range tombstones", "0: c-d):10:i:r1\n6: a-b:20000", "0[c-d)] move to 5"},
		{
			"an ingested run comes before all else", "0: a-b:1 | a-b:1 | a-b:1 | a-b:1 | c-d:10:i\n6: a-b:20000",
			"0[c-d] move to 6",
		},
		{"all of its tables go", "0: c-d:10:i f-g:1:i\n6: a-b:20 e-e:9", "0[c-d f-g] move to 6"},
		{
			"a tree in shape is left alone, however old its filters are",
			"0: a-c:1:o\n5: a-c:15:o e-g:15:o\n6: a-b:900:o h-i:900:o", "nothing",
		},
		{
			"an outdated table over a gap is written anew", "5: a-c:150:o e-g:150:o\n6: a-b:900 h-i:900:o",
			"5[e-g] merge to 6",
		},
		{
			"an outdated run that would be moved is merged with its level",
			"0: s-t:10 | q-r:10 | o-p:10 | m-n:10:o\n6: a-l:100", "0[s-t] 0[q-r] 0[o-p] 0[m-n] merge to 6",
		},
		{"an outdated run that was ingested waits for its level", "0: c-d:10:i:o\n6: a-b:20000 e-f:9", "nothing"},
		{"one that was merged with another table's does not go", "0: c-d:10:i f-g:1\n6: a-b:20 e-e:9", "nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := tree(t, c.tree)
			if got := leveled.Pick(f.shape()).text(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
