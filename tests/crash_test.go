package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// At every file operation that could matter, the power fails, with none, all or random parts of the unsynced data kept;
// and the process dies. Each time, the store must recover a prefix of the commits, each complete, including all that
// were promised to survive.

// A history is the sequence of one writer's commits. Every commit writes its number under prefix and counterKey.
type history struct {
	prefix string        // of all its keys
	clock  *atomic.Int64 // nil, or the common clock of several writers

	mu      sync.Mutex
	commits []modelWrite
	spans   [][2]int64          // begin and end of each commit by the clock
	states  []map[string]string // indexed by the number of commits; filled by all

	started, acked, synced atomic.Int64               // numbers of commits: begun, returned, promised durable
	db                     atomic.Pointer[bloomkv.DB] // if not nil, its DurableMark is a promise too
}

const counterKey = "~commits"

func (h *history) write(db *bloomkv.DB, d bloomkv.Durability, w modelWrite) error {
	return h.commit(d, w, func(w modelWrite) error { return db.ApplyWith(w.batch(), d) })
}

// ingest commits puts by an Ingest. If replace is true, the Ingest replaces a range, which is the first operation of w.
func (h *history) ingest(db *bloomkv.DB, replace bool, w modelWrite) error {
	return h.commit(bloomkv.DurabilitySync, w, func(w modelWrite) error {
		var o bloomkv.IngestOptions
		if replace {
			o.Replace = &bloomkv.KeyRange{Lower: []byte(w[0].key), Upper: w[0].end}
			w = w[1:]
		}
		o.Mark = w.mark()
		pairs := map[string]string{}
		w.apply(pairs)
		err := db.Ingest(context.Background(), func(yield func(bloomkv.KV, error) bool) {
			for _, k := range slices.Sorted(maps.Keys(pairs)) {
				if !yield(bloomkv.KV{Key: []byte(k), Value: []byte(pairs[k])}, nil) {
					return
				}
			}
		}, o)
		return h.barrier(err) // makes all earlier commits durable, too
	})
}

// commit records w and then calls do with it.
func (h *history) commit(d bloomkv.Durability, w modelWrite, do func(modelWrite) error) error {
	h.mu.Lock()
	n := int64(len(h.commits) + 1)
	w = append(w, modelOp{key: h.prefix + counterKey, value: strconv.FormatInt(n, 10)})
	h.commits = append(h.commits, w)
	h.spans = append(h.spans, [2]int64{h.tick(), math.MaxInt64})
	h.mu.Unlock()
	h.started.Store(n)
	if err := do(w); err != nil {
		return fmt.Errorf("commit %d: %w", n, err)
	}
	h.mu.Lock()
	h.spans[n-1][1] = h.tick()
	h.mu.Unlock()
	h.acked.Store(n)
	if d == bloomkv.DurabilitySync {
		h.synced.Store(n)
	}
	return nil
}

func (h *history) tick() int64 {
	if h.clock == nil {
		return 0
	}
	return h.clock.Add(1)
}

// barrier records the end of a call that makes all earlier commits durable.
func (h *history) barrier(err error) error {
	if err == nil {
		h.synced.Store(h.acked.Load())
	}
	return err
}

// all returns the states after 0, 1, 2 … commits.
func (h *history) all() []map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.states) == 0 {
		h.states = append(h.states, map[string]string{})
	}
	for i := len(h.states) - 1; i < len(h.commits); i++ {
		next := maps.Clone(h.states[i])
		h.commits[i].apply(next)
		h.states = append(h.states, next)
	}
	return h.states
}

func (w modelWrite) batch() *bloomkv.Batch {
	b := new(bloomkv.Batch)
	for _, op := range w {
		switch {
		case op.ranged:
			b.DeleteRange(bloomkv.KeyRange{Lower: []byte(op.key), Upper: op.end})
		case op.del:
			b.Delete([]byte(op.key))
		default:
			b.Put([]byte(op.key), []byte(op.value))
		}
	}
	if m := w.mark(); m != nil {
		b.SetMark(m)
	}
	return b
}

// mark returns the mark that a commit of a history sets: the prefix of the history and the number of the commit. One
// commit in three sets no mark: then mark returns nil.
func (w modelWrite) mark() []byte {
	if len(w) == 0 {
		return nil
	}
	last := w[len(w)-1]
	prefix, ok := strings.CutSuffix(last.key, counterKey)
	if n, err := strconv.Atoi(last.value); !ok || err != nil || n%3 == 0 {
		return nil
	}
	return []byte(prefix + last.value)
}

