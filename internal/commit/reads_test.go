package commit

import (
	"bytes"
	"errors"
	"strconv"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// TestReadsStandByWhatWasWrittenSince evaluates reads after operations that precede them in their group, and after the
// same operations in the memtable.
func TestReadsStandByWhatWasWrittenSince(t *testing.T) {
	op := func(kind ikey.Kind, key string, value []byte) []byte {
		return batch.AppendOp(nil, kind, []byte(key), value)
	}
	key := func(k string) Reads { return Reads{Keys: [][]byte{[]byte(k)}} }
	ranges := func(bounds ...string) (r Reads) {
		for i := 0; i < len(bounds); i += 2 {
			rg := Range{Lo: []byte(bounds[i])}
			if bounds[i+1] != "" {
				rg.Hi = []byte(bounds[i+1])
			}
			r.Ranges = append(r.Ranges, rg)
		}
		return r
	}
	cut := func(lo, hi string) []byte { return op(ikey.RangeDelete, lo, []byte(hi)) }
	for _, tt := range []struct {
		name   string
		reads  Reads
		ops    []byte
		stands bool
	}{
		{"a put of the key", key("k"), put("k", "v"), false},
		{"a deletion of the key", key("k"), op(ikey.Delete, "k", nil), false},
		{"a put of another key", key("k"), put("k1", "v"), true},
		{"a range over the key", key("k"), cut("j", "l"), false},
		{"a range from the key on", key("k"), cut("k", "l"), false},
		{"a range up to the key", key("k"), cut("a", "k"), true},
		{"a range without an end", key("k"), op(ikey.RangeDelete, "a", nil), false},
		{"a range without an end behind it", key("k"), op(ikey.RangeDelete, "k1", nil), true},
		{"a mark", key(""), op(ikey.Mark, "", []byte("mark")), true},
		{
			"the first of many keys",
			Reads{Keys: [][]byte{[]byte("q"), []byte("a"), []byte("k"), []byte("a")}},
			put("a", "v"), false,
		},
		{"none of many keys", Reads{Keys: [][]byte{[]byte("q"), []byte("a"), []byte("k")}}, put("b", "v"), true},
		{"a key in a range", ranges("b", "f"), put("e", "v"), false},
		{"the lower bound of a range", ranges("b", "f"), put("b", "v"), false},
		{"the upper bound of a range", ranges("b", "f"), put("f", "v"), true},
		{"a key in a range without an end", ranges("b", ""), put("x", "v"), false},
		{"a key between ranges", ranges("m", "p", "b", "f"), put("g", "v"), true},
		{"a key in the later range", ranges("m", "p", "b", "f"), put("n", "v"), false},
		{"a key in ranges that overlap", ranges("b", "f", "a", "z", "c", "d"), put("y", "v"), false},
		{"a key in a range that has no end", ranges("b", "", "a", "c", "d", "e"), put("y", "v"), false},
		{"a key behind ranges that touch", ranges("b", "d", "d", "f"), put("f", "v"), true},
		{"a range over part of a range", ranges("b", "f"), cut("e", "z"), false},
		{"a range behind a range", ranges("b", "f"), cut("f", "z"), true},
		{"a range before a range", ranges("b", "f"), cut("a", "b"), true},
		{"a range inside a range", ranges("b", "f"), cut("c", "d"), false},
	} {
		for _, where := range []string{"group", "memtable"} {
			s := newStore(t)
			for _, k := range []string{"b", "k", "n"} { // older versions do not count
				must(t, s.Commit(append(put(k, "old"), cut("y", "z")...), 2, false))
			}
			now, err := s.Tree.Now()
			must(t, err)
			r := tt.reads
			r.At, r.seen = now, now
			r.sort()
			ops := tt.ops
			if where == "memtable" {
				must(t, s.Commit(ops, 1, false))
				ops = nil
			}
			if got, err := s.unchanged(&r, ops); err != nil || got != tt.stands || s.asked != 0 {
				t.Errorf("%s, in the %s: %v, %v, want %v; asked %d times", tt.name, where, got, err, tt.stands, s.asked)
			}
			s.Tree.Release(now.State)
			s.close(t)
		}
	}
}

// TestReadsAreRepeatedBeforeTheCommitQueues freezes two memtables between the reads and their commit.
func TestReadsAreRepeatedBeforeTheCommitQueues(t *testing.T) {
	for _, changed := range []bool{false, true} {
		s := newStore(t)
		must(t, s.Commit(put("key", "v"), 1, false))
		now, err := s.Tree.Now()
		must(t, err)
		r := Reads{At: now, Keys: [][]byte{[]byte("key"), []byte("other")}, Ranges: []Range{{Lo: []byte("a")}}}
		for range 2 {
			s.flush(t)
			must(t, s.Commit(put("other", "v"), 1, false))
			_, err := s.Freeze(t.Context())
			must(t, err)
		}
		s.changed = changed
		stood, err := s.CommitReads(put("own", "v"), 1, false, &r)
		if want := map[bool]int{false: 3, true: 1}[changed]; err != nil || stood == changed || s.asked != want {
			t.Errorf("changed: %v: stood %v, %v after %d questions, want %d", changed, stood, err, s.asked, want)
		}
		if got := s.Counts().Groups; got != map[bool]uint64{false: 4, true: 3}[changed] {
			t.Errorf("changed: %v: %d records", changed, got)
		}
		mem := s.Tree.View().Flushing.Mem
		mem.Hold()
		s.Tree.Release(now.State)
		s.flush(t)
		s.Tree.Domain.Wait()
		if !mem.Release() {
			t.Errorf("changed: %v: a state is held after the commit", changed)
		}
		s.close(t)
	}
}

// TestReadsAreNotRepeatedIfMemtablesTell changes the state in several ways after reads of a key and a range.
func TestReadsAreNotRepeatedIfMemtablesTell(t *testing.T) {
	write := func(key string) func(*store) {
		return func(s *store) { must(t, s.Commit(put(key, "v"), 1, false)) }
	}
	freeze := func(s *store) {
		_, err := s.Freeze(t.Context())
		must(t, err)
	}
	flush := func(s *store) { s.flush(t) }
	ingest := func(s *store) {
		s.lastSeq++
		_, _, _, err := s.Tree.Install(&manifest.Edit{LastSeq: s.lastSeq}, nil, tree.Change{Seq: s.lastSeq})
		must(t, err)
	}
	for _, c := range []struct {
		name         string
		since        []func(*store)
		tell, stands bool
	}{
		{"a memtable was frozen", []func(*store){freeze}, true, true},
		{"and flushed", []func(*store){freeze, flush}, true, true},
		{"with a key outside", []func(*store){write("x"), freeze, flush, write("y")}, true, true},
		{"after a put of the key", []func(*store){write("key"), freeze}, true, false},
		{"after one that was flushed", []func(*store){write("key"), freeze, flush}, true, false},
		{"before a put of the key", []func(*store){freeze, write("key")}, true, false},
		{"before a put in the range", []func(*store){freeze, flush, write("ab")}, true, false},
		{"two were frozen", []func(*store){freeze, flush, write("x"), freeze}, false, true},
		{"with a put of the key between them", []func(*store){freeze, flush, write("key"), freeze, flush}, false, true},
		{"an ingest", []func(*store){ingest}, false, true},
	} {
		s := newStore(t)
		must(t, s.Commit(put("older", "v"), 1, false))
		now, err := s.Tree.Now()
		must(t, err)
		for _, f := range c.since {
			f(s)
		}
		r := Reads{At: now, seen: now, Keys: [][]byte{[]byte("key")}, Ranges: []Range{{[]byte("a"), []byte("b")}}}
		asked := map[bool]int{true: 0, false: 2}
		if same, err := s.unchanged(&r, nil); err != nil || same != c.stands || s.asked != asked[c.tell] {
			t.Errorf("%s: unchanged %v, %v after %d questions, want %v after %d",
				c.name, same, err, s.asked, c.stands, asked[c.tell])
		}
		s.asked = 0
		if done, err := s.CommitReads(put("own", "v"), 1, false, &r); err != nil || done != c.stands ||
			s.asked != asked[c.tell] {
			t.Errorf("%s: committed %v, %v after %d questions, want %v after %d",
				c.name, done, err, s.asked, c.stands, asked[c.tell])
		}
		s.Tree.Release(now.State)
		s.flush(t)
		s.close(t)
	}
}

func TestReadsThatCannotBeRepeatedAreAnError(t *testing.T) {
	s := newStore(t)
	now, err := s.Tree.Now()
	must(t, err)
	for range 2 { // or memtables would tell
		s.flush(t)
		must(t, s.Commit(put("key", "v"), 1, false))
		_, err = s.Freeze(t.Context())
		must(t, err)
	}
	s.err = syscall.EIO
	for name, r := range map[string]Reads{
		"a key":   {At: now, Keys: [][]byte{[]byte("key")}},
		"a range": {At: now, Ranges: []Range{{Lo: []byte("a")}}},
	} {
		if stood, err := s.CommitReads(put("own", "v"), 1, false, &r); stood || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: committed: %v, %v, want %v", name, stood, err, syscall.EIO)
		}
		r.seen = now
		if stand, err := s.unchanged(&r, nil); stand || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s, in its turn: unchanged: %v, %v, want %v", name, stand, err, syscall.EIO)
		}
	}
	if _, err := (&Reads{}).touchedBy([]byte{99}); err == nil {
		t.Error("invalid operations were skipped")
	}
	s.Tree.Release(now.State)
	s.flush(t)
	s.close(t)
}

