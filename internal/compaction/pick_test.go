package compaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// tree reads a version from lines "LEVEL: a-c:10 d-f:20:2 | …": bounds, bytes, tombstones; runs are divided by bars,
// newest first.
func tree(t *testing.T, text string) *manifest.Version {
	t.Helper()
	e := &manifest.Edit{}
	number, run := uint64(1), uint64(1000)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		var level int
		name, rest, _ := strings.Cut(line, ":")
		if _, err := fmt.Sscan(name, &level); err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(rest, "|") {
			run--
			for field := range strings.FieldsSeq(part) {
				parts := strings.Split(field, ":")
				lo, hi, _ := strings.Cut(parts[0], "-")
				meta := &manifest.Table{
					Number: number, ID: number, Smallest: []byte(lo), Largest: []byte(hi), Entries: 100, MinSeq: 1, MaxSeq: 2, TailLen: 1,
				}
				if _, err := fmt.Sscan(parts[1], &meta.Size); err != nil {
					t.Fatal(err)
				}
				if len(parts) > 2 {
					if _, err := fmt.Sscan(parts[2], &meta.Deletes); err != nil {
						t.Fatal(err)
					}
				}
				number++
				e.NextFile = max(e.NextFile, number+1, 1001)
				e.Added = append(e.Added, manifest.Added{Level: level, Run: run, Table: meta})
			}
		}
	}
	v, err := new(manifest.Version).Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// text prints a plan: inputs by level with their bounds, and where they go.
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
			fmt.Fprintf(&b, "%s-%s", t.Smallest, t.Largest)
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

var options = Options{Trigger: 4, Ratio: 10, BaseLevelSize: 1000}

func TestPick(t *testing.T) {
	for _, c := range []struct{ name, tree, want string }{
		{"an empty tree is in shape", "", "nothing"},
		{"three runs wait for a fourth", "0: a-z:10 | a-z:10 | a-z:10", "nothing"},
		{
			"four runs go to the last level together", "0: a-f:10 | e-h:10 | a-b:10 | c-e:10\n6: a-c:100 d-d:100 x-z:100",
			"0[a-f] 0[e-h] 0[a-b] 0[c-e] 6[a-c d-d] merge to 6",
		},
		{"sequential runs move, the oldest first", "0: s-t:10 | q-r:10 | o-p:10 | m-n:10\n6: a-l:100", "0[m-n] move to 6"},
		{
			"tombstones do not move into the last level", "0: s-t:10 | q-r:10 | o-p:10 | m-n:10:3\n6: a-l:100",
			"0[s-t] 0[q-r] 0[o-p] 0[m-n] merge to 6",
		},
		{"tombstones may move into a level above the last", "0: s-t:10 | q-r:10 | o-p:10 | m-n:10:3\n6: a-l:2000", "0[m-n] move to 5"},
		{"a grown last level moves the base level up", "0: a-f:10 | e-h:10 | a-b:10 | c-e:10\n6: a-l:2000\n", "0[c-e] move to 5"},
		{
			"the base level is two up where the last is a hundred times as large", "0: a-f:10 | a-h:10 | a-b:10 | a-e:10\n4: b-c:1\n6: a-l:20000",
			"0[a-f] 0[a-h] 0[a-b] 0[a-e] 4[b-c] merge to 4",
		},
		{
			"a level over its target gives the table with the least overlap", "5: a-c:150 e-g:150\n6: a-b:500 c-d:500 e-f:500 g-g:400",
			"5[e-g] 6[e-f g-g] merge to 6",
		},
		{"a table over a gap moves", "5: a-c:150 e-g:150\n6: a-b:900 h-i:900", "5[e-g] move to 6"},
		{"what stands above the base level goes down", "3: a-c:1\n6: a-z:100", "3[a-c] move to 4"},
		{
			"level 0 merges into what stands above the base level, not past it", "0: a-f:10 | a-h:10 | a-b:10 | a-e:10\n4: b-c:1\n6: a-l:20",
			"0[a-f] 0[a-h] 0[a-b] 0[a-e] 4[b-c] merge to 4",
		},
		{
			"level 0 first where it is worse", "0: a-b:1 | a-b:1 | a-b:1 | a-b:1 | a-b:1 | a-b:1 | a-b:1 | a-b:1\n5: a-b:220\n6: a-l:2000",
			"0[a-b] 0[a-b] 0[a-b] 0[a-b] 0[a-b] 0[a-b] 0[a-b] 0[a-b] 5[a-b] merge to 5",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Pick(tree(t, c.tree), options).text(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestPickRange(t *testing.T) {
	const text = "0: a-f:10 | g-h:10\n5: a-c:15 e-g:15 k-l:15\n6: a-b:500 c-d:500 e-f:500 g-g:400:7 h-i:400:2 j-j:100 x-z:100:1"
	for _, c := range []struct {
		level        int
		lo, hi, want string
	}{
		{0, "a", "b", "0[a-f] 0[g-h] 5[a-c e-g] merge to 5"},
		{0, "x", "z", "nothing"},
		{5, "d", "d", "nothing"},
		{5, "c", "e", "5[a-c e-g] 6[a-b c-d e-f g-g] merge to 6"},
		{5, "k", "", "5[k-l] move to 6"},
		{6, "", "", "6[g-g h-i] merge to 6"},
		{6, "", "f", "nothing"},
		{6, "k", "", "6[x-z] merge to 6"},
		{4, "", "", "nothing"},
	} {
		t.Run(fmt.Sprintf("level %d from %q to %q", c.level, c.lo, c.hi), func(t *testing.T) {
			bound := func(s string) []byte {
				if s == "" {
					return nil
				}
				return []byte(s)
			}
			v := tree(t, text)
			o := options
			o.BaseLevelSize = 100
			if c.level == 0 {
				o.BaseLevelSize = 300 // the base level is 5
			}
			if got := PickRange(v, o, c.level, bound(c.lo), bound(c.hi)).text(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
