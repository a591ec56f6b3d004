package tests

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// sound returns the damage that Check finds.
func sound(t *testing.T, db *bloomkv.DB) error {
	t.Helper()
	_, err := db.Check(t.Context(), bloomkv.CheckOptions{})
	return err
}

// TestShortSessionsKeepFewFiles opens a store, writes one key and closes it, as a cron job or the tool's put does.
func TestShortSessionsKeepFewFiles(t *testing.T) {
	const sessions = 400
	rng := rand.New(rand.NewPCG(3, 5))
	for name, key := range map[string]func(i int) string{
		"ascending keys": func(i int) string { return fmt.Sprintf("%08d", i) },
		"random keys":    func(int) string { return fmt.Sprintf("%08d", rng.IntN(1e8)) },
		"one key":        func(int) string { return "key" },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfstest.NewMem()
			o := &bloomkv.Options{FS: mem, Durability: bloomkv.DurabilityNoSync}
			want, most := map[string]string{}, 0
			for i := range sessions {
				db, err := bloomkv.Open("db", o)
				must(t, err)
				k, v := key(i), strconv.Itoa(i)
				must(t, errors.Join(db.Put([]byte(k), []byte(v)), db.Close()))
				want[k] = v
				most = max(most, tablesOnDisk(t, mem))
			}
			t.Logf("%d sessions: at most %d tables", sessions, most)
			if most > 30 { // level 0 has at most 12 runs, and the level below joins what is small
				t.Errorf("%d table files after a session, want at most 30", most)
			}
			db, err := bloomkv.Open("db", o)
			must(t, err)
			storetest.Settle(t, db)
			if n := db.Metrics().Files.Tables; n > 8 {
				t.Errorf("%d tables once it is settled, want at most 8\n%v", n, db.Metrics())
			}
			must(t, errors.Join(contains(db, want), sound(t, db), db.Close()))
			must(t, holds(mem, "db", want))
		})
	}
}

// TestFlushesAndIngestedTablesOfAFewKeysBecomeFewTables keeps the store open.
func TestFlushesAndIngestedTablesOfAFewKeysBecomeFewTables(t *testing.T) {
	const flushes = 300
	for name, add := range map[string]func(t *testing.T, db *bloomkv.DB, fsys vfs.FS, i int){
		"flushes": func(t *testing.T, db *bloomkv.DB, _ vfs.FS, i int) {
			t.Helper()
			must(t, errors.Join(db.Put(fmt.Appendf(nil, "k%03d", i), []byte("v")), db.Flush(t.Context())))
		},
		"checkpoints": func(t *testing.T, db *bloomkv.DB, _ vfs.FS, i int) {
			t.Helper()
			must(t, db.Put(fmt.Appendf(nil, "k%03d", i), []byte("v")))
			must(t, db.Checkpoint(t.Context(), fmt.Sprintf("checkpoint%d", i)))
		},
		"ingested tables": func(t *testing.T, db *bloomkv.DB, fsys vfs.FS, i int) {
			t.Helper()
			built(t, fsys, "table", i, i+1, "v")
			must(t, errors.Join(db.IngestTables(t.Context(), "table"), fsys.Remove("table")))
		},
		"ranges that replace others": func(t *testing.T, db *bloomkv.DB, _ vfs.FS, i int) {
			t.Helper()
			k := fmt.Appendf(nil, "k%03d", i)
			must(t, db.Put(k, []byte("old")))
			must(t, db.DeleteRange(bloomkv.KeyRange{Lower: k, Upper: append(k, 0)}))
			must(t, errors.Join(db.Flush(t.Context()), db.Put(k, []byte("v"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfstest.NewMem()
			db, err := bloomkv.Open("db", &bloomkv.Options{FS: mem, Durability: bloomkv.DurabilityNoSync})
			must(t, err)
			want := map[string]string{}
			for i := range flushes {
				add(t, db, mem, i)
				want[fmt.Sprintf("k%03d", i)] = "v"
			}
			must(t, db.Flush(t.Context()))
			storetest.Settle(t, db)
			m := db.Metrics()
			in := m.Writes.FlushBytes + m.Writes.IngestBytes
			t.Logf("%d tables, %d bytes flushed or ingested, %d by compactions", m.Files.Tables, in,
				m.Writes.CompactedBytes)
			if m.Files.Tables > 8 || m.Writes.CompactedBytes > 4*in {
				t.Errorf("%d tables, %d bytes flushed or ingested, %d by compactions, want at most 8, and 4 for each",
					m.Files.Tables, in, m.Writes.CompactedBytes)
			}
			must(t, errors.Join(contains(db, want), sound(t, db), db.Close()))
		})
	}
}

// TestSmallTablesAreJoinedOnceAStoreIsOpen makes tables that only become small by a larger TableSize.
func TestSmallTablesAreJoinedOnceAStoreIsOpen(t *testing.T) {
	mem := vfstest.NewMem()
	o := &bloomkv.Options{
		FS: mem, Durability: bloomkv.DurabilityNoSync, TableSize: 16 << 10, Compression: bloomkv.CompressionNone,
	}
	db, err := bloomkv.Open("db", o)
	must(t, err)
	want := map[string]string{}
	for i := range 200 {
		k, v := fmt.Sprintf("%04d", i), string(slices.Repeat([]byte{byte(i)}, 3000))
		must(t, errors.Join(db.Put([]byte(k), []byte(v)), db.Flush(t.Context())))
		want[k] = v
	}
	storetest.Settle(t, db)
	if n := db.Metrics().Files.Tables; n != 200 {
		t.Fatalf("%d tables, want 200 that are not small", n)
	}
	must(t, db.Close())

	o.TableSize, o.ReadOnly = 0, true
	db, err = bloomkv.Open("db", o)
	must(t, err)
	if m := db.Metrics(); !m.Settled || m.Files.Tables != 200 {
		t.Errorf("for a reader, settled %v, %d tables, want all 200 as they are", m.Settled, m.Files.Tables)
	}
	must(t, errors.Join(contains(db, want), db.Close()))

	o.ReadOnly = false
	db, err = bloomkv.Open("db", o)
	must(t, err)
	snapshot, err := db.Snapshot()
	must(t, err)
	before := maps.Clone(want)
	must(t, db.Delete([]byte("0007")))
	delete(want, "0007")
	storetest.Settle(t, db)
	if m := db.Metrics(); m.Files.Tables > 8 || m.Writes.CompactedBytes > 3*m.Levels[len(m.Levels)-1].Bytes {
		t.Errorf("%d tables, %d bytes written, want at most 8, and three for each\n%v", m.Files.Tables,
			m.Writes.CompactedBytes, m)
	}
	must(t, errors.Join(contains(db, want), contains(snapshot, before), snapshot.Close()))
	must(t, errors.Join(sound(t, db), db.Close()))
	must(t, holds(mem, "db", want))
}
