package compaction

import (
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// TestSlices divides the merge of level 0 into the level below, or of level 0 alone if that is empty.
func TestSlices(t *testing.T) {
	testkit.Script(t, "testdata/slices.txt", func(t *testing.T, input string) string {
		var size uint64
		scan(t, argument(&input, "size"), &size)
		f := tree(t, input)
		v := f.shape()
		p := &Plan{To: last, Inputs: append(v.level0Runs(), v.overlapping(last, boundsOf(v.level0Runs()))...)}
		if len(v.Levels[last]) == 0 {
			p.To = 0
		}
		var parts []string
		for _, s := range p.Slices(size) {
			parts = append(parts, s.text())
		}
		return strings.Join(parts, "\n")
	})
}

// TestCuts has a full level 0 of 100 bytes.
func TestCuts(t *testing.T) {
	policy := leveled
	policy.TableSize = 20
	testkit.Script(t, "testdata/cuts.txt", func(t *testing.T, input string) string {
		var old [][]byte
		for field := range strings.FieldsSeq(argument(&input, "old")) {
			old = append(old, []byte(field))
		}
		var keys []string
		for _, key := range policy.Cuts(tree(t, input).Version, old) {
			keys = append(keys, string(key))
		}
		return strings.Join(append(keys, "∎"), " ")
	})
}
