package compaction

import (
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/testkit"
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

func TestManual(t *testing.T) {
	testkit.Script(t, "testdata/manual.txt", func(t *testing.T, input string) string {
		lo, hi, _ := strings.Cut(argument(&input, "range"), "-")
		policy := leveled
		if base := argument(&input, "base"); base != "" {
			scan(t, base, &policy.BaseLevelSize)
		}
		m := &Manual{Lo: bound(lo), Hi: bound(hi), UpTo: 1 << 40}
		if runs := argument(&input, "rewrite"); runs != "" { // below this id
			scan(t, runs, &m.UpTo)
			m.Rewrite = true
		}
		f := tree(t, input)
		var plans []string
		next := uint64(2000)
		for v := f.Version; len(plans) < 20; {
			p := m.Next(f.of(v), policy)
			if p == nil {
				break
			}
			plans = append(plans, p.text())
			v = carry(t, v, p, &next)
			m.Done(p)
			for _, table := range v.Tables() {
				if m.Rewrite {
					table.Deletes = 0 // else it would be written once more for its tombstone
				}
			}
		}
		if p := m.Next(f.shape(), policy); p != nil {
			t.Errorf("when all is done it goes on with %s", p.text())
		}
		return strings.Join(plans, "\n")
	})
}

func bound(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
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