// TestReadsOfAnOlderStateAreRepeated has reads between the sequence of an ingest and its state.
func TestReadsOfAnOlderStateAreRepeated(t *testing.T) {
	s := newStore(t)
	must(t, s.Commit(put("key", "v"), 1, false))
	now, err := s.Tree.Now()
	must(t, err)
	s.lastSeq++
	_, _, _, err = s.Tree.Install(&manifest.Edit{LastSeq: s.lastSeq}, nil, tree.Change{Seq: s.lastSeq})
	must(t, err)
	now.Seq = s.lastSeq
	s.changed = true
	r := Reads{At: now, Keys: [][]byte{[]byte("key")}, seen: now}
	if stands, err := s.unchanged(&r, nil); err != nil || stands || s.asked != 1 {
		t.Errorf("reads of another state stand: %v, %v after %d questions, want 1", stands, err, s.asked)
	}
	s.Tree.Release(now.State)
	s.flush(t)
	s.close(t)
}

// TestTheFirstOfAGroupThatReadsTheSameWins commits a group of transactions that have read and write one key.
func TestTheFirstOfAGroupThatReadsTheSameWins(t *testing.T) {
	s := newStore(t)
	now, err := s.Tree.Now()
	must(t, err)
	var group []*commit
	for i := range 3 {
		r := &Reads{At: now, Keys: [][]byte{[]byte("key")}}
		r.seen = now
		group = append(group, &commit{ops: put("key", strconv.Itoa(i)), count: 1, reads: r})
	}
	group = append(group, &commit{ops: put("other", "v"), count: 1})
	must(t, s.commitGroup(group, 100, false))
	for i, c := range group[:3] {
		if c.satisfied != (i == 0) || c.err != nil {
			t.Errorf("commit %d of the group: satisfied %v, %v", i, c.satisfied, c.err)
		}
	}
	v, _, _ := s.Tree.Load().Mem.Get([]byte("key"), s.Hash([]byte("key")).Mixed, ikey.MaxSeq)
	if !bytes.Equal(v, []byte("0")) || s.Tree.NewestSeq() != 2 {
		t.Errorf("the key is %q at sequence %d, want that of the first", v, s.Tree.NewestSeq())
	}
	s.Tree.Release(now.State)
	s.close(t)
}
