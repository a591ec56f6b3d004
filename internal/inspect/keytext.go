package inspect

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/words"
)

// drawKey writes what the tables have to say of a key: fences, then what it probes, how the filter answered, and whether that
// was right.
func drawKey(w io.Writer, k *Key) {
	fmt.Fprintf(w, "\n%s\nhash %s\n", words.Cut("key "+k.Key, words.Width), k.Hash)
	for i := range k.Tables {
		drawKeyTable(w, &k.Tables[i])
	}
}

func drawKeyTable(w io.Writer, t *KeyTable) {
	place := "table " + words.Escaped([]byte(t.File), nameLimit)
	if t.Level != nil {
		place = fmt.Sprintf("level %d, run %d: %s", *t.Level, *t.Run, t.File)
	}
	if t.File == "" {
		fmt.Fprintf(w, "\n%sno table reaches over the key\n", place)
		return
	}
	side := "the key is between them"
	if !t.Within {
		side = "the key is not between them: a lookup does not come here"
	}
	fmt.Fprintf(w, "\n%s\n%s\n%s\n  %s\n", place, words.Cut("  fences: "+t.Smallest, words.Width), words.Cut("      to  "+t.end(), words.Width), side)
	for i := range t.Units {
		drawUnitTrace(w, i, &t.Units[i])
	}
	fmt.Fprintf(w, "  the filter says: %s; the table has: %s; so: %s\n", t.Answer, t.found(), t.Verdict)
	if t.Prefix != nil {
		drawKeyPrefix(w, t.Prefix)
	}
}

// end is the upper fence.
func (t *KeyTable) end() string {
	if t.NoEnd {
		return "the end"
	}
	return t.Largest
}

// found is what the table has of the key.
func (t *KeyTable) found() string {
	if t.RangeDeleted {
		return t.Found + ", and a range delete over the key"
	}
	return t.Found
}

// parityName says what a column adds up to.
func parityName(even bool) string {
	if even {
		return "even"
	}
	return "odd"
}

// probeRows are the probes of a key in a Bloom unit.
func probeRows(u *bloomblock.UnitTrace) *grid {
	g := &grid{head: []string{"probe", "bit", "word", "of the word"}}
	for n, p := range u.Probes {
		state := "clear"
		if p.Set {
			state = "set"
		}
		g.add(strconv.Itoa(n), strconv.Itoa(p.Bit), strconv.Itoa(p.Word), fmt.Sprintf("bit %d is %s", p.Bit%64, state))
	}
	return g
}

func drawKeyPrefix(w io.Writer, p *KeyPrefix) {
	if p.Prefix == "" {
		words.Wrapped(w, fmt.Sprintf("  prefix filter by %s: not asked, as the key has no prefix by that rule, or the rule is not known", p.Rule))
		return
	}
	fmt.Fprintf(w, "%s\n  its hash %s\n", words.Cut(fmt.Sprintf("  prefix by %s: %s", p.Rule, p.Prefix), words.Width), p.Hash)
	for i := range p.Units {
		drawUnitTrace(w, i, &p.Units[i])
	}
	has := "no key"
	if p.Found {
		has = "a key"
	}
	words.Wrapped(w, fmt.Sprintf("  the prefix filter says: %s; the table has: %s with that prefix; so: %s", p.Answer, has, p.Verdict))
}

func drawUnitTrace(w io.Writer, i int, u *bloomblock.UnitTrace) {
	if u.Kind == "ribbon" {
		even := make([]string, len(u.Columns))
		for c, ok := range u.Columns {
			even[c] = parityName(ok)
		}
		fmt.Fprintf(w, "  unit %d, Ribbon: hash %s, slot %d, segment at offset %d,\n    columns add up to\n", i, u.Hash, u.Start, u.Offset)
		for len(even) > 0 {
			n := min(12, len(even))
			fmt.Fprintf(w, "    %s\n", strings.Join(even[:n], " "))
			even = even[n:]
		}
		return
	}
	fmt.Fprintf(w, "  unit %d: hash %s, block %d at offset %d\n", i, u.Hash, u.Block, u.Offset)
	g := probeRows(u)
	for _, row := range append([][]string{g.head}, g.rows...) {
		fmt.Fprintf(w, "    %5s  %3s  %4s  %s\n", row[0], row[1], row[2], row[3])
	}
}
