package tree

import (
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func value(t *testing.T, s *State, key string) string {
	t.Helper()
	v, _, ok := s.Mem.Get([]byte(key), bloomblock.HashKey([]byte(key)), ikey.MaxSeq)
	if !ok {
		t.Fatalf("%s is not in the memtable", key)
	}
	return string(v)
}

// TestTheMemoryOfAMemtableStaysAsLongAsAReference freezes and flushes a memtable while readers hold its states.
func TestTheMemoryOfAMemtableStaysAsLongAsAReference(t *testing.T) {
	tree, _ := newTree(t, vfstest.NewMem())
	put := func(v string) {
		key := []byte("key")
		tree.Load().Mem.Add(key, bloomblock.HashKey(key), 1, ikey.Set, []byte(v))
	}
	put("first")
	one := tree.memory.Lent()
	active := tree.Hold()
	first := active.Mem.Bytes()
	if all, flush := active.MemtableBytes(), active.Unflushed(); all != first || flush != first+VersionBytes {
		t.Errorf("one memtable: %d bytes, %d to flush, want %d and those of a version more", all, flush, first)
	}
	tree.Freeze(nil, 1, batch.Mark{}, 1<<16)
	empty := tree.Load().Mem.Bytes()
	if all, flush := tree.Load().MemtableBytes(), tree.Load().Unflushed(); all != first+empty ||
		flush != first+VersionBytes {
		t.Errorf("beside an empty one: %d bytes, %d to flush, want %d and %d",
			all, flush, first+empty, first+VersionBytes)
	}
	put("second")
	frozen := tree.Hold()
	if all, flush := frozen.MemtableBytes(), frozen.Unflushed(); all != first+frozen.Mem.Bytes() ||
		flush != all+2*VersionBytes {
		t.Errorf("two memtables: %d bytes, %d to flush, want %d and those of two versions more",
			all, flush, first+frozen.Mem.Bytes())
	}
	if _, _, _, err := tree.Install(&manifest.Edit{LastSeq: 1}, nil, Change{Flushed: true}); err != nil {
		t.Fatal(err)
	}
	tree.Domain.Wait()
	expect := func(when string, tables, idle int64) {
		t.Helper()
		if tree.memory.Lent() != tables*one || tree.memory.Idle() > idle*one {
			t.Errorf("%s: %d bytes are lent and %d idle, want %d and at most %d",
				when, tree.memory.Lent(), tree.memory.Idle(), tables*one, idle*one)
		}
	}
	expect("after the flush", 2, 0)
	tree.Release(frozen)
	expect("with a reader of the first state", 2, 0)
	if got := value(t, active, "key"); got != "first" {
		t.Errorf("the first memtable has %q", got)
	}
	tree.Release(active)
	expect("after the last reader", 1, 1)
	last := tree.Hold()
	if tree.End() != last {
		t.Error("End returns another state")
	}
	expect("after End", 1, 1)
	if got := value(t, last, "key"); got != "second" {
		t.Errorf("the last memtable has %q", got)
	}
	tree.Release(last)
	expect("after the last reader of all", 0, 0)
}

// TestIdleMemoryIsThatOfOneMemtable fills memtables of 8 MiB and flushes them. A piece of 2 MiB may be prepared
// meanwhile.
func TestIdleMemoryIsThatOfOneMemtable(t *testing.T) {
	const size = 8 << 20
	tree, _ := newTree(t, vfstest.NewMem())
	defer tree.End()
	seq := ikey.Seq(0)
	fill := func(to int64) {
		for mem := tree.Load().Mem; mem.Bytes() < to; {
			seq++
			key := []byte{byte(seq >> 16), byte(seq >> 8), byte(seq)}
			mem.Add(key, bloomblock.HashKey(key), seq, ikey.Set, make([]byte, 1000))
		}
	}
	tree.Freeze(nil, seq, batch.Mark{}, size)
	for range 3 {
		if _, _, _, err := tree.Install(&manifest.Edit{LastSeq: seq}, nil, Change{Flushed: true}); err != nil {
			t.Fatal(err)
		}
		tree.Domain.Wait()
		if idle := tree.memory.Idle(); idle == 0 || idle > size+2<<20 {
			t.Errorf("%d bytes are idle, want some, at most %d and 2 MiB", idle, size)
		}
		fill(size)
		tree.Freeze(nil, seq, batch.Mark{}, size)
		fill(size / 4)
	}
	most := tree.memory.Lent() + tree.memory.Idle()
	if most > 2*size+4<<20 {
		t.Errorf("the tree has %d bytes for memtables, want at most %d and 4 MiB", most, 2*size)
	}
}