// markAfter returns the mark of a store with the given number of commits.
func markAfter(commits int64) string {
	if commits%3 == 0 {
		commits--
	}
	if commits <= 0 {
		return ""
	}
	return strconv.FormatInt(commits, 10)
}

// checkMarks checks the marks of a store that was recovered with the given number of commits. All that Open recovered
// is durable.
func checkMarks(db *bloomkv.DB, commits int64) error {
	got, err := db.Mark()
	durable, durableErr := db.DurableMark()
	if want := markAfter(commits); err != nil || durableErr != nil || string(got) != want || string(durable) != want {
		return fmt.Errorf("with %d commits, the mark is %q, %w, the durable one %q, %w; want %q",
			commits, got, err, durable, durableErr, want)
	}
	return nil
}

// crashed is a file system after a crash. It must hold at least low and at most high commits; cut is the lower bound
// after a further power cut.
type crashed struct {
	fs             *vfstest.Mem
	image          *image // used instead of fs
	low, cut, high int64
	op             int  // the crash was before this operation
	unsynced       bool // some of its data may not be durable
	after          bool // the write of the previous recovery was acknowledged
	marked         bool // the previous recovery had ended, so its mark is durable
	what           string
}

// A crasher clones a file system at every operation that may change what a crash leaves.
type crasher struct {
	mem    *vfstest.Mem
	h      *history
	seed   uint64
	random int                   // number of random subsets for each operation
	pause  func(vfstest.Op)      // called before the operation; may be nil
	want   func(vfstest.Op) bool // nil for every operation

	mu       sync.Mutex
	op       int
	found    []crashed
	promised int64 // commits that only a DurableMark promised, over all operations
}

