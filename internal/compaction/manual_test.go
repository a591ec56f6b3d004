package compaction

import (
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/manifest"
)

// carry returns the version after a plan that drops nothing, not even tombstones in the last level, as if snapshots
// needed all of it.
func carry(t *testing.T, v *manifest.Version, p *Plan, next *uint64) *manifest.Version {
	t.Helper()
	e := Edit(v, p, nil, 999)
	e.NextFile = 1 << 20
	if !p.Move {
		b := boundsOf(p.Inputs)
		m := &manifest.Table{
			Number: *next, ID: *next, Smallest: b.Lo, Largest: b.Hi,
			Entries: 100, Deletes: 1, TailLen: 1, Size: p.Bytes(),
		}
		switch {
		case b.Hi == nil:
			m.Flags = manifest.LargestInfinite
		case b.Exclusive:
			m.Flags = manifest.LargestExclusive
		}
		*next++
		e = Edit(v, p, []*manifest.Table{m}, 999)
		e.NextFile = 1 << 20
	}
	v, err := v.Apply(e)
	must(t, err)
	return v
}

func bound(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func TestManual(t *testing.T) {
	const whole = "0: a-f:10 | g-h:10\n5: a-c:15 e-g:15 k-l:15\n" +
		"6: a-b:500 c-d:500 e-f:500 g-g:400:7 h-i:400:2 j-j:100 x-z:100:1"
	for _, c := range []struct{ name, tree, lo, hi, want string }{
		{"an empty tree needs nothing", "", "", "", ""},
		{
			"all goes down, level by level, and what is left of tombstones goes, each but once", whole, "", "",
			"0[a-f] 0[g-h] 5[a-c e-g] merge to 5, " +
				"5[a-h k-l] 6[a-b c-d e-f g-g h-i j-j] merge to 6, 6[a-l x-z] merge to 6",
		},
		{"a level without anything in the range is left alone", whole, "m", "w", ""},
		{"the range decides which tombstones go", whole, "m", "", "6[x-z] merge to 6"},
		{
			"both ends belong to the range", "5: a-c:15 e-g:15 k-l:15\n6: a-b:500 d-d:500 e-f:500", "c", "e",
			"5[a-c e-g] 6[a-b d-d e-f] merge to 6, 6[a-g] merge to 6",
		},
		{
			"an exclusive end does not", "5: a-c):15 e-g:15 k-l:15\n6: a-b:500 d-d:500 e-f:500", "c", "e",
			"5[e-g] 6[e-f] merge to 6, 6[e-g] merge to 6",
		},
		{"what overlaps nothing moves", "5: k-l:15\n6: a-b:500", "", "", "5[k-l] move to 6"},
		{
			"a table without end ends the level", "6: a-b:1:1 c-d:1 e-∞:1:r1", "", "",
			"6[a-b] merge to 6, 6[e-∞] merge to 6",
		},
		{
			"an infinite table is gone through once", "4: a-∞:1:r1", "b", "c",
			"4[a-∞] move to 5, 5[a-∞] merge to 6, 6[a-∞] merge to 6",
		},
		{
			"a plan goes on where an exclusive end is", "6: a-c):300000000:1 c-c:1:1", "", "",
			"6[a-c)] merge to 6, 6[c-c] merge to 6",
		},
		{
			"outdated tables of the last level are written anew, and only those",
			"6: a-b:1 c-d:1:o e-f:1:o g-h:1 i-j:1:o", "", "", "6[c-d e-f] merge to 6, 6[i-j] merge to 6",
		},
		{"the range decides which", "6: a-b:1 c-d:1:o e-f:1:o g-h:1 i-j:1:o", "g", "", "6[i-j] merge to 6"},
		{
			"outdated tables that overlap nothing are written anew once, and their neighbours move",
			"4: a-b:1 c-d:1:o e-f:1:o g-h:1\n6: x-z:1", "", "",
			"4[a-b] move to 5, 4[c-d e-f] merge to 5, 4[g-h] move to 5, " +
				"5[a-b] move to 6, 5[c-f] merge to 6, 5[g-h] move to 6, 6[c-f] merge to 6",
		},
		{"the empty key", "6: -:1:1 a-b:1", "", "", "6[-] merge to 6"},
		{"superseded versions count", "6: a-b:1:v c-d:1", "", "", "6[a-b] merge to 6"},
		{
			"large levels take several plans", "5: a-b:200000000 c-d:200000000 e-f:200000000\n6: a-f:1", "", "",
			"5[a-b c-d] 6[a-f] merge to 6, 5[e-f] 6[a-f] merge to 6, 6[a-f] merge to 6",
		},
		{
			"what is below counts", "5: a-b:1 c-d:1 e-f:1\n6: a-b:200000000 c-d:200000000 e-f:200000000", "", "",
			"5[a-b c-d] 6[a-b c-d] merge to 6, 5[e-f] 6[e-f] merge to 6, 6[a-d] merge to 6, 6[e-f] merge to 6",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := tree(t, c.tree)
			policy := leveled
			if c.tree == whole {
				policy.BaseLevelSize = 300 // the base level is 5
			}
			m := &Manual{Lo: bound(c.lo), Hi: bound(c.hi), UpTo: 1 << 40}
			var got []string
			next := uint64(2000)
			for v := f.Version; len(got) < 20; {
				p := m.Next(f.of(v), policy)
				if p == nil {
					break
				}
				got = append(got, p.text())
				v = carry(t, v, p, &next)
				m.Done(p)
			}
			if got := strings.Join(got, ", "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if p := m.Next(f.shape(), policy); p != nil {
				t.Errorf("when all is done it goes on with %s", p.text())
			}
		})
	}
}

// TestARewrite checks that every older table is rewritten into the last level once, and that none is moved there.
func TestARewrite(t *testing.T) {
	f := tree(t, "5: a-b:10\n6: c-d:10 i-j:10 k-l:10:o")
	m := &Manual{UpTo: 2000, Rewrite: true}
	var got []string
	next := uint64(2000)
	for v := f.Version; len(got) < 20; {
		p := m.Next(f.of(v), leveled)
		if p == nil {
			break
		}
		got = append(got, p.text())
		v = carry(t, v, p, &next)
		m.Done(p)
		for _, m := range v.Tables() {
			m.Deletes = 0 // else it would be written once more for its tombstone
		}
	}
	if got, want := strings.Join(got, ", "), "5[a-b] merge to 6, 6[c-d i-j k-l] merge to 6"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAManualCompactionEndsWhileNewDataComesIn(t *testing.T) {
	f := tree(t, "0: a-f:10\n5: a-c:15\n6: a-z:500")
	m := &Manual{UpTo: f.Levels[0][0].ID + 1}
	v, next := f.Version, uint64(2000)
	for i := range 20 {
		p := m.Next(f.of(v), leveled)
		if p == nil {
			if i < 2 {
				t.Errorf("done after %d plans", i)
			}
			return
		}
		if again := m.Next(f.of(v), leveled); again.text() != p.text() {
			t.Errorf("got %s before Done, want %s again", again.text(), p.text())
		}
		v = carry(t, v, p, &next)
		m.Done(p)
		e := &manifest.Edit{NextFile: 1 << 20}
		for _, level := range []int{0, 5} { // a flush, and what the tree itself needs
			m := *f.Levels[5][0].Tables[0]
			m.Number, m.ID = next, next
			next++
			if level == 0 || len(v.Levels[level]) == 0 {
				e.Added = append(e.Added, manifest.Added{Level: level, Run: m.Number, Table: &m})
			}
		}
		var err error
		v, err = v.Apply(e)
		must(t, err)
	}
	t.Error("it does not end")
}
