package commit

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/deadkeys"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tablefile"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var must = testkit.Must

// A store is a writer on a tree without tables. tables has values of keys that would be in tables.
type store struct {
	Writer

	tables  map[string]string
	changed bool // what SameKey and SameRange deny
	err     error
	asked   int // calls of these
	stalls  []Stall
	stalled func() // called for each of them, unless it is nil
	steps   int    // pressure
}

func (s *store) Stalled(stall Stall) {
	if s.stalls = append(s.stalls, stall); s.stalled != nil {
		s.stalled()
	}
}

func (s *store) ReadOnly(error)                         {}
func (s *store) Hash(key []byte) bloomblock.SeededHash  { return s.Seed.Hash(bloomblock.HashKey(key)) }
func (s *store) Pick(compaction.Shape) *compaction.Plan { return nil }
func (s *store) Pressure(*manifest.Version) compaction.Pressure {
	return compaction.Pressure{Slow: s.steps}
}
func (s *store) Cuts(*manifest.Version, [][]byte) [][]byte          { return nil }
func (s *store) Backlog(v *manifest.Version) (b compaction.Backlog) { return b }

func (s *store) Compare(key, old []byte) (bool, error) {
	var value []byte
	if v, ok := s.tables[string(key)]; ok {
		value = []byte(v)
	}
	mem := s.Tree.Load().Mem
	last := ikey.Seq(0)
	if d := mem.RangeDels(); d != nil {
		if last = d.Covering(key, ikey.MaxSeq); last > 0 {
			value = nil
		}
	}
	if v, trailer, ok := mem.Get(key, s.Hash(key).Mixed, ikey.MaxSeq); ok && trailer.Seq() > last {
		value = nil
		if trailer.Kind() == ikey.Set {
			value = append([]byte{}, v...)
		}
	}
	return (value == nil) == (old == nil) && bytes.Equal(value, old), nil
}

func (s *store) SameKey([]byte, tree.Moment, tree.Moment) (bool, error) {
	s.asked++
	return !s.changed, s.err
}

func (s *store) SameRange([]byte, []byte, tree.Moment, tree.Moment) (bool, error) {
	s.asked++
	return !s.changed, s.err
}

func newStore(t *testing.T) *store {
	t.Helper()
	fsys := vfstest.NewMem()
	must(t, fsys.Mkdir("db"))
	s, domain := &store{tables: map[string]string{}}, new(epoch.Domain)
	s.Tree = tree.New(tree.Config{
		FS: fsys, Dir: "db", Failed: s.ReadOnly, Filters: manifest.Filters{FPR: 0.01, Ratio: 10},
		Shared: tree.Shared{
			Domain: domain, Files: tablefile.NewPool(8).NewDir(fsys, "db", domain), Blocks: cache.New(1<<20, domain),
			Parts: sstable.NewPartPool(1 << 20),
		},
	})
	must(t, s.Tree.Create(1, 7))
	s.Tree.Begin(s.Tree.FirstState(nil, 1<<16), 0)
	s.Init(Config{
		FS: fsys, Dir: "db", Tree: s.Tree, Policy: s, MemtableSize: 1 << 16, Seed: 7,
		Values: s, DeadKeys: new(deadkeys.Ranges), Stalled: s.Stalled,
	})
	return s
}

func (s *store) close(t *testing.T) {
	t.Helper()
	s.Tree.Close()
	must(t, s.Close())
	if err := s.Tree.CloseManifest(s.Tree.End()); err != nil {
		t.Error(err)
	}
}

func put(k, v string) []byte { return batch.AppendOp(nil, ikey.Set, []byte(k), []byte(v)) }

