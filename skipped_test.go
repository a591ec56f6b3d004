package bloomkv_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestBytesReadByCompactionsAreThoseOfTablesThatWereRead deletes a range that covers whole tables, which compactions
// drop without reading them. The numbers in events and Metrics are compared with the reads of each file.
func TestBytesReadByCompactionsAreThoseOfTablesThatWereRead(t *testing.T) {
	files := storetest.LogFiles(vfs.NewMem())
	o := storetest.Tiny(files)
	o.Durability = bloomkv.NoSync
	l := listen(o)
	db := l.open(t, o)
	rng := rand.New(rand.NewPCG(41, 0))
	value := make([]byte, 200)
	for i := range 1500 {
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		if err := db.Put(fmt.Appendf(nil, "key%05d", i*7919%1500), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Compact(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	atRest(t, db)
	heard := func() (read uint64, removed []bloomkv.TableInfo) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.compacted {
			read += c.BytesRead
		}
		return read, append(removed, l.removed...)
	}
	dataEnd := map[string]int64{} // of the current tables
	db.Tree().Load().EachTable(func(_ int, t *tree.Table) {
		dataEnd[t.File.Path] = int64(t.Meta.Size - t.Meta.TailLen - t.Meta.FilterLen)
	})
	before := db.Metrics().Writes
	beforeRead, beforeRemoved := heard()
	if beforeRead != before.CompactedRead {
		t.Errorf("compactions report %d bytes read, Metrics %d", beforeRead, before.CompactedRead)
	}
	files.Take()
	if err := errors.Join(
		db.DeleteRange([]byte("key00200"), []byte("key01200")),
		db.Put([]byte("key00100"), nil), db.Put([]byte("key01300"), nil),
		db.Compact(t.Context(), nil, nil),
	); err != nil {
		t.Fatal(err)
	}
	atRest(t, db)
	opened := map[string]bool{} // tables whose data compaction has read
	for _, op := range files.Take() {
		if end, known := dataEnd[op.Name]; op.Kind == vfs.OpReadAt && op.Compacting && (!known || op.Offset < end) {
			opened[op.Name] = true
		}
	}
	read, removed := heard()
	var want, skipped uint64
	for _, r := range removed[len(beforeRemoved):] {
		if opened[r.Path] {
			want += r.Bytes
		} else {
			skipped += r.Bytes
		}
	}
	if got := read - beforeRead; got != want || want == 0 || skipped == 0 {
		t.Errorf("compactions report %d bytes read, files of %d bytes were read, of %d bytes dropped unread; "+
			"want some of both",
			got, want, skipped)
	}
	if got := db.Metrics().Writes.CompactedRead - before.CompactedRead; got != want {
		t.Errorf("Metrics reports %d bytes read, want %d", got, want)
	}
	l.close(t)
}
