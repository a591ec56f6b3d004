package bloomkv_test

import (
	"encoding/binary"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestTablesThatOnlyMoveKeepNoMoreFilterThanTheirLevelNeeds loads keys in order, so that no table is ever rewritten.
func TestTablesThatOnlyMoveKeepNoMoreFilterThanTheirLevelNeeds(t *testing.T) {
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		o := storetest.Tiny(vfs.NewMem())
		o.Durability, o.FilterKind, o.MemtableSize, o.TableSize, o.LevelRatio, o.BaseLevelSize = bloomkv.NoSync, kind,
			1<<20,
			1<<20, 10, 1<<20
		db, err := bloomkv.Open("db", o)
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
		storetest.Settle(t, db)
		storetest.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
		m := db.Metrics()
		if m.Writes.Moves == 0 || m.Writes.CompactedBytes > 0 {
			t.Fatalf("%d tables moved, %d bytes rewritten: want only moves", m.Writes.Moves, m.Writes.CompactedBytes)
		}
		want := 0.0
		for l, level := range m.Levels {
			want += float64(level.Entries) * db.Share().Plans().Now.Levels[l].Params.BitsPerKey() / 8
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
