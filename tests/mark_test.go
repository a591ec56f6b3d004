package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// wantMark checks the newest mark of a store, a snapshot or another holder of a mark.
func wantMark(t *testing.T, what string, mark func() ([]byte, error), want string) {
	t.Helper()
	got, err := mark()
	if err != nil || string(got) != want || (got == nil) != (want == "") {
		t.Errorf("%s: mark %q, nil: %v, %v; want %q", what, got, got == nil, err, want)
	}
}

func marked(mark string, keys ...string) *bloomkv.Batch {
	var b bloomkv.Batch
	b.SetMark([]byte(mark))
	for _, k := range keys {
		b.Put([]byte(k), []byte("of "+mark))
	}
	return &b
}

// TestAMarkStaysThroughAllThatMovesData follows marks through flushes, compactions, copies and new opens.
func TestAMarkStaysThroughAllThatMovesData(t *testing.T) {
	mem := vfstest.NewMem()
	var db *bloomkv.DB
	open := func() {
		t.Helper()
		db = storetest.Open(t, "db", storetest.Tiny(mem))
	}
	reopen := func() {
		t.Helper()
		must(t, db.Close())
		open()
	}
	open()
	wantMark(t, "a new store", db.Mark, "")
	wantMark(t, "a new store", db.DurableMark, "")
	must(t, db.Apply(marked("one", "a", "b")))
	wantMark(t, "after a batch", db.Mark, "one")
	must(t, db.Put([]byte("c"), nil))
	wantMark(t, "after a put", db.Mark, "one")
	must(t, db.Flush(t.Context()))
	wantMark(t, "after a flush", db.Mark, "one")
	reopen()
	wantMark(t, "from the manifest", db.Mark, "one")
	wantMark(t, "from the manifest", db.DurableMark, "one")

	must(t, db.Apply(marked("alone")))
	must(t, db.Flush(t.Context()))
	if n := len(db.Tables()); n != 1 {
		t.Errorf("the flush of a mark alone left %d tables, want the one from before", n)
	}
	reopen()
	wantMark(t, "a mark alone", db.Mark, "alone")

	long := string(bytes.Repeat([]byte{0xfe}, bloomkv.MaxMarkSize))
	must(t, db.Apply(marked(long, "a")))
	before, err := db.Snapshot()
	must(t, err)
	both := marked("two", "d")
	both.Append(marked("three", "e"))
	must(t, db.Apply(both))
	wantMark(t, "the snapshot from before", before.Mark, long)
	wantMark(t, "the last of two marks", db.Mark, "three")
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	wantMark(t, "the snapshot after a compaction", before.Mark, long)
	must(t, before.Close())
	if _, err := before.Mark(); !errors.Is(err, bloomkv.ErrClosed) {
		t.Errorf("Mark of a closed snapshot: %v, want ErrClosed", err)
	}

	must(t, db.Ingest(t.Context(), storetest.PairsOf(map[string]string{"f": "g"}),
		bloomkv.IngestOptions{Mark: []byte("ingested")}))
	wantMark(t, "an ingest", db.Mark, "ingested")
	wantMark(t, "an ingest", db.DurableMark, "ingested")
	must(t, db.Ingest(t.Context(), storetest.PairsOf(map[string]string{"f": "h"}), bloomkv.IngestOptions{}))
	wantMark(t, "an ingest without a mark", db.Mark, "ingested")
	must(t, db.Ingest(t.Context(), storetest.PairsOf(nil), bloomkv.IngestOptions{Mark: []byte("nothing else")}))
	wantMark(t, "an empty ingest", db.DurableMark, "nothing else")

	must(t, db.ApplyWith(marked("copied"), bloomkv.DurabilityNoSync))
	must(t, db.Checkpoint(t.Context(), "copy"))
	digest, err := db.Digest(t.Context(), bloomkv.DigestOptions{})
	must(t, err)
	rebuilt, err := db.Digest(t.Context(), bloomkv.DigestOptions{Rebuild: true})
	must(t, err)
	if string(digest.Mark()) != "copied" || string(rebuilt.Mark()) != "copied" {
		t.Errorf("digests have the marks %q and %q, want that of the store", digest.Mark(), rebuilt.Mark())
	}
	must(t, db.Apply(marked("")))
	wantMark(t, "a removed mark", db.Mark, "")
	wantMark(t, "a removed mark", db.DurableMark, "")
	reopen()
	wantMark(t, "a removed mark", db.Mark, "")
	must(t, db.Close())
	for _, mark := range []func() ([]byte, error){db.Mark, db.DurableMark} {
		if m, err := mark(); !errors.Is(err, bloomkv.ErrClosed) || m != nil {
			t.Errorf("after Close: mark %q, %v, want ErrClosed", m, err)
		}
	}

	o := storetest.Tiny(mem)
	copied := storetest.Open(t, "copy", o)
	wantMark(t, "a checkpoint", copied.Mark, "copied")
	must(t, copied.Close())
}

