package bloomkv

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
)

// TestTablesThatOnlyMoveKeepNoMoreFilterThanTheirLevelNeeds loads keys in order, so that no table is ever rewritten.
func TestTablesThatOnlyMoveKeepNoMoreFilterThanTheirLevelNeeds(t *testing.T) {
	for _, kind := range []FilterKind{FilterBloom, FilterRibbon} {
		o := tiny(vfs.NewMem())
		o.Durability, o.FilterKind, o.MemtableSize, o.TableSize, o.LevelRatio, o.BaseLevelSize = NoSync, kind, 1<<20,
			1<<20, 10, 1<<20
		db, err := Open("db", o)
		if err != nil {
			t.Fatal(err)
		}
		const keys = 300_000
		value := make([]byte, 60)
		for i := range uint64(keys) {
			if err := db.Put(binary.BigEndian.AppendUint64(nil, i), value); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		settle(t, db)
		soon(t, "it is warm", func() bool { return db.Metrics().Warm })
		m := db.Metrics()
		if m.Writes.Moves == 0 || m.Writes.CompactedBytes > 0 {
			t.Fatalf("%d tables moved, %d bytes rewritten: want only moves", m.Writes.Moves, m.Writes.CompactedBytes)
		}
		want := 0.0
		for l, level := range m.Levels {
			want += float64(level.Entries) * db.share.Plans().Now.Levels[l].Params.BitsPerKey() / 8
		}
		got := float64(m.Memory.Filters)
		t.Logf("kind %d: %.2f bits a key in memory, by the plan %.2f", kind, 8*got/keys, 8*want/keys)
		if got > 1.15*want {
			t.Errorf("kind %d: filters take %.0f bytes, want at most 1.15 × %.0f\n%v", kind, got, want, m)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAPlanOfATreeIsThatOfItsLevels compares PlanTree with PlanFilters for trees at rest, and checks plans with keys in
// level 0.
func TestAPlanOfATreeIsThatOfItsLevels(t *testing.T) {
	for _, o := range []*Options{
		nil,
		{FilterFPR: 0.3},
		{FilterFPR: 1},
		{FilterFPR: 0.001, FilterKind: FilterRibbon, LevelRatio: 4},
		{FilterMemory: 2 << 20},
		{FilterMemory: 8 << 20, FilterKind: FilterRibbon},
	} {
		fpr, rest, err := PlanFilters(3_000_000, 3, o)
		if err != nil {
			t.Fatal(err)
		}
		keys := make([]uint64, 7)
		for _, l := range rest {
			keys[l.Level] = l.Keys
		}
		got, tree, err := PlanTree(keys, o)
		if err != nil || got != fpr || len(tree) != 7 {
			t.Fatalf("%+v: rate %g, %d levels, %v; want %g, 7", o, got, len(tree), err, fpr)
		}
		for _, want := range rest {
			got := tree[want.Level]
			if got.Bytes-want.Bytes+1 > 2 || got.Predicted != want.Predicted || got.Keys != want.Keys ||
				got.Ribbon != want.Ribbon {
				t.Errorf("%+v: %+v, want %+v", o, got, want)
			}
		}
		if o != nil && o.FilterMemory > 0 {
			continue
		}
		keys[0] = 100_000
		_, with, err := PlanTree(keys, o)
		if err != nil || with[6].Predicted != tree[6].Predicted ||
			with[0].Bytes != uint64(100_000*with[0].BitsPerKey/8+0.5) {
			t.Errorf("%+v: with keys in level 0: %+v, %v", o, with, err)
		}
	}
	// The keys of level 0 soon move to the last level: memory is divided as if they were there, and units that do not
	// fit are left out.
	for _, few := range []uint64{1_000, 50_000, 1_000_000} {
		memory := int64(few+1_000_000) * 6 / 8
		fpr, tree, err := PlanTree([]uint64{few, 0, 0, 0, 0, 0, 1_000_000}, &Options{FilterMemory: memory})
		if err != nil {
			t.Fatal(err)
		}
		if sum := int64(tree[0].Bytes + tree[6].Bytes); sum > memory || sum < memory/2 ||
			tree[0].BitsPerKey < tree[6].BitsPerKey {
			t.Errorf("rate %g: level 0 %+v, last level %+v; want at most %d bytes", fpr, tree[0], tree[6], memory)
		}
		t.Logf("%d keys in level 0: rate %g, %.4g predicted", few, fpr, tree[0].Predicted+tree[6].Predicted)
		if tree[0].Predicted+tree[6].Predicted > fpr || fpr > 0.3 {
			t.Errorf("rate %g: level 0 %+v, last level %+v", fpr, tree[0], tree[6])
		}
	}
	for _, bad := range []struct {
		keys []uint64
		o    *Options
		want string
	}{
		{make([]uint64, 8), nil, "8 levels, a store has 7"},
		{[]uint64{0, 0, 0, 0, 0, 0, 1 << 30}, &Options{FilterMemory: 1 << 20}, "filters of 1073741824 keys take "},
		{nil, &Options{FilterFPR: 1e-30}, "FilterFPR"},
		{nil, &Options{FilterFPR: 0.1, FilterMemory: 1 << 20}, "FilterMemory"},
	} {
		if _, _, err := PlanTree(bad.keys, bad.o); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, %+v: %v, want %q", bad.keys, bad.o, err, bad.want)
		}
	}
}
