package compaction

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// A forest is a version with the facts about its tables.
type forest struct {
	*manifest.Version
	dels  map[uint64]rangedel.List
	old   map[uint64]bool // outdated tables
	stale float64
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

func (f *forest) RangeDels(t *manifest.Table) *rangedel.Index {
	return rangedel.NewIndex(f.dels[t.Number])
}
func (f *forest) Outdated(_ int, t *manifest.Table) bool { return f.old[t.Number] }
func (f *forest) Stale() float64                         { return f.stale }

// argument cuts the line that begins with a name out of a case's input, and returns its text.
func argument(input *string, name string) string {
	before, after, ok := strings.Cut("\n"+*input+"\n", "\n"+name+" ")
	if !ok {
		return ""
	}
	text, rest, _ := strings.Cut(after, "\n")
	*input = strings.Trim(before+"\n"+rest, "\n")
	return text
}

// snapshotsOf cuts the snapshots out of a case's input.
func snapshotsOf(t *testing.T, input *string) (seqs []ikey.Seq) {
	t.Helper()
	for field := range strings.FieldsSeq(argument(input, "snapshots")) {
		var seq ikey.Seq
		scan(t, field, &seq)
		seqs = append(seqs, seq)
	}
	return seqs
}

func TestPick(t *testing.T) {
	testkit.Script(t, "testdata/pick.txt", func(t *testing.T, input string) string {
		snapshots, stale := snapshotsOf(t, &input), argument(&input, "stale")
		f := tree(t, input)
		if stale != "" {
			scan(t, stale, &f.stale)
		}
		return leveled.Pick(f.shape(snapshots...)).text()
	})
}

// runningOf cuts the plans that run out of a case's input: "5:a" merges the table of level 5 that begins with a down,
// "0:4" merges the four oldest runs of level 0 with each other, or moves a single one.
func (f *forest) runningOf(input string) (plans []*Plan) {
	v := f.shape()
	for field := range strings.FieldsSeq(input) {
		level, first, _ := strings.Cut(field, ":")
		if n := int(first[0] - '0'); level == "0" {
			runs := v.level0Runs()
			plans = append(plans, &Plan{To: 0, Inputs: runs[len(runs)-n:], Move: n == 1})
			continue
		}
		l := int(level[0] - '0')
		r := f.Levels[l][0]
		i := slices.IndexFunc(r.Tables, func(t *manifest.Table) bool { return string(t.Smallest) == first })
		plans = append(plans, v.down(l+1, Input{l, r.ID, r.Tables[i : i+1]}))
	}
	return plans
}

// TestPickAtOnce picks plans one after the other, each to be carried out beside those before.
func TestPickAtOnce(t *testing.T) {
	testkit.Script(t, "testdata/at_once.txt", func(t *testing.T, input string) string {
		running, idle := argument(&input, "running"), strings.Contains(input, "idle\n")
		sought, stale := argument(&input, "sought"), argument(&input, "stale")
		f := tree(t, strings.Replace(input, "idle\n", "", 1))
		shape := f.shape()
		shape.Running, shape.Idle = f.runningOf(running), idle
		scan(t, cmp.Or(sought, "0"), &shape.Sought)
		scan(t, cmp.Or(stale, "0"), &f.stale)
		var picked []string
		for p := leveled.Pick(shape); p != nil; p = leveled.Pick(shape) {
			picked = append(picked, p.text())
			shape.Running = append(shape.Running, p)
		}
		return strings.Join(append(picked, "nothing"), "\n")
	})
}

// TestTheBacklogIsWhatIsOverTheTargets has a target of 200 bytes for level 5, and none for level 3.
func TestTheBacklogIsWhatIsOverTheTargets(t *testing.T) {
	for level0, want := range map[string]Backlog{
		"":                                       {Bytes: 80},
		"0: a-z:10 | a-z:10 | a-z:10\n":          {Bytes: 80},
		"0: a-z:10 | a-z:10 | a-z:10 | a-z:10\n": {Bytes: 120, Runs: 1},
	} {
		b := leveled.Backlog(tree(t, level0+"3: a-b:30\n5: a-b:250\n6: a-z:2000").Version)
		if b.Bytes != want.Bytes || b.Runs != want.Runs || b.Base != 5 {
			t.Errorf("with %q: %+v, want %+v", level0, b, want)
		}
	}
	if b := leveled.Backlog(tree(t, "6: a-z:1000000000000").Version); b.Base != 1 {
		t.Errorf("over a very large level the base is %d, want 1", b.Base)
	}
}

// TestAPlanIsAllowedBesideOneOfOtherKeys has one that writes d to f in level 6, in which there is a gap.
func TestAPlanIsAllowedBesideOneOfOtherKeys(t *testing.T) {
	number := uint64(0)
	plan := func(to int, lo, hi string) *Plan {
		number++
		m := &manifest.Table{Number: number, Smallest: []byte(lo), Largest: []byte(hi)}
		return &Plan{To: to, Inputs: []Input{{to - 1, number, []*manifest.Table{m}}}}
	}
	f := tree(t, "6: x-z:10")
	for _, c := range []struct {
		to     int
		lo, hi string
		want   bool
	}{
		{6, "a", "c", true},
		{6, "a", "d", false},
		{6, "e", "e", false},
		{6, "f", "h", false},
		{6, "a", "z", false},
		{6, "g", "h", true},
		{5, "e", "e", true},
	} {
		shape := f.shape()
		shape.Running = []*Plan{plan(6, "d", "f")}
		if got := shape.Allows(plan(c.to, c.lo, c.hi)); got != c.want {
			t.Errorf("%s to %s in level %d: %v, want %v", c.lo, c.hi, c.to, got, c.want)
		}
	}
}

// TestAPlanThatWaitsIsReserved has level 0 merged meanwhile, and nothing else that the plan would have to wait for.
func TestAPlanThatWaitsIsReserved(t *testing.T) {
	f := tree(t, `
		0: a-z:1 | a-z:1
		5: a-c:1 d-f:1 p-q:1
		6: a-f:1`)
	of := func(level, run int) Input { return Input{level, f.Levels[level][run].ID, f.Levels[level][run].Tables} }
	part := func(level, i int) Input {
		in := of(level, 0)
		in.Tables = in.Tables[i : i+1]
		return in
	}
	shape := f.shape()
	shape.Running = []*Plan{{To: 6, Inputs: []Input{part(5, 2)}}}
	shape.Reserve(&Plan{To: 5, Inputs: []Input{of(0, 0), of(0, 1), part(5, 0), part(5, 1)}})
	for _, c := range []struct {
		p    *Plan
		want bool
	}{
		{&Plan{To: 0, Inputs: []Input{of(0, 0), of(0, 1)}}, true},
		{&Plan{To: 5, Inputs: []Input{of(0, 0), of(0, 1), part(5, 0), part(5, 1)}}, false},
		{&Plan{To: 6, Inputs: []Input{part(5, 0), of(6, 0)}}, false},
		{&Plan{To: 6, Inputs: []Input{of(6, 0)}}, true},
		{&Plan{To: 6, Inputs: []Input{part(5, 2)}}, false},
	} {
		if got := shape.Allows(c.p); got != c.want {
			t.Errorf("%s: allowed %v, want %v", c.p.text(), got, c.want)
		}
	}
	shape = f.shape()
	if shape.Reserve(&Plan{To: 5, Inputs: []Input{of(0, 0)}}); len(shape.Running) > 0 {
		t.Error("a plan for level 0 alone is reserved")
	}
}

func TestTheLongestTombstoneCovers(t *testing.T) {
	of := func(end string, seq ikey.Seq) runDels {
		t := &manifest.Table{Smallest: []byte("a"), Largest: []byte(end), Flags: manifest.LargestExclusive}
		l := rangedel.List{{Start: t.Smallest, End: t.Largest, Seqs: []ikey.Seq{seq}}}
		return runDels{{t, rangedel.NewIndex(l)}}
	}
	long, short := of("z", 5), of("c", 6)
	for _, c := range []cover{{long, short}, {short, long}} {
		if end, ok := c.stretch([]byte("b"), 1, ikey.MaxSeq); !ok || string(end) != "z" {
			t.Errorf("b is covered up to %q, %v, want z", end, ok)
		}
	}
}

func TestRangeTombstonesThatAreNotInMemoryStartNothing(t *testing.T) {
	f := tree(t, "0: a-d):10:a~d@9\n6: a-c:900")
	if got := leveled.Pick(Shape{Version: f.Version}).text(); got != "nothing" {
		t.Errorf("got %s", got)
	}
}

// TestAPlanKnowsTheRangeTombstonesOfItsRange has others beside the range.
func TestAPlanKnowsTheRangeTombstonesOfItsRange(t *testing.T) {
	f := tree(t, `
		0: a-c):1:a~c@9 d-f):1:d~f@9 g-i):1:g~i@9 | h-∞:1:h~∞@8
		4: a-e):1:a~e@7
		5: d-e:1 g-h:1
		6: d-e:1`)
	shape := f.shape()
	p := &Plan{To: 6, Inputs: []Input{
		{Level: 5, Tables: f.Levels[5][0].Tables[:1]}, {Level: 6, Tables: f.Levels[6][0].Tables},
	}}
	shape.Hide(p)
	for _, level := range []int{5, 6} {
		var got []string
		for _, run := range p.above[level] {
			for _, table := range run {
				for _, d := range table.dels.List() {
					got = append(got, fmt.Sprintf("%s~%s@%d", d.Start, d.End, d.Seqs[0]))
				}
			}
		}
		if want := []string{"d~f@9", "a~e@7"}; !slices.Equal(got, want) {
			t.Errorf("above level %d: %q, want %q", level, got, want)
		}
	}
}

// indexed are facts of tables with an index each, as readers of tables have it.
type indexed struct{ dels map[uint64]*rangedel.Index }

func (f indexed) RangeDels(t *manifest.Table) *rangedel.Index { return f.dels[t.Number] }
func (indexed) Outdated(int, *manifest.Table) bool            { return false }
func (indexed) Stale() float64                                { return 0 }

// TestAChoiceCopiesNoRangeTombstones has so many range tombstones that a copy or an index of them takes megabytes.
func TestAChoiceCopiesNoRangeTombstones(t *testing.T) {
	const tables, each = 8, 10_000
	key := func(i int) []byte { return fmt.Appendf(nil, "%08d", i) }
	facts, v := indexed{map[uint64]*rangedel.Index{}}, &manifest.Version{}
	for level, size := range []uint64{1: 1 << 20, 5: 5000, 6: 9000} {
		var run []*manifest.Table
		for i := range tables * int(min(size, 1)) {
			number := uint64(100*level + i + 1)
			m := &manifest.Table{
				Number: number, Size: size, Smallest: key(i * each), Largest: key((i+1)*each + 1), Entries: 1,
				Flags: manifest.LargestExclusive, MinSeq: 1, MaxSeq: 2,
			}
			if level == 1 {
				m.MaxSeq, m.RangeDeletes = each+10, each
				m.Largest = key((i + 1) * each)
				var l rangedel.List
				for k := range each - 2 { // each over three keys: they overlap
					l = append(l, rangedel.Fragment{
						Start: key(i*each + k), End: key(i*each + k + 3), Seqs: []ikey.Seq{ikey.Seq(k + 10)},
					})
				}
				facts.dels[number] = rangedel.NewIndex(l)
			}
			run = append(run, m)
		}
		if len(run) > 0 {
			v.Levels[level] = []manifest.Run{{ID: uint64(100*level + 99), Tables: run}}
		}
	}
	policy := leveled
	policy.TableSize = 1 << 20
	for name, choose := range map[string]func(*Shape) *Plan{
		"a table of a level": func(s *Shape) *Plan { return s.mergeTable(5) },
		"small tables":       policy.join,
		"deleted tables":     (*Shape).pickDrop,
		"a plan's cover": func(s *Shape) *Plan {
			p := &Plan{To: 6, Inputs: []Input{{Level: 5, Run: 599, Tables: v.Levels[5][0].Tables}}}
			s.Hide(p)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			choose(&Shape{Version: v, Facts: facts, Snapshots: []ikey.Seq{5}}) // which needs what they delete
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
				t.Errorf("%d bytes are allocated", n)
			}
		})
	}
}
