package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A listener records events and log records, and calls Metrics at each.
type listener struct {
	mu         sync.Mutex
	db         *bloomkv.DB // nil until Open has returned, and after Close
	flushes    []bloomkv.FlushInfo
	compacted  []bloomkv.CompactionInfo
	ingested   []bloomkv.IngestInfo
	created    []bloomkv.TableInfo
	removed    []bloomkv.TableInfo
	stalls     []bloomkv.StallInfo
	failures   []bloomkv.FailureInfo
	damage     []error
	readOnly   []error
	logged     map[string]int
	wrong      []string // stalls that were logged at another level than their duration demands
	afterClose int
	closed     bool
}

// listen returns a listener and installs it in the options.
func listen(o *bloomkv.Options) *listener {
	l := &listener{logged: map[string]int{}}
	o.Logger = slog.New(l)
	o.Events = bloomkv.Events{
		Flushed:      func(i bloomkv.FlushInfo) { l.hear(func() { l.flushes = append(l.flushes, i) }) },
		Compacted:    func(i bloomkv.CompactionInfo) { l.hear(func() { l.compacted = append(l.compacted, i) }) },
		Ingested:     func(i bloomkv.IngestInfo) { l.hear(func() { l.ingested = append(l.ingested, i) }) },
		TableCreated: func(i bloomkv.TableInfo) { l.hear(func() { l.created = append(l.created, i) }) },
		TableRemoved: func(i bloomkv.TableInfo) { l.hear(func() { l.removed = append(l.removed, i) }) },
		Stalled:      func(i bloomkv.StallInfo) { l.hear(func() { l.stalls = append(l.stalls, i) }) },
		WorkFailed:   func(i bloomkv.FailureInfo) { l.hear(func() { l.failures = append(l.failures, i) }) },
		Damaged:      func(err error) { l.hear(func() { l.damage = append(l.damage, err) }) },
		ReadOnly:     func(err error) { l.hear(func() { l.readOnly = append(l.readOnly, err) }) },
	}
	return l
}

func (l *listener) hear(keep func()) {
	l.mu.Lock()
	keep()
	db := l.db
	if l.closed {
		l.afterClose++
	}
	l.mu.Unlock()
	if db != nil {
		_ = db.Metrics().String()
	}
}

func (l *listener) open(t *testing.T, o *bloomkv.Options) *bloomkv.DB {
	t.Helper()
	db := storetest.Open(t, "db", o)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.db, l.closed = db, false
	return db
}

// close closes the store and fails the test at any later event.
func (l *listener) close(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	db := l.db
	l.mu.Unlock()
	err := db.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !errors.Is(err, bloomkv.ErrReadOnly) {
		t.Error(err)
	}
	l.db, l.closed = nil, true
	t.Cleanup(func() {
		if l.afterClose > 0 {
			t.Errorf("%d events after Close", l.afterClose)
		}
	})
}

func (l *listener) Enabled(context.Context, slog.Level) bool { return true }

func (l *listener) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *listener) WithGroup(string) slog.Handler { return l }

// Handle counts log records by message.
func (l *listener) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logged[r.Message]++
	r.Attrs(func(a slog.Attr) bool {
		if r.Message == "writes stalled" && a.Key == "duration" &&
			(a.Value.Duration() >= 10*time.Millisecond) != (r.Level == slog.LevelInfo) {
			l.wrong = append(l.wrong, fmt.Sprint(r.Level, " ", a))
		}
		return true
	})
	return nil
}

