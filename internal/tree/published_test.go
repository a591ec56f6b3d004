package tree

import (
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestAMarkIsVisibleWithItsSequence looks at a mark before and after its sequence is published.
func TestAMarkIsVisibleWithItsSequence(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	want := func(what string, visible, pinned, durable string) {
		t.Helper()
		p, err := tree.Pin()
		must(t, err)
		if m := tree.Mark(); string(m.Bytes) != visible {
			t.Errorf("%s: the mark is %q, want %q", what, m.Bytes, visible)
		}
		if string(p.Mark.Bytes) != pinned {
			t.Errorf("%s: a pin has the mark %q, want %q", what, p.Mark.Bytes, pinned)
		}
		if m := tree.DurableMark(); string(m.Bytes) != durable {
			t.Errorf("%s: the durable mark is %q, want %q", what, m.Bytes, durable)
		}
		must(t, tree.Unpin(p))
	}
	mark := func(seq ikey.Seq, text string) batch.Mark { return batch.Mark{Seq: seq, Bytes: []byte(text)} }
	want("no mark", "", "", "")
	tree.SetMark(mark(2, "two"))
	want("a mark that is not published", "", "", "")
	tree.Publish(3)
	want("a published mark", "two", "two", "")
	tree.Synced()
	want("a synced mark", "two", "two", "two")
	tree.SetMark(mark(5, "five"))
	want("the next mark, not published", "two", "two", "two")
	tree.Publish(5)
	tree.SetMark(mark(6, "six"))
	tree.Publish(6)
	must(t, tree.Record(&manifest.Edit{LastSeq: 6, Mark: mark(5, "five")}))
	want("a mark in the manifest", "six", "six", "five")
	must(t, tree.Record(&manifest.Edit{LastSeq: 6, Mark: mark(2, "two")}))
	want("an older one in the manifest", "six", "six", "five")
	tree.Synced()
	must(t, tree.Record(&manifest.Edit{}))
	want("a synced mark, newer than that of the manifest", "six", "six", "six")
	must(t, tree.Record(&manifest.Edit{LastSeq: 9, Mark: mark(9, "nine")}))
	want("one in the manifest that is not visible", "six", "six", "six")
	if err := tree.Record(&manifest.Edit{LastSeq: 9, Mark: mark(10, "ten")}); err == nil {
		t.Error("a mark above the last sequence was recorded")
	}
}