// TestAConditionHoldsByWhatItsGroupWroteBefore evaluates a condition after the preceding operations of its group, for a
// key in the memtable, in a table, or absent.
func TestAConditionHoldsByWhatItsGroupWroteBefore(t *testing.T) {
	s := newStore(t)
	s.tables["table"] = "v"
	must(t, s.Commit(put("mem", "v"), 1, true))
	del := func(k string) []byte { return batch.AppendOp(nil, ikey.Delete, []byte(k), nil) }
	cut := func(lo, hi string) []byte {
		if hi == "" {
			return batch.AppendOp(nil, ikey.RangeDelete, []byte(lo), nil)
		}
		return batch.AppendOp(nil, ikey.RangeDelete, []byte(lo), []byte(hi))
	}
	group := func(ops ...[]byte) []byte { return bytes.Join(ops, nil) }
	for _, tt := range []struct {
		name string
		ops  func(k string) []byte
		then string // the value that the group leaves, "-" for none, "=" for the previous one
	}{
		{"nothing", func(string) []byte { return nil }, "="},
		{"other keys", func(k string) []byte { return group(put(k+"x", "o"), del(k[:1]), put("", "o")) }, "="},
		{"a put", func(k string) []byte { return put(k, "n") }, "n"},
		{"two puts", func(k string) []byte { return group(put(k, "m"), put(k, "n")) }, "n"},
		{"an empty value", func(k string) []byte { return put(k, "") }, ""},
		{"a deletion", del, "-"},
		{"a deletion, then a put", func(k string) []byte { return group(del(k), put(k, "n")) }, "n"},
		{"a put, then a deletion", func(k string) []byte { return group(put(k, "n"), del(k)) }, "-"},
		{"a range around it", func(string) []byte { return cut("a", "z") }, "-"},
		{"a range from it on", func(k string) []byte { return cut(k, k+"\x00") }, "-"},
		{"a range without an end", func(k string) []byte { return cut(k, "") }, "-"},
		{"all", func(string) []byte { return cut("", "") }, "-"},
		{"a range that ends before it", func(k string) []byte { return cut("a", k) }, "="},
		{"a range that begins after it", func(k string) []byte { return cut(k+"\x00", "") }, "="},
		{"a range, then a put", func(k string) []byte { return group(cut("a", "z"), put(k, "n")) }, "n"},
		{"a put, then a range", func(k string) []byte { return group(put(k, "n"), cut("a", "z")) }, "-"},
		{"a put, then a range elsewhere", func(k string) []byte { return group(put(k, "n"), cut(k+"\x00", "")) }, "n"},
	} {
		for key, before := range map[string]string{"mem": "v", "table": "v", "nowhere": "-"} {
			then := tt.then
			if then == "=" {
				then = before
			}
			for _, old := range []string{"-", "v", "n", "m", ""} {
				when := &condition{
					key: []byte(key), hash: s.Hash([]byte(key)), state: s.Tree.Load(), seq: s.Tree.NewestSeq(),
				}
				if old != "-" {
					when.old = []byte(old)
				}
				first, err := s.Compare(when.key, when.old)
				if err != nil || first != (old == before) {
					t.Fatalf("key %s is %q: %v, %v", key, old, first, err)
				}
				if !first && (len(tt.ops(key)) == 0 || then == before) {
					continue // holds is called only if the first check passed or the group may change the key
				}
				if got, err := s.holds(when, tt.ops(key)); err != nil || got != (old == then) {
					t.Errorf("%s, %s which was %q: wants %q: %v, %v, want %v", tt.name, key, before, old, got, err,
						old == then)
				}
			}
		}
	}
	if _, err := s.holds(&condition{key: []byte("k")}, []byte{99}); err == nil {
		t.Error("invalid operations were skipped")
	}
	s.close(t)
}

// TestAnObserverThatDoesNotReturnStopsNoOtherWriter has one that panics, or ends its goroutine, in a write.
func TestAnObserverThatDoesNotReturnStopsNoOtherWriter(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("end") }, "Goexit": runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t)
			s.steps = 1
			for range 40 { // delayed
				must(t, s.Commit(put("key", strings.Repeat("v", 1000)), 1, false))
			}
			s.steps, s.stalled = 0, end // the delays end, and are reported
			errs := make(chan error)
			go func() {
				defer close(errs)
				defer func() { _ = recover() }()
				errs <- s.Commit(put("key", "v"), 1, false)
			}()
			if err, returned := <-errs; returned {
				t.Errorf("%s: the write returns %v", name, err)
			}
			s.stalled = nil
			if err := s.Commit(put("key", "v"), 1, false); !errors.Is(err, tree.ErrReadOnly) {
				t.Errorf("%s: the next write: %v, want %v", name, err, tree.ErrReadOnly)
			}
			s.Tree.Close()
			must(t, s.Close())
		})
	}
}