func TestEventsTellAllThatHappensAndOnlyOnce(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	l := listen(o)
	db := l.open(t, o)
	for i := range 4000 {
		must(t, db.Put(fmt.Appendf(nil, "key%05d", i*7919%4000), []byte(strings.Repeat("v", i%100))))
	}
	must(t, db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
		for i := range 1000 {
			if !yield(bloomkv.KV{Key: fmt.Appendf(nil, "kez%05d", i), Value: []byte("value")}, nil) {
				return
			}
		}
	}, bloomkv.IngestOptions{}))
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	storetest.AtRest(t, db, o.FS, "db")
	m := db.Metrics()
	l.close(t)

	var flushed, ingested, read, written, rewritten, moves, merges uint64
	for _, f := range l.flushes {
		flushed += f.Bytes
	}
	for _, i := range l.ingested {
		ingested += i.Bytes
		if i.Versions != 1000 || i.Sequence <= 4000 || i.Duration <= 0 {
			t.Errorf("ingested %+v, want 1000 versions after the 4000, and how long that took", i)
		}
	}
	made := len(l.flushes) // at least one table each
	several := 0           // compactions that merged runs; nothing was dropped, as each key was put once
	for _, c := range l.compacted {
		read += c.BytesRead
		written += c.BytesWritten
		if c.Moved {
			moves += uint64(c.Inputs)
		} else {
			merges++
			made += c.Outputs
			if c.Rewritten {
				rewritten += c.BytesWritten
			} else {
				several++
			}
		}
		if c.To < c.From || c.Inputs == 0 || c.Moved && (c.Inputs != c.Outputs || c.Versions > 0) ||
			c.Dropped > c.Versions || c.Duration <= 0 || c.Rewritten && c.Moved {
			t.Errorf("compacted %+v", c)
		}
	}
	if several == 0 || rewritten != m.Writes.RewrittenBytes {
		t.Errorf("%d of %d compactions merged runs, the others wrote %d bytes, want some, and %d", several, merges,
			rewritten, m.Writes.RewrittenBytes)
	}
	w := m.Writes
	if flushed != w.FlushBytes || uint64(len(l.flushes)) != w.Flushes || ingested != w.IngestBytes || w.Ingests != 1 ||
		read != w.CompactedBytesRead || written != w.CompactedBytes || merges != w.Compactions || moves != w.Moves {
		t.Errorf("events report %d flushes with %d bytes, %d ingested, %d merges of %d bytes into %d, %d moves; "+
			"metrics are\n%v",
			len(l.flushes), flushed, ingested, merges, read, written, moves, m)
	}
	if len(l.created) < made {
		t.Errorf("%d tables created, want at least the %d of flushes and compactions", len(l.created), made)
	}
	for message, want := range map[string]int{
		"flushed": len(l.flushes), "compacted": len(l.compacted), "ingested": 1, "table created": len(l.created),
		"table removed": len(l.removed), "opened": 1, "closed": 1, "writes stalled": len(l.stalls), "damage": 0,
		"background work failed": 0,
	} {
		if l.logged[message] != want {
			t.Errorf("%q was logged %d times, events report %d", message, l.logged[message], want)
		}
	}
	// The tables created and not removed are those that exist.
	left := map[string]uint64{}
	for _, c := range l.created {
		if _, twice := left[c.Path]; twice {
			t.Errorf("%s was created twice", c.Path)
		}
		left[c.Path] = c.Bytes
	}
	for _, r := range l.removed {
		if bytes, there := left[r.Path]; !there || bytes != r.Bytes {
			t.Errorf("%+v was removed, want a created table with %d bytes", r, bytes)
		}
		delete(left, r.Path)
	}
	names, err := o.FS.List("db")
	must(t, err)
	tables := 0
	for _, name := range names {
		if filepath.Ext(name) != ".sst" {
			continue
		}
		tables++
		if info, err := o.FS.Stat(filepath.Join("db", name)); err != nil ||
			left[filepath.Join("db", name)] != uint64(info.Size()) {
			t.Errorf("%s was not reported: %v", name, err)
		}
	}
	if tables == 0 || tables != len(left) {
		t.Errorf("%d tables on the disk, events report %d", tables, len(left))
	}
}

// TestATableIsCreatedOnItsLevel has tables of flushes, a compaction and an import, none of which moves.
func TestATableIsCreatedOnItsLevel(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	l := listen(o)
	db := l.open(t, o)
	check := func(work string, made int) {
		t.Helper()
		var want, got []string
		lowest, highest := lastLevel, 0
		for _, table := range db.Tables() {
			want = append(want, fmt.Sprint(filepath.Join("db", table.File), " on level ", table.Level))
			lowest, highest = min(lowest, table.Level), max(highest, table.Level)
		}
		told := func() bool { // events may come after the call that caused them
			l.mu.Lock()
			defer l.mu.Unlock()
			got = got[:0]
			for _, c := range l.created {
				got = append(got, fmt.Sprint(c.Path, " on level ", c.Level))
			}
			return len(got) == made
		}
		testkit.Soon(t, "all tables are told", told)
		if lowest != 0 || highest != lastLevel {
			t.Errorf("after %s: tables on levels %d to %d", work, lowest, highest)
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("after %s: created were %q, want %s", work, got, w)
			}
		}
	}
	for i := range 3 {
		must(t, errors.Join(db.Put([]byte("k"), nil), db.Flush(t.Context())))
		if i == 1 {
			must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
		}
	}
	check("a compaction and a flush", 4)
	s := exported(t, db, bloomkv.ExportOptions{})
	must(t, db.Import(t.Context(), bytes.NewReader(s), bloomkv.ImportOptions{Replace: true}))
	check("an import", 6)
	l.close(t)
	if n := l.logged["export made"]; n != 1 {
		t.Errorf("%d exports are logged, want 1", n)
	}
}

