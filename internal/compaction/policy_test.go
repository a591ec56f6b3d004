package compaction

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// tiered is a second policy, an example of what one needs: level 1 holds up to k runs, each made by one merge of
// level 0. These are merged into level 2 together. The levels below are leveled.
type tiered struct {
	Leveled
	k int
}

func (p tiered) MaxRuns(level int) int {
	if level == 1 {
		return p.k
	}
	return p.Leveled.MaxRuns(level)
}

func (p tiered) Pick(v Shape) *Plan {
	switch {
	case len(v.Levels[1]) >= p.k:
		return v.down(2, v.all(1)...)
	case len(v.Levels[0]) >= p.Trigger:
		return &Plan{To: 1, NewRun: true, Inputs: v.all(0)}
	default:
		return p.pickFrom(v, 2)
	}
}

func TestATieredPolicy(t *testing.T) {
	for _, c := range []struct{ name, tree, want string }{
		{"an empty tree is in shape", "", "nothing"},
		{
			"level 0 becomes a new run, whatever it overlaps",
			"0: a-f:1 | e-h:1 | a-b:1 | c-e:1\n1: a-z:1 | b-c:1\n2: a-z:1",
			"0[a-f] 0[e-h] 0[a-b] 0[c-e] merge to 1, as a new run",
		},
		{"two runs may stay", "1: a-z:900 | a-c:900\n6: a-z:9000", "nothing"},
		{
			"three are merged, also while level 0 is full",
			"0: a-a:1 | a-a:1 | a-a:1 | a-a:1\n1: a-c:1 | b-d:1 | e-f:1\n2: a-b:1 g-h:1\n6: a-z:20000",
			"1[a-c] 1[b-d] 1[e-f] 2[a-b] merge to 2",
		},
		{"levels below are leveled", "1: a-c:1 | b-d:1\n5: a-c:150 e-g:150\n6: a-b:900 h-i:900", "5[e-g] move to 6"},
		{
			"tombstones start what they justify", "1: a-z:1 | a-c:10:60 d-e:10\n2: a-c:1:e100\n6: a-z:9000000",
			"1[a-c] 2[a-c] merge to 2",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := tree(t, c.tree)
			p := tiered{leveled, 3}.Pick(f.shape())
			got := p.text()
			if p != nil && p.NewRun {
				got += ", as a new run"
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestANewRunIsNewerThanItsLevel merges a tombstone and a value into a level that holds older versions of their
// keys: the tombstone must stay, and the value must keep its sequence number.
func TestANewRunIsNewerThanItsLevel(t *testing.T) {
	d := newDisk(t)
	v := d.level(&manifest.Version{}, 1, 10, "a@1=old b@2=old")
	v = d.level(v, 0, 11, "a@3- b@4=new c@5=c")
	p := &Plan{To: 1, NewRun: true, Inputs: []Input{{0, 11, v.Levels[0][0].Tables}}}
	res, err := Run(t.Context(), v, p, d, d.env(1<<20))
	must(t, err)
	if got, want := d.text(res.Tables), "a@3- b@4=new c@0=c"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if v, err = v.Apply(withNext(Edit(v, p, res.Tables, 12))); err != nil {
		t.Fatal(err)
	}
	if runs := v.Levels[1]; len(runs) != 2 || runs[0].ID != 12 || runs[0].Tables[0] != res.Tables[0] {
		t.Errorf("%v, want a second run, as the newest", v)
	}
}

// TestEveryReaderSeesTheHistoryOfATieredTree runs the histories with a second policy.
func TestEveryReaderSeesTheHistoryOfATieredTree(t *testing.T) {
	testHistories(t, 100**long, func(trigger int) Policy {
		return tiered{Leveled{Trigger: trigger, Slow: 8, Stop: 12, Ratio: 2, BaseLevelSize: 4000}, 3}
	})
}