// TestDelaysFollowWhatWritersTookForAMemtable looks at the delay for each KiB after a memtable of 1,024 KiB.
func TestDelaysFollowWhatWritersTookForAMemtable(t *testing.T) {
	const us = time.Microsecond
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		for _, tt := range []struct {
			took, waited time.Duration
			steps        int
			want         time.Duration
		}{
			{1024 * 20 * us, 0, 1, 20 * us},
			{1024 * 50 * us, 1024 * 30 * us, 1, 20 * us},
			{1024 * 20 * us, 0, 2, 80 * us},
			{1024 * 20 * us, 0, 3, 320 * us},
			{1024 * 20 * us, 0, 9, 320 * us},
			{time.Microsecond, 0, 1, levelLeast},
			{time.Hour, 0, 1, levelMost},
			{time.Hour, time.Minute, 0, 0},
		} {
			s.pace = pace{began: time.Now(), bytes: 1 << 20}
			time.Sleep(tt.took)
			s.stall(SlowedByLevel0, tt.waited)
			s.pace.rotated()
			s.steps = tt.steps
			if got := s.levelDelay(); got != tt.want {
				t.Errorf("%v with %v of waits, at step %d: %v, want %v", tt.took, tt.waited, tt.steps, got, tt.want)
			}
		}
		if s.pace.waited != 0 || s.pace.lastBytes != 1<<20 {
			t.Errorf("the next memtable begins with %+v", s.pace)
		}
		s.steps = 0
		s.close(t)
	})
}

// TestAWriteIsSlowedByItsSizeUpToItsCap delays groups of writes under growing pressure, in a synctest bubble.
func TestAWriteIsSlowedByItsSizeUpToItsCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		took := func(size int64) time.Duration {
			s.mu.Lock()
			defer s.mu.Unlock()
			began := time.Now()
			s.slowDown(size)
			return time.Since(began)
		}
		if d := took(100 << 20); d != 0 || len(s.stalls) != 0 {
			t.Errorf("without pressure, a write waits %v, want 0; stalls: %v", d, s.stalls)
		}
		for s.steps = 1; s.steps < 4; s.steps++ {
			per := 8 * time.Microsecond << (2 * (s.steps - 1)) // per KiB
			const kib = 100
			began := time.Now()
			must(t, s.Commit(put("key", string(make([]byte, kib<<10))), 1, false))
			if d, want := time.Since(began), kib*per; d < want || d > want+want/20 {
				t.Errorf("at step %d, 100 KiB take %v, want %v", s.steps, d, want)
			}
			synctest.Wait()
			s.flush(t)
			sum, want := time.Duration(0), 100*per
			for range 200 { // delays too short for a sleep add up
				sum += took(512)
			}
			if short := 200 * time.Microsecond; sum < want-2*short || sum > want+want/5+2*short {
				t.Errorf("at step %d, 200 times 512 bytes take %v, want %v", s.steps, sum, want)
			}
			if d := took(40 << 20); d != 100*time.Millisecond {
				t.Errorf("at step %d, 40 MiB take %v, want the cap of 100ms", s.steps, d)
			}
			if d := took(1 << 10); d > time.Millisecond {
				t.Errorf("at step %d, the next KiB takes %v: it must not pay for the write before", s.steps, d)
			}
		}
		s.steps = 0
		took(1)
		counted := s.Counts().Stalls[SlowedByLevel0]
		if len(s.stalls) != 1 || s.stalls[0] != (Stall{SlowedByLevel0, counted.Writes, counted.Duration}) {
			t.Errorf("reported %v, want one spell with all that was counted: %v", s.stalls, counted)
		}
		s.pace.debt, s.pace.spell.Reason = -10*time.Millisecond, SlowedByMemtable
		if s.steps = 1; took(1<<20) < 8*time.Millisecond {
			t.Error("a write is not slowed, since one waited too long for another reason")
		}
		s.close(t)
	})
}