func TestEventsTellOfTablesThatOpenMakesOfLogs(t *testing.T) {
	mem := vfstest.NewMem()
	db := storetest.Open(t, "db", storetest.Tiny(mem))
	must(t, db.Put([]byte("key"), nil))
	killed := mem.Kill()
	must(t, db.Close())
	o := storetest.Tiny(killed)
	l := listen(o)
	l.open(t, o)
	l.close(t)
	if len(l.created) != 1 || l.created[0].Level != 0 || l.created[0].Entries != 1 || l.logged["log replayed"] != 1 {
		t.Errorf("created %+v, %d logs replayed; want one table of one key, and one log", l.created,
			l.logged["log replayed"])
	}
}

func TestDamageIsToldOncePerPlace(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.Compression, o.TableSize, o.MemtableSize = bloomkv.CompressionNone, 1<<20, 1<<20
	db := storetest.Open(t, "db", o)
	key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
	for i := range 1000 {
		must(t, db.Put(key(i), bytes.Repeat(key(i), 4)))
	}
	must(t, errors.Join(db.Compact(t.Context(), bloomkv.CompactOptions{}), db.Close()))
	names, err := mem.List("db")
	must(t, err)
	name := names[slices.IndexFunc(names, func(n string) bool { return filepath.Ext(n) == ".sst" })]
	storetest.Rewrite(t, mem, filepath.Join("db", name), func(b []byte) []byte {
		b[50] ^= 0x40
		b[10_000] ^= 0x40 // in another block
		return b
	})
	l := listen(o)
	db = l.open(t, o)
	failed := 0
	for range 3 {
		for i := range 1000 {
			if _, err := db.Get(key(i)); errors.Is(err, bloomkv.ErrCorruption) {
				failed++
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if failed < 20 || len(l.damage) != 2 || l.logged["damage"] != 2 {
		t.Errorf("%d lookups failed, %d offsets were reported, %d logged; want many, 2 and 2: %v", failed,
			len(l.damage), l.logged["damage"], l.damage)
	}
	for _, err := range l.damage {
		var c *bloomkv.CorruptionError
		if !errors.As(err, &c) || c.File != name {
			t.Errorf("reported %v, want a CorruptionError with file %s", err, name)
		}
	}
	l.close(t)
}

func TestWorkThatFailsIsToldAndThenThatTheStoreIsReadOnly(t *testing.T) {
	cause := errors.New("the disk is full")
	var full bool
	var mu sync.Mutex
	o := storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if full && storetest.CreatesTable(op) {
			return cause
		}
		return nil
	}))
	l := listen(o)
	db := l.open(t, o)
	must(t, db.Put([]byte("key"), nil))
	mu.Lock()
	full = true
	mu.Unlock()
	if err := db.Flush(t.Context()); !errors.Is(err, bloomkv.ErrReadOnly) || !errors.Is(err, cause) {
		t.Errorf("flush: %v, want ErrReadOnly and the cause", err)
	}
	if err := db.Put([]byte("key"), nil); !errors.Is(err, bloomkv.ErrReadOnly) {
		t.Errorf("put: %v, want ErrReadOnly", err)
	}
	l.close(t)
	for i, f := range l.failures {
		if f.Work != "flush" || f.Attempt != i+1 || !errors.Is(f.Err, cause) {
			t.Errorf("reported %+v, want attempt %d of a flush", f, i+1)
		}
	}
	if len(l.failures) != 4 || len(l.readOnly) != 1 || !errors.Is(l.readOnly[0], cause) ||
		l.logged["read-only from now on"] != 1 || l.logged["background work failed"] != 4 {
		t.Errorf("reported %d failures, and read-only %v; logged %v; want 4 failures, and the cause once",
			len(l.failures), l.readOnly, l.logged)
	}
}

