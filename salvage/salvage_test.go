package salvage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestAnInvalidOptionIsRefusedBeforeAFileIsTouched(t *testing.T) {
	fsys := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		t.Errorf("%v", op)
		return nil
	})
	for want, o := range map[string]bloomkv.Options{
		"BlockSize: 17":       {BlockSize: 17},
		"TableSize: -1":       {TableSize: -1},
		"Compression: 7":      {Compression: 7},
		"LevelRatio: 1":       {LevelRatio: 1},
		"FilterKind: kind 9":  {FilterKind: 9},
		"FilterFPR: 2":        {FilterFPR: 2},
		"FilterMemory: 1":     {FilterMemory: 1},
		"FilterPrefix: ":      {FilterPrefix: bloomkv.PrefixLen(0)},
		"MemoryBudget: 65536": {MemoryBudget: 64 << 10},
	} {
		o.FS = fsys
		_, err := Run(t.Context(), "db", "new", Options{Store: &o})
		if err == nil || !strings.Contains(err.Error(), "option "+want) {
			t.Errorf("error is %v, want it to name option %s", err, want)
		}
	}
}

// TestAReportIsThatOfTheNewStore salvages an intact store with several tables and a log, twice.
func TestAReportIsThatOfTheNewStore(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	db := storetest.Open(t, "db", o)
	for i := range 2000 {
		testkit.Must(t, db.Put(fmt.Appendf(nil, "key%04d", i%1500), make([]byte, 100)))
	}
	testkit.Must(t, db.Sync())
	storetest.AtRest(t, db, mem, "db")
	read := uint64(0)
	names, err := mem.List("db")
	testkit.Must(t, err)
	for _, name := range names {
		if kind, _ := filename.Parse(name); kind == filename.Table || kind == filename.Log {
			info, err := mem.Stat("db/" + name)
			testkit.Must(t, err)
			read += uint64(info.Size())
		}
	}
	crashed := mem.Crash(vfstest.KeepAll)
	o.FS, o.FilterSeed = crashed, 0
	seeds := map[uint64]bool{}
	for _, to := range []string{"new", "again"} {
		done, total := uint64(0), uint64(0)
		r, err := Run(t.Context(), "db", to, Options{Store: o, Progress: func(now, all uint64) {
			if now < done || now > all {
				t.Errorf("%d of %d bytes are read, after %d", now, all, done)
			}
			done, total = now, all
		}})
		testkit.Must(t, err)
		s, err := manifest.Load(crashed, to)
		testkit.Must(t, err)
		seeds[s.Seed] = true
		keys, bytes := uint64(0), uint64(0)
		for _, table := range s.Version.Tables() {
			keys += table.Entries
			bytes += table.Size
		}
		if r.Keys != 1500 || keys != r.Keys || r.Bytes != bytes || done != total || total != read || len(r.Lost) > 0 {
			t.Errorf("%+v of %d keys in %d bytes, %d of %d read, want %d", r, keys, bytes, done, total, read)
		}
	}
	if len(seeds) != 2 || seeds[0] {
		t.Errorf("the seeds of two stores are %v, want two random ones", seeds)
	}
}