// TestPaceSlowsWritesThatOutrunTheFlush sets how much of the last one its flush has read.
func TestPaceSlowsWritesThatOutrunTheFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.MemtableSize = 8 << 20
		ops := 0
		fill := func(part float64) {
			t.Helper()
			for ops = 0; float64(s.Tree.Load().Mem.Bytes()) < part*float64(s.MemtableSize); ops++ {
				must(t, s.Commit(put(fmt.Sprint("key", ops), string(make([]byte, 10<<10))), 1, false))
			}
		}
		fill(0.8)
		if _, err := s.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Microsecond)
		before, frozen := ops, float64(s.pace.lastBytes)
		flush, read := s.Tree.Load().Frozen[0].Flush(), 0
		flush.First()
		fill(0.5)
		if len(s.stalls) != 0 {
			t.Errorf("writes to a memtable that is half full waited: %v", s.stalls)
		}
		fill(0.8)
		if filled := float64(s.Tree.Load().Mem.Bytes()) / float64(s.MemtableSize); filled > 0.9 {
			t.Fatalf("the memtable is %.2f full", filled)
		}
		part, took := before/2/64*64, 20*time.Millisecond // the versions that were flushed, which is noted every 64
		for _, tt := range []struct {
			flushed int
			elapsed time.Duration
			want    time.Duration // for each KiB
		}{
			{0, 0, 0},
			{0, time.Second, flushMost},
			{part, took, time.Duration(float64(took) * 1024 / (0.25 * float64(part) / float64(before) * frozen))},
			{before, time.Second, 0},
		} {
			for ; read < tt.flushed; read++ {
				flush.Next()
			}
			s.pace.began = time.Now().Add(-tt.elapsed)
			if got := s.flushDelay(); got < tt.want-tt.want/10 || got > tt.want+tt.want/10 {
				t.Errorf("after %v and %d of %d versions a KiB is delayed by %v, want %v", tt.elapsed, tt.flushed,
					before, got, tt.want)
			}
		}
		s.Tree.Load().Frozen[0].Flush() // anew
		frozenBytes := s.pace.lastBytes
		if s.pace.lastBytes = 0; s.flushDelay() != 0 {
			t.Errorf("beside a memtable that recovery has found, a KiB is delayed by %v", s.flushDelay())
		}
		s.pace.lastBytes = frozenBytes
		s.pace.debt, s.pace.began = 0, time.Now().Add(-time.Second)
		earlier := s.Counts().Stalls[SlowedByMemtable]
		began := time.Now()
		s.mu.Lock()
		s.slowDown(100 << 10)
		s.mu.Unlock()
		if took := time.Since(began); took != 100*flushMost {
			t.Errorf("100 KiB took %v, want %v", took, 100*flushMost)
		}
		s.flush(t)
		s.mu.Lock()
		s.slowDown(1)
		s.mu.Unlock()
		counted := s.Counts().Stalls[SlowedByMemtable]
		if want := (Stall{Writes: earlier.Writes + 1, Duration: earlier.Duration + 100*flushMost}); counted != want {
			t.Errorf("counted %v, want %v", counted, want)
		}
		if len(s.stalls) != 1 || s.stalls[0] != (Stall{SlowedByMemtable, counted.Writes, counted.Duration}) {
			t.Errorf("reported %v, want one spell, %v, once the flush has ended", s.stalls, counted)
		}
		s.close(t)
	})
}

// flush drops the frozen memtable, if there is one, as if it were in tables.
func (s *store) flush(t *testing.T) {
	t.Helper()
	if s.waits() {
		if _, _, _, err := s.Tree.Install(&manifest.Edit{}, nil, tree.Change{Flushed: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// waits reports whether a memtable waits for a flush.
func (s *store) waits() bool { return s.Tree.View().Flushing.Mem != nil }

// TestAMemtableIsFrozenOnceTheLastIsFlushed has a frozen memtable, and one that is to be frozen.
func TestAMemtableIsFrozenOnceTheLastIsFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		freeze := func() error { _, err := s.Freeze(t.Context()); return err }
		alone := func() error {
			return s.Alone(t.Context(), 0, func(next ikey.Seq) error {
				if want := s.Tree.NewestSeq() + 1; next != want {
					return fmt.Errorf("the next sequence is %d, want %d", next, want)
				}
				return nil
			})
		}
		drain := func() error {
			s.Tree.Close()
			s.Drain()
			return nil
		}
		for i, call := range []func() error{freeze, alone, drain} {
			if err := s.Commit(put("key", "v"), 1, false); err != nil {
				t.Fatal(err)
			}
			if err := freeze(); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(put("key", "w"), 1, false); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- call() }()
			synctest.Wait()
			if !s.waits() || len(done) != 0 {
				t.Fatalf("call %d does not wait for the flush", i)
			}
			second := s.Tree.Load().Mem
			s.flush(t)
			synctest.Wait()
			if got := s.Tree.View().Flushing.Mem; got != second {
				t.Errorf("call %d: %p waits for a flush, want the second memtable, %p", i, got, second)
			}
			s.flush(t)
			if err := <-done; err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if s.lastSeq != 7 {
			t.Errorf("after six writes and a call of Alone, the newest sequence is %d, want 7", s.lastSeq)
		}
		s.close(t)
	})
}

// TestStoresInAndOutsideOfABubbleShareNoChannel writes to a store in a synctest bubble and then, concurrently, to one
// outside: a channel of the first would end the program.
func TestStoresInAndOutsideOfABubbleShareNoChannel(t *testing.T) {
	write := func(s *store, writers int) {
		done := make(chan error)
		for i := range writers {
			go func() { done <- s.Commit(put(fmt.Sprint("key", i), "v"), 1, true) }()
		}
		for range writers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t)
			write(s, 20)
			s.close(t)
		})
		s := newStore(t)
		write(s, 20)
		s.close(t)
	}
}