func TestStallsAreToldWithTheirReason(t *testing.T) {
	for _, tt := range []struct {
		name string
		gate storetest.Function // the loop that is stopped
		full func(bloomkv.Metrics) bool
		want []bloomkv.StallReason
	}{
		{
			"compaction is stopped", storetest.CompactLoop,
			func(m bloomkv.Metrics) bool { return m.Levels[0].Runs == stopRuns },
			[]bloomkv.StallReason{bloomkv.StallSlowedByLevel0, bloomkv.StallStoppedByLevel0},
		},
		{
			"flushes are stopped", storetest.FlushLoop,
			func(m bloomkv.Metrics) bool { return m.Work.Memtables == 1 },
			[]bloomkv.StallReason{bloomkv.StallStoppedByMemtable},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys, open := storetest.Gated(vfstest.NewMem(), func(op vfstest.Op) bool {
				return storetest.CreatesTable(op) && storetest.Inside(tt.gate)
			})
			o := storetest.Small(fsys)
			o.Durability = bloomkv.DurabilityNoSync
			l := listen(o)
			db := l.open(t, o)
			done := make(chan error, 1)
			go func() {
				for i := range 2000 {
					if err := db.Put(fmt.Appendf(nil, "%06d", i*7919%2000), make([]byte, 1000)); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			testkit.Soon(t, "writes stop", func() bool {
				return tt.full(db.Metrics()) && storetest.WritesStopped()
			})
			time.Sleep(time.Millisecond) // a stall that is long enough for what is wanted below
			open()
			must(t, <-done)
			storetest.Settle(t, db)
			must(t, db.Put([]byte("the last"), nil)) // an unslowed write ends the stall
			w := db.Metrics().Writes
			l.close(t)
			sums := map[bloomkv.StallReason]bloomkv.StallMetrics{}
			for _, s := range l.stalls {
				sum := sums[s.Reason]
				sum.Count += s.Writes
				sum.Duration += s.Duration
				sums[s.Reason] = sum
				if s.Writes == 0 || s.Duration <= 0 {
					t.Errorf("reported %+v, want some writes and time", s)
				}
			}
			for reason, counted := range map[bloomkv.StallReason]bloomkv.StallMetrics{
				bloomkv.StallSlowedByLevel0: w.SlowedByLevel0, bloomkv.StallStoppedByLevel0: w.StoppedByLevel0,
				bloomkv.StallStoppedByMemtable: w.StoppedByMemtable,
				bloomkv.StallSlowedByMemtable:  w.SlowedByMemtable,
			} {
				if sums[reason] != counted {
					t.Errorf("%v: reported %v, counted %v", reason, sums[reason], counted)
				}
				if slices.Contains(tt.want, reason) && (counted.Count == 0 || counted.Duration < 100*time.Microsecond) {
					t.Errorf("%v: %v, want some", reason, counted)
				}
			}
			if l.logged["writes stalled"] != len(l.stalls) {
				t.Errorf("%d stalls logged, %d reported", l.logged["writes stalled"], len(l.stalls))
			}
			if len(l.wrong) > 0 {
				t.Errorf("logged %q, want stalls of less than 10 ms at level DEBUG, others at INFO", l.wrong)
			}
		})
	}
}

// TestSyncNeedsNoRoom fills the memtable while no flush can run: Sync must still make the writes durable.
func TestSyncNeedsNoRoom(t *testing.T) {
	mem := vfstest.NewMem()
	var opened atomic.Bool
	release := make(chan struct{})
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if opened.Load() && op.Kind == vfstest.OpCreate && strings.HasSuffix(op.Name, ".sst") {
			<-release
		}
		return nil
	})))
	opened.Store(true)
	value := make([]byte, 3000)
	fill := 0 // writes that fill a memtable
	for i := 0; fill == 0 || i < 2*fill; i++ {
		var b bloomkv.Batch
		b.Put(fmt.Append(nil, i), value)
		must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
		if fill == 0 && db.Metrics().Work.Memtables == 1 {
			fill = i
		}
	} // the next write would wait
	testkit.Within(t, "Sync of a full store", func() {
		if err := db.Sync(); err != nil {
			t.Error(err)
		}
	})
	close(release)
	must(t, db.Close())
}

func TestALoggerMayAskForMetrics(t *testing.T) {
	broken := false
	opts := storetest.Small(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if broken && op.Kind == vfstest.OpSync {
			return errors.New("the disk is gone")
		}
		return nil
	}))
	handler := &asking{Handler: slog.DiscardHandler}
	opts.Logger = slog.New(handler)
	db := storetest.Open(t, "db", opts)
	must(t, db.Put([]byte("key"), nil))
	handler.db, broken = db, true
	if err := db.Put([]byte("key"), nil); !errors.Is(err, bloomkv.ErrReadOnly) {
		t.Errorf("got %v, want ErrReadOnly", err)
	}
	if handler.heard == 0 {
		t.Error("nothing was logged")
	}
	handler.db = nil
	if err := db.Close(); !errors.Is(err, bloomkv.ErrReadOnly) {
		t.Errorf("Close: %v, want the cause", err)
	}
}

// asking is a slog.Handler that calls methods of the store at each record.
type asking struct {
	slog.Handler

	db    *bloomkv.DB
	heard int
}

func (a *asking) Enabled(context.Context, slog.Level) bool { return true }

func (a *asking) Handle(context.Context, slog.Record) error {
	if a.db != nil {
		a.heard++
		_ = a.db.Metrics()
	}
	return nil
}