// TestAReadOnlyStoreShowsTheMarkOfItsLogs opens what a killed process left, whose mark may not be durable.
func TestAReadOnlyStoreShowsTheMarkOfItsLogs(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	must(t, db.ApplyWith(marked("1"), bloomkv.DurabilityNoSync)) // sequence number 1, of one byte
	first := mem.Kill()
	must(t, db.Apply(marked("flushed", "a")))
	must(t, db.Flush(t.Context()))
	flushed := mem.Kill()
	must(t, db.ApplyWith(marked("logged", "b"), bloomkv.DurabilityNoSync))
	logged := mem.Kill()
	must(t, db.ApplyWith(marked(""), bloomkv.DurabilityNoSync))
	removed := mem.Kill()
	must(t, db.Close())
	for _, tt := range []struct {
		fsys    *vfstest.Mem
		want    string
		records int // in one log
	}{{first, "1", 1}, {flushed, "flushed", 0}, {logged, "logged", 1}, {removed, "", 2}} {
		o := storetest.Tiny(tt.fsys)
		o.ReadOnly = true
		db := storetest.Open(t, "db", o)
		wantMark(t, "a store that is only read", db.Mark, tt.want)
		if m, err := db.DurableMark(); m != nil || !errors.Is(err, bloomkv.ErrReadOnly) {
			t.Errorf("DurableMark of a store that is only read: %q, %v, want ErrReadOnly", m, err)
		}
		if err := db.Apply(marked("new")); !errors.Is(err, bloomkv.ErrReadOnly) {
			t.Errorf("SetMark in a store that is only read: %v, want ErrReadOnly", err)
		}
		must(t, db.Close())
		report, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: tt.fsys})
		if err != nil || string(report.Mark) != tt.want || (report.Mark == nil) != (tt.want == "") {
			t.Errorf("Check found the mark %#v, %v, want %q", report.Mark, err, tt.want)
		}
		if report.Records != tt.records || report.Logs != min(1, tt.records) {
			t.Errorf("Check read %d records of %d logs, want %d of one", report.Records, report.Logs, tt.records)
		}
	}
}

// TestAMarkIsDurableOnlyAfterASync writes with DurabilityNoSync. Only what syncs or flushes makes the mark durable.
func TestAMarkIsDurableOnlyAfterASync(t *testing.T) {
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewMem()))
	for i, makeDurable := range []func() error{
		db.Sync,
		func() error { return storetest.PutWith(db, bloomkv.DurabilitySync, []byte("k"), nil) },
		func() error { return db.Flush(t.Context()) },
		func() error { return db.ApplyWith(new(bloomkv.Batch), bloomkv.DurabilitySync) },
		func() error { return db.Compact(t.Context(), bloomkv.CompactOptions{}) },
		func() error {
			return db.Ingest(t.Context(), storetest.PairsOf(map[string]string{"k": "v"}), bloomkv.IngestOptions{})
		},
	} {
		before, err := db.DurableMark()
		must(t, err)
		mark := fmt.Sprint("mark ", i)
		must(t, db.ApplyWith(marked(mark, "a"), bloomkv.DurabilityNoSync))
		wantMark(t, "at once", db.Mark, mark)
		wantMark(t, "at once", db.DurableMark, string(before))
		must(t, makeDurable())
		wantMark(t, fmt.Sprintf("after call %d", i), db.DurableMark, mark)
	}
	must(t, db.Close())
}