// TestAMarkIsNoKeyOfACondition evaluates conditions on the empty key after a mark of their group.
func TestAMarkIsNoKeyOfACondition(t *testing.T) {
	s := newStore(t)
	mark := batch.AppendOp(nil, ikey.Mark, nil, []byte("v"))
	for _, old := range [][]byte{nil, []byte("v")} {
		when := &condition{key: []byte{}, hash: s.Hash(nil), old: old, state: s.Tree.Load(), seq: s.Tree.NewestSeq()}
		if held, err := s.Compare(when.key, old); err != nil || !held {
			t.Fatalf("the empty key is %q: %v, %v, want true", old, held, err)
		}
		if held, err := s.holds(when, mark); err != nil || !held {
			t.Errorf("the empty key is %q, after a mark: %v, %v, want true", old, held, err)
		}
		must(t, s.Commit(put("", "v"), 1, false))
	}
	s.close(t)
}

// TestAMarkWaitsForTheFlushOfItsMemtable freezes a memtable that has nothing but a mark, then one that has nothing.
func TestAMarkWaitsForTheFlushOfItsMemtable(t *testing.T) {
	s := newStore(t)
	mark := batch.AppendOp(nil, ikey.Mark, nil, []byte("mark"))
	must(t, s.Commit(append(put("key", "v"), mark...), 2, false))
	for _, want := range []string{"mark", "", "mark"} {
		if want == "" {
			must(t, s.Commit(put("key", "w"), 1, false))
		}
		if _, err := s.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		frozen := s.Tree.View().Flushing
		if frozen.Mem == nil || string(frozen.Mark.Bytes) != want {
			t.Fatalf("frozen: %+v, want the mark %q", frozen, want)
		}
		s.flush(t)
		if _, err := s.Freeze(t.Context()); err != nil || s.waits() {
			t.Errorf("an empty memtable was frozen: %v", err)
		}
		if want == "" {
			must(t, s.Commit(mark, 1, false)) // alone
		}
	}
	if m := s.Tree.Mark(); string(m.Bytes) != "mark" || m.Seq != 4 {
		t.Errorf("the mark is %q at sequence %d, want 4", m.Bytes, m.Seq)
	}
	s.close(t)
}

// TestPutsCutRangesOfDeadKeysAndNothingElseDoes writes into a range of dead keys.
func TestPutsCutRangesOfDeadKeysAndNothingElseDoes(t *testing.T) {
	s := newStore(t)
	op := func(kind ikey.Kind, key, value string) []byte {
		return batch.AppendOp(nil, kind, []byte(key), []byte(value))
	}
	large := make([]byte, MinPut)
	for _, tt := range []struct {
		name  string
		write func() error
		cuts  bool
	}{
		{"a put", func() error { return s.Commit(put("k", "v"), 1, false) }, true},
		{"a put outside", func() error { return s.Commit(put("m", "v"), 1, false) }, false},
		{"a delete", func() error { return s.Commit(op(ikey.Delete, "k", ""), 1, false) }, false},
		{"a range delete", func() error { return s.Commit(op(ikey.RangeDelete, "k", "ka"), 1, false) }, false},
		{"a mark", func() error { return s.Commit(op(ikey.Mark, "", "k"), 1, false) }, false},
		{"the last of 40 puts", func() error {
			return s.Commit(append(bytes.Repeat(put("m", "v"), 39), put("k", "v")...), 40, false)
		}, true},
		{"a large put", func() error {
			return s.CommitPut([]byte("k"), large, false)
		}, true},
		{"a large batch", func() error { return s.Commit(put("k", string(large)), 1, false) }, true},
	} {
		s.DeadKeys = new(deadkeys.Ranges)
		noPut := func() bool { return false }
		s.DeadKeys.Report([]byte("j"), []byte("l"), deadkeys.Reader{Seq: s.Tree.NewestSeq()}, noPut)
		must(t, tt.write())
		if n := s.DeadKeys.Len(); n != map[bool]int{false: 1, true: 2}[tt.cuts] {
			t.Errorf("after %s there are %d ranges; it cuts: %v", tt.name, n, tt.cuts)
		}
		if s.waits() {
			s.flush(t)
		}
	}
	s.close(t)
}

