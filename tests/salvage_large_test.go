package tests

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestSalvageOfAGigabyte damages ten blocks of a store of 1 GB, half of which is in overlapping levels, and logs time
// and memory.
func TestSalvageOfAGigabyte(t *testing.T) {
	if !*everywhere {
		t.Skip("writes 2 GB: run it with -everywhere")
	}
	dir := filepath.Join(t.TempDir(), "db")
	const keys = 700_000
	rng := rand.NewChaCha8([32]byte{1})
	value := make([]byte, 1000)
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	key := func(i int) []byte { return binary.BigEndian.AppendUint64([]byte("key"), uint64(i)) }
	if err := db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
		for i := range keys {
			_, _ = rng.Read(value)
			if !yield(bloomkv.KV{Key: key(i), Value: value}, nil) {
				return
			}
		}
	}, bloomkv.IngestOptions{}); err != nil {
		t.Fatal(err)
	}
	var b bloomkv.Batch
	for i := range keys / 2 {
		_, _ = rng.Read(value)
		b.Put(key(i*7919%keys), value)
		if b.Len() == 100 || i == keys/2-1 {
			must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
			b.Reset()
		}
	}
	must(t, db.Close())
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) < 10 {
		t.Fatal(tables, err)
	}
	var size int64
	for _, name := range tables {
		info, err := os.Stat(name)
		must(t, err)
		size += info.Size()
	}
	places := rand.New(rng)
	for i := range 10 {
		f, err := os.OpenFile(tables[i*len(tables)/10], os.O_RDWR, 0)
		must(t, err)
		info, err := f.Stat()
		must(t, err)
		at, one := places.Int64N(info.Size()*9/10), []byte{0}
		if _, err := f.ReadAt(one, at); err != nil {
			t.Fatal(err)
		}
		one[0] ^= 0xff
		if _, err := f.WriteAt(one, at); err != nil {
			t.Fatal(err)
		}
		must(t, f.Close())
	}
	runtime.GC()
	var peak runtime.MemStats
	most, calls := uint64(0), 0
	began := time.Now()
	progress := func(uint64, uint64) {
		storetest.Progress.Add(1)
		if calls++; calls%256 == 0 {
			runtime.ReadMemStats(&peak)
			most = max(most, peak.HeapInuse)
		}
	}
	report, err := salvage.Run(t.Context(), dir, filepath.Join(t.TempDir(), "new"), salvage.Options{Progress: progress})
	if err != nil || len(report.Lost) != 10 || report.Keys < keys-200 || report.Keys > keys {
		t.Errorf("%d keys, want about %d; lost %v, %v", report.Keys, keys, report.Lost, err)
	}
	t.Logf("%d MB in %d tables: %v, at most %d MB of heap in use; %d keys of %d", size>>20, len(tables),
		time.Since(began).Round(time.Millisecond), most>>20, report.Keys, keys)
}

// TestSalvageLosesAValueThatNoStoreTakes forges a value longer than any version has written.
func TestSalvageLosesAValueThatNoStoreTakes(t *testing.T) {
	if !*everywhere {
		t.Skip("takes a gigabyte: run it with -everywhere")
	}
	kind := hostileKinds[2] // without compression
	want := salvagedContents(t, kind, kind.store(t))
	s := kind.store(t)
	lost := 0
	number := s.bottom(0)
	key := s.added(number).Table.Smallest
	s.change(number, func(f *forgedTable) {
		x := &f.blocks[0]
		lost = int(binary.LittleEndian.Uint32(x.payload))
		data := binary.LittleEndian.AppendUint32(nil, 1)
		data = append(binary.LittleEndian.AppendUint32(data, uint32(len(key))), key...)
		data = append(data, make([]byte, -len(data)&7+8)...) // padding, and the head of an empty suffix
		data = append(append(data, 0), make([]byte, batch.MaxValue+1)...)
		x.encode(data, sstable.None)
	})
	fsys := vfstest.NewMem()
	must(t, writeFiles(fsys, "db", s.join()))
	report, err := salvage.Run(t.Context(), "db", "new", salvage.Options{Store: kind.options(fsys)})
	must(t, err)
	db, err := bloomkv.Open("new", kind.options(fsys))
	must(t, err)
	got, err := storetest.Contents(db)
	must(t, errors.Join(err, db.Close()))
	if len(report.Lost) != 1 || len(want)-len(got) > lost || len(got) == len(want) {
		t.Errorf("%d of %d keys are left, lost %v; want those but of one block of %d entries",
			len(got), len(want), report.Lost, lost)
	}
}