func (c *crasher) hook(op vfstest.Op) error {
	if !op.Kind.Changes() {
		return nil
	}
	if c.pause != nil {
		c.pause(op)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.op++
	if c.want == nil || c.want(op) {
		c.clone(op.String())
	}
	return nil
}

// clone simulates crashes now. Concurrent commits can only widen the bounds that it records.
func (c *crasher) clone(op string) {
	synced, acked := c.h.synced.Load(), c.h.acked.Load()
	if db := c.h.db.Load(); db != nil {
		mark, err := db.DurableMark() // 0 if it is closed
		if n, _ := strconv.ParseInt(string(mark), 10, 64); err == nil {
			c.promised += max(n-synced, 0)
			synced = max(synced, n)
		}
	}
	from := len(c.found)
	at := func(kind string) string { return fmt.Sprintf("before operation %d (%s), %s", c.op, op, kind) }
	c.found = append(c.found,
		crashed{fs: c.mem.Kill(), low: acked, cut: synced, unsynced: true, what: at("process death")},
		crashed{fs: c.mem.Crash(vfstest.KeepNothing), low: synced, cut: synced, what: at("nothing kept")},
		crashed{fs: c.mem.Crash(vfstest.KeepAll), low: acked, cut: acked, what: at("all kept")})
	for i := range c.random * *storetest.Long {
		seed, percent := c.seed<<48+uint64(c.op)<<16+uint64(i), (15+35*i)%100
		c.found = append(c.found, crashed{
			fs: c.mem.Crash(vfstest.KeepSome(seed, percent)), low: synced, cut: synced,
			what: at(fmt.Sprintf("%d %% kept by seed %#x", percent, seed)),
		})
	}
	high := c.h.started.Load()
	for i := range c.found[from:] {
		c.found[from+i].high, c.found[from+i].op = high, c.op
	}
}

// verifyAll verifies every stride-th crash on two goroutines. For some, more with a small nested, it also crashes their
// recovery: mostly for process deaths, since a later power cut can still lose their unsynced data.
func (c *crasher) verifyAll(t *testing.T, stride, nested int) {
	t.Helper()
	states := c.h.all()
	distinct := new(images)
	for i := range c.found {
		s := &c.found[i]
		inside := nested > 0 && (s.unsynced && (s.op < 16 || s.op%nested == 0) ||
			!s.unsynced && i/stride%(8*nested+1) == 0)
		if i%stride > 0 || !inside {
			if i%stride == 0 {
				s.image = distinct.of(s.fs)
			}
			s.fs = nil
		}
	}
	var wg sync.WaitGroup
	var next, done, inside, distinctInside atomic.Int64
	for range 2 {
		wg.Go(func() {
			for !t.Failed() {
				i := int(next.Add(1)-1) * stride
				if i >= len(c.found) {
					return
				}
				s := &c.found[i]
				var err error
				if s.image != nil {
					err = s.judge(s.image.recovered(func(fsys *vfstest.Mem) finding { return verify(fsys, states) }))
				} else {
					var n, m int
					n, m, err = s.verifyNested(states)
					inside.Add(int64(n))
					distinctInside.Add(int64(m))
					s.fs = nil
				}
				if err != nil {
					t.Errorf("state %d, %s: %v", i, s.what, err)
				}
				done.Add(1)
				storetest.Progress.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d operations, %d states in %d images, and %d after a second crash, in %d images",
		c.op, done.Load(), distinct.len(), inside.Load(), distinctInside.Load())
}

// judge checks the result of a recovery against the bounds of a crash.
func (s *crashed) judge(r finding) error {
	switch {
	case r.err != nil:
		return r.err
	case r.commits < s.low || r.commits > s.high:
		return fmt.Errorf("holds %d commits, want %d to %d", r.commits, s.low, s.high)
	case s.after && !r.after:
		return errors.New("a Sync write of the first recovery is lost")
	}
	return nil
}

// verify opens a crashed file system and returns the number of commits in it. The store must then be fully usable.
func verify(fsys *vfstest.Mem, states []map[string]string) (r finding) {
	if r = recoverFrom(fsys, states, func() {}, func() {}); r.err != nil {
		return r
	}
	if _, r.err = bloomkv.Check(context.Background(), "db", bloomkv.CheckOptions{FS: fsys}); r.err != nil {
		return r
	}
	db, err := bloomkv.Open("db", storetest.Tiny(fsys))
	if err != nil {
		r.err = fmt.Errorf("reopened: %w", err)
		return r
	}
	v, err := db.Get([]byte(afterKey))
	if err != nil || string(v) != "x" {
		err = fmt.Errorf("a write after the recovery: %q, %w", v, err)
	}
	r.err = errors.Join(err, db.Close())
	return r
}

const afterKey = "~after" // written by the store that recovered

// recoverFrom opens the store, calls opened, compares it, writes to it, calls written, and closes it.
func recoverFrom(fsys vfs.FS, states []map[string]string, opened, written func()) (r finding) {
	db, err := bloomkv.Open("db", storetest.Tiny(fsys))
	if err != nil {
		return finding{err: err}
	}
	opened()
	got, err := storetest.Contents(db)
	if err == nil {
		r.commits, err = prefixOf(got, states, "", 0, int64(len(states)-1))
	}
	if err == nil {
		err = checkMarks(db, r.commits)
	}
	if err == nil {
		err = lookupsAgree(db, got)
	}
	if err == nil {
		if err = db.ApplyWith((modelWrite{{key: afterKey, value: "x"}}).batch(), bloomkv.DurabilitySync); err == nil {
			written()
		}
	}
	r.err = errors.Join(err, db.Close())
	return r
}

// prefixOf returns the number of commits that produce these contents.
func prefixOf(got map[string]string, states []map[string]string, prefix string, low, high int64) (k int64, err error) {
	if v, ok := got[prefix+counterKey]; ok {
		if k, err = strconv.ParseInt(v, 10, 64); err != nil {
			return 0, err
		}
	}
	if k < low || k > high {
		return 0, fmt.Errorf("holds %d commits, want %d to %d", k, low, high)
	}
	if d := storetest.Diff(got, states[k]); d != "" {
		return 0, fmt.Errorf("holds %d commits, but %s", k, d)
	}
	return k, nil
}

// verifyNested crashes the recovery, the first write and the Close after it at each operation. The second recovery must
// find the same commits as the first, except for those that a power cut may take after a process death. It returns the
// number of crashes and of their distinct images.
func (s *crashed) verifyNested(states []map[string]string) (n, distinct int, err error) {
	var mu sync.Mutex
	var again []crashed
	var exact []bool // the result of the first recovery is durable
	var opened, written atomic.Bool
	first := recoverFrom(vfstest.NewHook(s.fs, func(op vfstest.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		after := written.Load()
		durable := after || !s.unsynced
		for i, keep := range []vfstest.Keep{
			vfstest.KeepNothing, vfstest.KeepAll, vfstest.KeepSome(uint64(len(again)), 50),
		} {
			again = append(again, crashed{
				fs: s.fs.Crash(keep), low: s.cut, high: s.high, after: after, marked: opened.Load(),
				what: fmt.Sprintf("then before %v, kind %d", op, i),
			})
			exact = append(exact, durable || i == 1)
		}
		return nil
	}), states, func() { opened.Store(true) }, func() { written.Store(true) })
	if err := s.judge(first); err != nil {
		return 0, 0, err
	}
	left := new(images)
	for i := range again {
		a := &again[i]
		if n, _ := strconv.ParseInt(markAfter(first.commits), 10, 64); a.marked {
			a.low = max(a.low, n)
		}
		if exact[i] {
			a.low, a.high = first.commits, first.commits
		}
		found := left.of(a.fs).recovered(func(fsys *vfstest.Mem) finding { return reopen(fsys, states) })
		if err := a.judge(found); err != nil {
			return i, left.len(), fmt.Errorf("%s: %w", a.what, err)
		}
	}
	return len(again), left.len(), nil
}

// reopen opens a store that may contain the write of an earlier recovery, reads it and closes it.
func reopen(fsys *vfstest.Mem, states []map[string]string) (r finding) {
	db, err := bloomkv.Open("db", storetest.Tiny(fsys))
	if err != nil {
		return finding{err: err}
	}
	got, err := storetest.Contents(db)
	if err == nil {
		_, r.after = got[afterKey]
		delete(got, afterKey)
		r.commits, err = prefixOf(got, states, "", 0, int64(len(states)-1))
	}
	if err == nil {
		err = checkMarks(db, r.commits)
	}
	r.err = errors.Join(err, db.Close())
	return r
}

// script performs the operations of a writer, with all ways in which files are created and removed.
func (h *history) script(fsys vfs.FS, rng *rand.Rand) error {
	ctx := context.Background()
	payload := make([]byte, 4000)
	for i := range payload {
		payload[i] = byte(rng.Uint32())
	}
	write := func(db *bloomkv.DB, d bloomkv.Durability, size int) error {
		var w modelWrite
		for range 1 + rng.IntN(3) {
			k := fmt.Sprintf("k%02d", rng.IntN(40))
			switch rng.IntN(12) {
			case 0:
				end := []byte(k + "0")
				if k > "k30" {
					end = nil
				}
				w = append(w, modelOp{key: k, ranged: true, end: end})
				continue
			case 1, 2:
				w = append(w, modelOp{key: k, del: true})
				continue
			}
			from := rng.IntN(len(payload) - 10)
			w = append(w, modelOp{key: k, value: string(payload[from:min(len(payload), from+1+rng.IntN(size))])})
		}
		return h.write(db, d, w)
	}
	const (
		synced, unsynced = bloomkv.DurabilitySync, bloomkv.DurabilityNoSync
		mixed            = unsynced + 1
	)
	several := func(db *bloomkv.DB, n int, d bloomkv.Durability, size int) error {
		for range n {
			way := d
			if d == mixed {
				way = bloomkv.DurabilitySync + bloomkv.Durability(rng.IntN(2))
			}
			if err := write(db, way, size); err != nil {
				return err
			}
		}
		return nil
	}
	ingest := func(n int, replace bool) func(*bloomkv.DB) error {
		return func(db *bloomkv.DB) error {
			var w modelWrite
			if replace {
				w = modelWrite{{key: "k1", ranged: true, end: []byte("k3")}}
			}
			for range n {
				from := rng.IntN(len(payload) - 10)
				w = append(w, modelOp{
					key:   fmt.Sprintf("k%02d", rng.IntN(40)),
					value: string(payload[from:min(len(payload), from+1+rng.IntN(1500))]),
				})
			}
			return h.ingest(db, replace, w)
		}
	}
	session := func(steps ...func(db *bloomkv.DB) error) error {
		db, err := bloomkv.Open("db", storetest.Tiny(fsys))
		if err != nil {
			return err
		}
		h.db.Store(db)
		for _, step := range steps {
			if err := step(db); err != nil {
				return errors.Join(err, db.Close())
			}
		}
		return h.barrier(db.Close())
	}
	flush := func(db *bloomkv.DB) error { return h.barrier(db.Flush(ctx)) }
	compact := func(db *bloomkv.DB) error { return h.barrier(db.Compact(ctx, bloomkv.CompactOptions{})) }
	sync := func(db *bloomkv.DB) error { return h.barrier(db.Sync()) }
	writes := func(n int, d bloomkv.Durability, size int) func(*bloomkv.DB) error {
		return func(db *bloomkv.DB) error { return several(db, n, d, size) }
	}
	for _, steps := range [][]func(*bloomkv.DB) error{
		{writes(6, synced, 50), writes(4, unsynced, 50), sync, writes(3, unsynced, 50)},
		{
			writes(25, unsynced, 4000), writes(1, synced, 50), writes(8, mixed, 50), flush,
			writes(3, unsynced, 50), compact,
		},
		{},
		{
			writes(40, mixed, 4000), writes(5, unsynced, 50), flush, writes(20, unsynced, 4000), sync,
			writes(5, unsynced, 3000),
		},
		{
			writes(2, synced, 10), ingest(20, false), writes(3, unsynced, 50), ingest(5, true),
			writes(2, unsynced, 50), ingest(0, true),
		},
		{ingest(30, true), compact, writes(1, synced, 10)},
	} {
		if err := session(steps...); err != nil {
			return err
		}
	}
	return nil
}

// TestEveryCrashLeavesAPrefixOfTheCommits logs its number of states: thousands in an ordinary run.
func TestEveryCrashLeavesAPrefixOfTheCommits(t *testing.T) {
	for i, tt := range []struct {
		name  string
		pause func(vfstest.Op)
	}{
		{"at every operation of a script", nil},
		{"while syncs are slow and unsynced writes overtake them", func(op vfstest.Op) {
			if op.Kind == vfstest.OpSync || op.Kind == vfstest.OpSyncDir {
				time.Sleep(3 * time.Millisecond)
			}
		}},
		{"while writing tables is slow", func(op vfstest.Op) {
			if op.Kind == vfstest.OpCreate && strings.HasSuffix(op.Name, ".sst") {
				time.Sleep(5 * time.Millisecond)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &history{}
			c := &crasher{mem: vfstest.NewMem(), h: h, seed: uint64(i + 1), random: 3, pause: tt.pause}
			must(t, h.script(vfstest.NewHook(c.mem, c.hook), rand.New(rand.NewPCG(uint64(i), 7))))
			c.mu.Lock()
			c.clone("the end")
			c.mu.Unlock()
			c.verifyAll(t, storetest.Stride(), 24)
			if c.promised == 0 {
				t.Error("no DurableMark promised more than the writes")
			}
		})
	}
}

// TestSequenceNumbersOfLostWritesAreNotUsedAgain loses the end of a log, or the only log, whose name was not durable.
// Readers have seen its writes, so what comes later must be newer than they were.
func TestSequenceNumbersOfLostWritesAreNotUsedAgain(t *testing.T) {
	var sequence uint64 // of the last ingest
	ingested := func(db *bloomkv.DB) uint64 {
		t.Helper()
		pairs := storetest.PairsOf(map[string]string{"a": "b"})
		must(t, db.Ingest(t.Context(), pairs, bloomkv.IngestOptions{}))
		return sequence
	}
	const lost = 1000
	for _, named := range []bool{true, false} {
		mem := vfstest.NewMem()
		var unnamed atomic.Bool
		fsys, open := storetest.Gated(mem, func(op vfstest.Op) bool {
			return op.Kind == vfstest.OpSyncDir && unnamed.Load()
		})
		o := storetest.Tiny(fsys)
		o.MemtableSize = 1 << 20 // no flush
		o.Events.Ingested = func(i bloomkv.IngestInfo) { sequence = i.Sequence }
		db, err := bloomkv.Open("db", o)
		must(t, err)
		before := ingested(db)
		if named {
			must(t, db.Put([]byte("kept"), nil))
		} else {
			must(t, storetest.PutWith(db, bloomkv.DurabilityNoSync, []byte("kept"), nil))
			must(t, db.Flush(t.Context()))
		}
		unnamed.Store(!named)
		for range lost {
			must(t, storetest.PutWith(db, bloomkv.DurabilityNoSync, []byte("lost"), nil))
		}
		o.FS = mem.Crash(vfstest.KeepNothing)
		open()
		must(t, db.Close())
		db = storetest.Open(t, "db", o)
		if after := ingested(db); after <= before+1+lost {
			t.Errorf("named %t: sequence %d after the crash, want more than %d, which readers had seen",
				named, after, before+1+lost)
		}
		must(t, contains(db, map[string]string{"a": "b", "kept": ""}))
		must(t, db.Close())
	}
}