func TestOperationsThatCannotBeReadEndTheWrites(t *testing.T) {
	s := newStore(t)
	must(t, s.Commit(put("k", "v"), 1, true))
	for range 2 {
		if err := s.Commit([]byte{99}, 1, true); !errors.Is(err, tree.ErrReadOnly) || s.Tree.NewestSeq() != 1 {
			t.Errorf("%v, the newest sequence is %d; want ErrReadOnly, and 1", err, s.Tree.NewestSeq())
		}
	}
	s.close(t)
}

// A disk has the given number of free bytes.
type disk struct {
	vfs.FS
	free uint64
}

func (d *disk) FreeSpace(string) (uint64, error) { return d.free, nil }

// TestLogsReserveSpaceOnlyWhereTheDiskHasMuchToSpare writes to a log beyond what it reserves when it begins, and then
// to the next log.
func TestLogsReserveSpaceOnlyWhereTheDiskHasMuchToSpare(t *testing.T) {
	const much, little = 1 << 40, 4 << 20
	for _, c := range []struct {
		first, then uint64
		want        []int // reservations after the first write, the next ones, and the first one of the next log
	}{
		{much, much, []int{1, 2, 3}},
		{much, little, []int{1, 1, 1}},
		{little, little, []int{0, 0, 0}},
		{little, much, []int{0, 0, 1}},
	} {
		s, reserves := newStore(t), 0
		d := &disk{free: c.first, FS: vfstest.NewHook(s.FS, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpReserve {
				reserves++
			}
			return nil
		})}
		s.FS = d
		var got []int
		write := func(times int) {
			for range times {
				must(t, s.Commit(put("key", string(make([]byte, 22<<10))), 1, false))
			}
			got = append(got, reserves)
		}
		write(1)
		d.free, s.roomFor = c.then, 0
		write(2)
		_, err := s.Freeze(t.Context())
		must(t, err)
		s.flush(t)
		write(1)
		if !slices.Equal(got, c.want) {
			t.Errorf("%d bytes are free, then %d: %d reservations, want %d", c.first, c.then, got, c.want)
		}
		s.close(t)
	}
}

// TestAWriteThatDoesNotFitIsRefusedBesideAFlushThatWaits has a frozen memtable whose flush waits for space on the disk.
func TestAWriteThatDoesNotFitIsRefusedBesideAFlushThatWaits(t *testing.T) {
	s := newStore(t)
	must(t, s.Commit(put("k", "v"), 1, true))
	_, err := s.Freeze(t.Context())
	must(t, err)
	s.FS, s.roomFor = &disk{FS: s.FS}, 0
	s.Tree.PutOff(true, syscall.ENOSPC)
	if err := s.Commit(put("k", "w"), 1, true); !errors.Is(err, syscall.ENOSPC) || s.Tree.NewestSeq() != 1 {
		t.Errorf("%v, the newest sequence is %d; want %v, and 1", err, s.Tree.NewestSeq(), syscall.ENOSPC)
	}
	s.flush(t)
	s.close(t)
}

// TestALogThatCannotBeClosedEndsTheWrites fails what makes a log durable after its last record.
func TestALogThatCannotBeClosedEndsTheWrites(t *testing.T) {
	for _, kind := range []vfstest.OpKind{vfstest.OpSync, vfstest.OpClose} {
		s := newStore(t)
		var armed atomic.Bool
		s.FS = vfstest.NewHook(s.FS, func(op vfstest.Op) error {
			if k, _ := filename.Parse(filepath.Base(op.Name)); armed.Load() && k == filename.Log && op.Kind == kind {
				return syscall.EIO
			}
			return nil
		})
		must(t, s.Commit(put("k", "v"), 1, false))
		s.logs.Wait() // for the sync of its head
		armed.Store(true)
		_, err := s.Freeze(t.Context())
		must(t, err)
		s.logs.Wait()
		if err := s.Tree.Writable(); !errors.Is(err, tree.ErrReadOnly) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%v of a log fails: writes get %v, want ErrReadOnly and the reason", kind, err)
		}
	}
}