func TestAnIngestOfNothingSetsAndRemovesTheMark(t *testing.T) {
	db := storetest.OpenTiny(t)
	for _, mark := range []string{"a", "", "b", ""} {
		o := bloomkv.IngestOptions{Mark: []byte(mark)}
		must(t, db.Ingest(t.Context(), storetest.PairsOf(nil), o))
		must(t, db.Ingest(t.Context(), storetest.PairsOf(nil), bloomkv.IngestOptions{})) // leaves it
		if got, err := db.Mark(); err != nil || string(got) != mark {
			t.Errorf("mark %q, %v, want %q", got, err, mark)
		}
	}
	long := bloomkv.IngestOptions{Mark: make([]byte, bloomkv.MaxMarkSize+1)}
	pairs := storetest.PairsOf(map[string]string{"a": "b"})
	if err := db.Ingest(t.Context(), pairs, long); !errors.Is(err, bloomkv.ErrTooLarge) || len(db.Tables()) > 0 {
		t.Errorf("a mark that is too long: %v, %d tables", err, len(db.Tables()))
	}
	must(t, db.Close())
}

func TestAnIngestOfNothingSetsNoMarkAfterItsContext(t *testing.T) {
	db := storetest.OpenTiny(t)
	ctx, cancel := context.WithCancel(t.Context())
	ends := func(func(bloomkv.KV, error) bool) { cancel() }
	if err := db.Ingest(ctx, ends, bloomkv.IngestOptions{Mark: []byte("m")}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	wantMark(t, "after the context", db.Mark, "")
	must(t, db.Close())
}

func TestAnIngestOfNothingReportsThatTheMarkIsNotDurable(t *testing.T) {
	o := storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && filepath.Ext(op.Name) == ".log" {
			return syscall.EIO
		}
		return nil
	}))
	db := storetest.Open(t, "db", o)
	err := db.Ingest(t.Context(), storetest.PairsOf(nil), bloomkv.IngestOptions{Mark: []byte("m")})
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, want %v", err, syscall.EIO)
	}
	_ = db.Close()
}

// TestMarksAloneDoNotGrowTheLog writes nothing but marks. Logs are replaced as if the memtable had filled.
func TestMarksAloneDoNotGrowTheLog(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.Durability = bloomkv.DurabilityNoSync
	var flushed atomic.Int64
	o.Events.Flushed = func(bloomkv.FlushInfo) { flushed.Add(1) }
	db := storetest.Open(t, "db", o)
	const marks = 5000
	for i := range marks {
		must(t, db.Apply(marked(fmt.Sprintf("mark %200d", i))))
	}
	must(t, db.Flush(t.Context()))
	flushes := int(flushed.Load())
	if written := marks * 250; flushes < written/(4*int(o.MemtableSize)) {
		t.Errorf("%d bytes of marks led to %d flushes of memtables of %d bytes", written, flushes, o.MemtableSize)
	}
	if n := len(db.Tables()); n != 0 {
		t.Errorf("marks alone made %d tables", n)
	}
	must(t, db.Close())
}

// TestAMarkIsNoKey writes the empty key conditionally together with marks: a mark is not taken for it.
func TestAMarkIsNoKey(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", o)
	var wg sync.WaitGroup
	var wins atomic.Int64
	for range 4 {
		wg.Go(func() {
			for i := range 300 {
				if err := db.Apply(marked(strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 300 {
				if ok, err := db.PutIfAbsent(nil, []byte("first")); err != nil {
					t.Error(err)
				} else if ok {
					wins.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if v, err := db.Get(nil); err != nil || string(v) != "first" || wins.Load() != 1 {
		t.Errorf("the empty key is %q, %v, after %d successful writes, want 1", v, err, wins.Load())
	}
	must(t, db.Close())
}

// TestASnapshotHasTheMarkOfItsWrites takes snapshots under writers. Each batch sets the mark to the value of a key.
func TestASnapshotHasTheMarkOfItsWrites(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", o)
	var wg sync.WaitGroup
	var done atomic.Bool
	wg.Go(func() {
		defer done.Store(true)
		for i := range 4000 {
			var b bloomkv.Batch
			v := []byte(strconv.Itoa(i))
			b.Put([]byte("key"), v)
			if b.SetMark(v); i%3 == 0 { // also in a later position
				b.Put([]byte("other"), v)
			}
			if err := db.Apply(&b); err != nil {
				t.Error(err)
			}
		}
	})
	for range 3 {
		wg.Go(func() {
			for !done.Load() {
				mark, _ := db.Mark()
				s, err := db.Snapshot()
				if err != nil {
					t.Error(err)
					return
				}
				exact, _ := s.Mark()
				value, err := s.Get([]byte("key"))
				if err != nil && !errors.Is(err, bloomkv.ErrNotFound) || !bytes.Equal(value, exact) {
					t.Errorf("a snapshot has the mark %q, but the value %q, %v", exact, value, err)
				}
				was, _ := strconv.Atoi(string(mark))
				if is, _ := strconv.Atoi(string(value)); is < was {
					t.Errorf("the mark was %d, and later the value is %d", was, is)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, db.Close())
}

// TestSalvageKeepsAMarkOnlyIfNothingBeforeItIsLost damages a log before and behind the mark, and a table.
func TestSalvageKeepsAMarkOnlyIfNothingBeforeItIsLost(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	must(t, db.Apply(marked("in a table", "a", "b")))
	must(t, db.Flush(t.Context()))
	must(t, db.Put([]byte("before"), bytes.Repeat([]byte("before "), 30)))
	must(t, db.Apply(marked("in a log", "c")))
	before := mem.Kill() // the mark is the last operation
	must(t, db.Put([]byte("behind"), bytes.Repeat([]byte("behind "), 30)))
	killed := mem.Kill()
	must(t, db.Close())
	report, err := salvage.Run(t.Context(), "db", "saved", salvage.Options{Store: storetest.Tiny(before)})
	if err != nil || string(report.Mark) != "in a log" {
		t.Errorf("mark %q, %v; want the last operation of the log", report.Mark, err)
	}
	for _, tt := range []struct{ file, part, want string }{
		{"", "", "in a log"},
		{".log", "before before", ""},
		{".log", "behind behind", "in a log"},
		{".sst", "of in a table", ""},
	} {
		fsys := killed.Kill()
		for name, b := range filesBelow(t, fsys, "db") {
			at := bytes.Index(b, []byte(tt.part))
			if tt.part == "" || at < 0 || filepath.Ext(name) != tt.file {
				continue
			}
			b[at] ^= 1
			must(t, vfs.WriteFileAtomic(fsys, "db", "damaged", name, b))
		}
		report, err := salvage.Run(t.Context(), "db", "saved", salvage.Options{Store: storetest.Tiny(fsys)})
		must(t, err)
		if report.Whole() != (tt.part == "") {
			t.Fatalf("damage in %q: lost %v", tt.part, report.Lost)
		}
		saved := storetest.Open(t, "saved", storetest.Tiny(fsys))
		wantMark(t, "damage in "+tt.part, saved.Mark, tt.want)
		if string(report.Mark) != tt.want || says(report, "The new store has no mark") != (tt.want == "") {
			t.Errorf("damage in %q: the report has the mark %q, want %q; %q", tt.part, report.Mark, tt.want,
				report.Unknown)
		}
		must(t, saved.Close())
	}
}
