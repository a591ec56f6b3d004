package budget

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sort"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

const mib = 1 << 20

// An observer records the promises and the failures that a store reports.
type observer struct {
	promises []Promises
	failed   []error // of loads
}

func (*observer) ReadOnly(error)                          {}
func (*observer) Damaged(error)                           {}
func (o *observer) WorkFailed(_ string, _ int, err error) { o.failed = append(o.failed, err) }
func (o *observer) Promise(p Promises)                    { o.promises = append(o.promises, p) }

// A testStore is a store without background work, whose last level has one table.
type testStore struct {
	*Share
	told  *observer
	table *tree.Table
	whole int64 // bytes of its filter
	fail  error // of all reads of files, unless it is nil

	onRead    func() // called for each read of a file, unless it is nil
	failClose error  // of all closes of files, unless it is nil
}

var must = testkit.Must

// join returns a store that shares p. Its table has the given number of keys, its memtables the given size in bytes.
func join(t *testing.T, p *Pool, keys int, memtable int64) *testStore {
	t.Helper()
	return joinWith(t, p, keys, memtable, sstable.PrefixRule{})
}

// joinWith returns a store as join does, which has a filter of prefixes by a rule.
func joinWith(t *testing.T, p *Pool, keys int, memtable int64, prefix sstable.PrefixRule) *testStore {
	t.Helper()
	s := &testStore{told: new(observer)}
	fsys := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpReadAt:
			if s.onRead != nil {
				s.onRead()
			}
			return s.fail
		case vfstest.OpClose:
			return s.failClose
		default:
			return nil
		}
	})
	must(t, fsys.Mkdir("db"))
	planner := filterplan.Options{FPR: 0.01, Ratio: 10}.Planner()
	plans, err := planner.First(0.01)
	must(t, err)

	const number = 5
	meta := writeTable(t, fsys, number, keys, plans, prefix)
	tr := tree.New(tree.Config{
		FS: fsys, Dir: "db", Failed: s.told.ReadOnly, Filters: manifest.Filters{FPR: 0.01, Ratio: 10},
		Shared: p.Shared(fsys, "db"),
	})
	version := &manifest.Version{}
	version.Levels[manifest.NumLevels-1] = []manifest.Run{{ID: 1, Tables: []*manifest.Table{meta}}}
	tr.Recover(manifest.State{Version: version, NextFile: number + 1, LastSeq: 1, Seed: 7})
	s.Share, err = p.Join(Config{
		Tree: tr, MemtableSize: memtable, Planner: planner, Plans: plans, Prefix: prefix, Observer: s.told,
	})
	must(t, err)
	tr.Begin(tr.FirstState(nil, memtable), 1)
	tr.Load().EachTable(func(_ int, table *tree.Table) { s.table = table })
	t.Cleanup(func() {
		tr.Close()
		last := tr.End()
		if last != nil {
			must(t, s.Leave(last))
		}
	})
	s.WarmUp(t.Context())
	s.Restore(t.Context())
	header, _ := s.table.Keys.Header()
	s.whole = int64(header.UnitsSize())
	return s
}

// writeTable writes a table of the last level, with the filter that the plans have for it.
func writeTable(
	t *testing.T, fsys vfs.FS, number uint64, keys int, plans *filterplan.Plans, prefix sstable.PrefixRule,
) *manifest.Table {
	t.Helper()
	f, err := fsys.Create("db/" + filename.Base(filename.Table, number))
	must(t, err)
	var file bytes.Buffer
	w := sstable.NewWriter(&file, sstable.WriterOptions{
		ID: number, Filter: plans.Now.Levels[manifest.NumLevels-1].Params, Prefix: prefix,
	})
	for i := range keys {
		must(t, w.Add(ikey.Key{User: fmt.Appendf(nil, "key%07d", i), Trailer: ikey.MakeTrailer(1, ikey.Set)}, nil))
	}
	info, err := w.Finish()
	must(t, err)
	_, err = f.Write(file.Bytes())
	must(t, errors.Join(err, f.Close()))
	return compaction.Table(number, info)
}

// hasRoom reports whether Room receives.
func (s *testStore) hasRoom() bool {
	select {
	case <-s.Room():
		return true
	default:
		return false
	}
}

// fill writes to the memtable of a store until it has the given number of bytes.
func (s *testStore) fill(memtableBytes int64) {
	mem := s.Tree.Load().Mem
	for i := 0; mem.Bytes() < memtableBytes; i++ {
		key := fmt.Appendf(nil, "new%07d", i)
		mem.Add(key, bloomblock.HashKey(key), ikey.Seq(2+i), ikey.Set, make([]byte, 500))
	}
}

// take takes memory from a pool, so that the given number of bytes is left for filters.
func take(p *Pool, left int64) {
	fixed := p.Free() - (left+14)/15*16
	p.Held.Add(tree.TableBytes{RangeDeletes: fixed - p.Held.Bytes().Fixed()})
}

// later makes the time that memtables have needed their memory for longer.
func (s *testStore) later(d time.Duration) { s.water.since = s.water.since.Add(-d) }

func TestTheHighWaterMarkFallsAfterAMinuteOrTwo(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	type step struct {
		at         time.Duration
		need, want int64
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"it rises at once", []step{{0, 10, 10}, {1, 30, 30}, {2, 20, 30}}},
		{"it stays for the minute in which it was reached", []step{{0, 30, 30}, {time.Minute - 1, 10, 30}}},
		{"it stays for the minute after that", []step{{0, 30, 30}, {time.Minute, 10, 30}, {2*time.Minute - 1, 10, 30}}},
		{"it falls to the highest of the minute before", []step{
			{0, 30, 30},
			{time.Minute, 20, 30},
			{time.Minute + 1, 10, 30},
			{2 * time.Minute, 10, 20},
			{3 * time.Minute, 5, 10},
		}},
		{"it falls to now when nobody asked for two minutes", []step{{0, 30, 30}, {2 * time.Minute, 10, 10}}},
		{"what is before is forgotten after two minutes, too", []step{
			{0, 30, 30}, {time.Minute, 20, 30}, {4 * time.Minute, 1, 1},
		}},
	} {
		var h highWater
		h.raise(0, begin)
		for _, s := range tt.steps {
			if got := h.raise(s.need, begin.Add(s.at)); got != s.want {
				t.Errorf("%s: after %v: %d, want %d", tt.name, s.at, got, s.want)
			}
		}
	}
}

func TestMemtablesNeedWhatTheyHaveAndTwoStepsAhead(t *testing.T) {
	const memtable = 1 * mib
	p := NewPool(16*mib, 8)
	s := join(t, p, 100, memtable)
	now := time.Now()
	state := s.Tree.Load()
	empty := state.Mem.Bytes()
	if got, want := s.need(state, now), empty+2*memtable/tree.MemtableSteps; got != want {
		t.Errorf("an empty memtable needs %d bytes, want %d", got, want)
	}
	s.fill(memtable / 2)
	now = now.Add(fastStep)
	if got, want := s.need(state, now), state.Mem.Bytes()+2*memtable/tree.MemtableSteps; got != want {
		t.Errorf("half a memtable needs %d bytes, want %d", got, want)
	}
	if s.Lends() {
		t.Error("half a memtable lends what it has")
	}
	s.fill(3 * memtable)
	if got := s.need(state, now); got != 2*memtable {
		t.Errorf("memtables need %d bytes, want no more than the %d that are reserved", got, 2*memtable)
	}
}

func TestFastMemtablesNeedAllThatIsReserved(t *testing.T) {
	const memtable, step = 1 * mib, mib / tree.MemtableSteps
	p := NewPool(16*mib, 8)
	s := join(t, p, 100, memtable)
	state, now := s.Tree.Load(), time.Now()
	need := func() int64 { return s.need(state, now) }
	need()
	grow := func(bytes int64) { s.fill(state.Mem.Bytes() + bytes) }
	for range 3 {
		now = now.Add(fastStep)
		grow(step)
		if got, most := need(), state.Mem.Bytes()+2*step; got != most {
			t.Errorf("memtables that have slowly grown to %d bytes need %d, want %d", state.Mem.Bytes(), got, most)
		}
	}
	now = now.Add(fastStep - 1)
	grow(step / 4)
	if got := need(); got == 2*memtable {
		t.Errorf("memtables that have grown by a part of a step need %d bytes", got)
	}
	grow(step)
	if got := need(); got != 2*memtable {
		t.Errorf("memtables that have grown by a step in %v need %d bytes, want %d", fastStep-1, got, 2*memtable)
	}
	now = now.Add(2 * lendAfter)
	if got, want := need(), state.Mem.Bytes()+2*step; got != want {
		t.Errorf("two minutes later memtables need %d bytes, want %d", got, want)
	}
}

// clockSet returns a time as it would be if the clock of the system had been set by the given number of days: the time
// since others, which does not depend on the clock, stays.
func clockSet(at time.Time, days int) time.Time {
	*(*uint64)(unsafe.Pointer(&at)) += uint64(days*24*60*60) << 30
	return at
}

// TestAStoreIsBusyForAMinuteAfterAWrite has the clock of the system set all the time.
func TestAStoreIsBusyForAMinuteAfterAWrite(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 100, mib)
	s.StartSeq(uint64(s.Tree.NewestSeq()))
	begin := time.Now()
	for i, step := range []struct {
		name string
		at   time.Duration
		seq  ikey.Seq
		want bool
	}{
		{"as it was opened", 0, 1, false},
		{"after a write", time.Second, 2, true},
		{"within a minute", time.Minute, 2, true},
		{"after a minute", time.Minute + time.Second, 2, false},
		{"after one more write", time.Hour, 9, true},
		{"and another", time.Hour + time.Minute, 10, true},
		{"less than a minute after that", time.Hour + 2*time.Minute - 1, 10, true},
		{"a minute after that", time.Hour + 2*time.Minute, 10, false},
	} {
		s.Tree.Publish(step.seq)
		if got := s.busy(clockSet(begin.Add(step.at), i%3-1)); got != step.want {
			t.Errorf("%s: busy %v, want %v", step.name, got, step.want)
		}
	}
	for _, written := range []bool{false, true} {
		if written {
			s.Tree.Publish(20)
		} else {
			s.writes.last.Store(nil)
		}
		p := s.promise.Load()
		want := []filterplan.Promise{p.Now, p.Full}
		asked, got := s.Promise()
		if asked != 0.01 || !slices.Equal(got, want[:len(got)]) || len(got) == 2 != written {
			t.Errorf("written to: %v; asked %v, promises %+v of %+v", written, asked, got, want)
		}
	}
}

// TestTheBudgetForFiltersIsTheLeastThatHoldsThem computes what pools of the returned size, and of one MiB less, leave
// for filters.
func TestTheBudgetForFiltersIsTheLeastThatHoldsThem(t *testing.T) {
	const memory = 64 * mib
	type store struct {
		memtable int64
		scaled   bool
		has      int64 // bytes that its memtables have had lately
	}
	for _, tt := range []struct {
		name   string
		fixed  int64
		stores []store
	}{
		{"a store with default options", 0, []store{{memory / 4, true, 0}}},
		{"one with memtables in use", 0, []store{{memory / 4, true, 5 * mib}}},
		{"one with tops and range tombstones", 3*mib + 5, []store{{memory / 4, true, 0}}},
		{"one with MemtableSize", 0, []store{{4 * mib, false, 0}}},
		{"one with MemtableSize, in use", mib, []store{{4 * mib, false, 7 * mib}}},
		{"a store that is only read", 0, []store{{0, true, 0}}},
		{"several that share", 5 * mib, []store{
			{memory / 64, true, mib}, {memory / 64, true, 0}, {3 * mib, false, 3 * mib}, {0, false, 0},
		}},
	} {
		p := NewPool(memory, 8)
		p.Held.Add(tree.TableBytes{RangeDeletes: tt.fixed})
		for _, s := range tt.stores {
			b := &member{Config: Config{Scaled: s.scaled}, reserved: 2 * s.memtable}
			b.water.before = s.has + b.reserved/tree.MemtableSteps
			p.shares = append(p.shares, b)
		}
		// left returns what filters may take of another memory.
		left := func(m int64, full bool) int64 {
			free := m
			for _, b := range p.shares {
				reserved := b.reserved
				if b.Scaled {
					reserved = reserved * (m / mib) / (memory / mib)
				}
				if !full {
					reserved = reserved/tree.MemtableSteps + b.water.before - b.reserved/tree.MemtableSteps
				}
				free -= reserved
			}
			return p.filterSpace(free)
		}
		for _, full := range []bool{false, true} {
			for _, filters := range []int64{1, 100, mib, 10 * mib, 30*mib + 7, 60 * mib, 1000 * mib, 1 << 40} {
				got := p.budgetFor(filters, full)
				if got%mib != 0 || left(got, full) < filters {
					t.Errorf("%s, full %v: %d bytes leave %d for filters, want %d",
						tt.name, full, got, left(got, full), filters)
				}
				if got > filterplan.MinBudget && left(got-mib, full) >= filters {
					t.Errorf("%s, full %v: %d bytes for filters of %d, and one MiB less is enough",
						tt.name, full, got, filters)
				}
			}
			if got := p.budgetFor(0, full); got != filterplan.MinBudget {
				t.Errorf("%s, full %v: no filters need %d bytes", tt.name, full, got)
			}
		}
	}
}

func TestAFreshTableKeepsItsFilterIfMemoryHasSpaceForIt(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 5000, mib)
	if got := s.table.Keys.Bytes(); got != s.whole {
		t.Fatalf("%d bytes of the filter are in memory, want all %d", got, s.whole)
	}
	must(t, s.LoadFresh(s.table))
	if got := s.table.Keys.Bytes(); got != s.whole {
		t.Errorf("with space: %d bytes of the filter are in memory, want all %d", got, s.whole)
	}
	held := p.Held.Bytes().Fixed()
	take(p, s.whole/2)
	must(t, s.LoadFresh(s.table))
	if got := s.table.Keys.Bytes(); got != 0 || p.Held.filterBytes() != 0 {
		t.Errorf("without space: %d bytes of the filter are in memory, of %d counted ones", got, p.Held.filterBytes())
	}
	h := bloomblock.HashKey([]byte("absent"))
	var st sstable.Stats
	if maybe, asked, err := s.table.Reader.AskFile(h, &st); maybe || !asked || err != nil {
		t.Errorf("the filter is asked in its file: %v, says maybe: %v, %v", asked, maybe, err)
	}

	s.Rebalance() // the plan of the new tree
	s.Restore(t.Context())
	if got := s.table.Keys.Bytes(); got == 0 || got > s.whole/2 {
		t.Errorf("after the plan: %d bytes of the filter are in memory, want up to half of %d", got, s.whole)
	}
	p.Held.Add(tree.TableBytes{RangeDeletes: held - p.Held.Bytes().Fixed()})
	p.Rebalance()
	if !s.hasRoom() {
		t.Error("Room does not receive when there is memory again")
	}
	s.Restore(t.Context())
	if got := s.table.Keys.Bytes(); got != s.whole || p.Held.filterBytes() != s.whole {
		t.Errorf("with memory again: %d bytes of the filter are in memory, %d are counted, want all %d",
			got, p.Held.filterBytes(), s.whole)
	}
}

// TestAFreshFilterIsLoadedThoughMemoryWasDividedBeforeItsInstall replaces a table in a store whose memory has space for
// one filter, and not for two. Before the new table is in a state, and while the state is new, memory is divided.
func TestAFreshFilterIsLoadedThoughMemoryWasDividedBeforeItsInstall(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 5000, mib)
	s.fill(2 * mib) // so that nothing is lent
	p.Rebalance()
	take(p, s.whole*3/2)
	p.Rebalance()
	number, err := s.Tree.NewNumber()
	must(t, err)
	meta := writeTable(t, s.Tree.FS, number, 5000, s.Plans(), sstable.PrefixRule{})
	e := &manifest.Edit{
		LastSeq: 2,
		Deleted: []manifest.Deleted{{Level: manifest.NumLevels - 1, Number: s.table.Meta.Number}},
		Added:   []manifest.Added{{Level: manifest.NumLevels - 1, Run: 2, Table: meta}},
	}
	fresh := s.Tree.Fresh(e)
	must(t, s.LoadFresh(fresh[0]))
	if got := fresh[0].Keys.Bytes(); got != 0 || !p.whole {
		t.Fatalf("%d bytes of the new filter are in memory, all others: %v", got, p.whole)
	}
	p.Rebalance()
	old, now, _, err := s.Tree.Install(e, fresh, tree.Change{})
	must(t, err)
	p.Rebalance()
	s.Follow(old, now, fresh, e.Deleted)
	s.Restore(t.Context())
	if got := fresh[0].Keys.Bytes(); got != s.whole {
		t.Errorf("%d bytes of the new filter are in memory, want all %d", got, s.whole)
	}
}

// TestADeletedTableIsReducedAfterItsLoad deletes a table while its filter is being loaded, which may read a file: the
// plan does not wait for it, since flushes wait for the plan.
func TestADeletedTableIsReducedAfterItsLoad(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 5000, mib)
	s.table.Loading.Lock()
	deleted := []manifest.Deleted{{Level: manifest.NumLevels - 1, Number: s.table.Meta.Number}}
	old, now, _, err := s.Tree.Install(&manifest.Edit{Deleted: deleted}, nil, tree.Change{})
	must(t, err)
	followed := make(chan bool)
	go func() {
		s.Follow(old, now, nil, deleted)
		close(followed)
	}()
	select {
	case <-followed:
	case <-time.After(testkit.Patience):
		t.Error("the plan waits for the load of a table")
	}
	if got := s.table.Keys.Bytes(); got != s.whole {
		t.Errorf("during the load %d bytes of the filter are in memory, want all %d", got, s.whole)
	}
	s.settle(s.table)
	<-followed
	if got := s.table.Keys.Bytes(); got != 0 {
		t.Errorf("after the load %d bytes of the filter are in memory, want none", got)
	}
}

// TestFollowingAnEditOfOneTableIsCheap compares what it allocates with one table and with thousands.
func TestFollowingAnEditOfOneTableIsCheap(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 10, mib)
	number := s.table.Meta.Number
	deleted := []manifest.Deleted{{Level: manifest.NumLevels - 1, Number: number}}
	allocated := func() uint64 { // bytes
		now := s.Tree.Load()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.Follow(now, now, nil, deleted)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	allocated()
	one := allocated()
	for range 5000 {
		_, err := s.Tree.NewNumber()
		must(t, err)
	}
	e := new(manifest.Edit)
	for i := range uint64(5000) {
		key := fmt.Appendf(nil, "more%05d", i)
		table := &manifest.Table{Number: number + 1 + i, ID: i + 2, Size: 100, Entries: 1, Smallest: key, Largest: key}
		e.Added = append(e.Added, manifest.Added{Level: 1, Run: 2, Table: table})
	}
	_, _, _, err := s.Tree.Install(e, s.Tree.Fresh(e), tree.Change{})
	must(t, err)
	if many := allocated(); many > one+5000*8 {
		t.Errorf("%d bytes with thousands of tables, %d with one", many, one)
	}
}

// TestIdleMemtablesLendTheirMemory fills memtables of one store, which takes memory from the filter of another, and
// empties them.
func TestIdleMemtablesLendTheirMemory(t *testing.T) {
	const memtable = 64 << 10
	p := NewPool(16*mib, 8)
	writer, reader := join(t, p, 10, memtable), join(t, p, 50_000, memtable)
	idle := p.lent.Load()
	if most := int64(4 * memtable); idle < most*2/3 || idle > most {
		t.Fatalf("idle stores lend %d bytes of %d", idle, most)
	}
	take(p, reader.whole+64)
	p.Rebalance()
	expect := func(when string, least, most int64, kept bool) {
		t.Helper()
		reader.Restore(t.Context())
		got, q := reader.table.Keys.Bytes(), reader.promise.Load()
		if got < least || got > most || got > p.filterSpace(p.Free()) || q.Kept(q.Now) != kept || q.Kept(q.Full) {
			t.Errorf("%s: %d bytes of the filter are in memory, want %d to %d; the promise is kept: %v, want %v; %v",
				when, got, least, most, q.Kept(q.Now), kept, q)
		}
	}
	expect("while memtables are empty", reader.whole, reader.whole, true)

	before := writer.Tree.Load().Mem.Bytes()
	writer.fill(memtable / 2)
	writer.pace.since = writer.pace.since.Add(-fastStep)
	taken := writer.Tree.Load().Mem.Bytes() - before
	p.Rebalance()
	if got := idle - p.lent.Load(); got != taken {
		t.Errorf("a memtable that has grown by %d bytes takes back %d", taken, got)
	}
	expect("when a memtable is half full", 1, reader.whole-taken/2, false)
	full := reader.table.Keys.Bytes()

	writer.Tree.Freeze(nil, 1<<20, batch.Mark{}, memtable)
	_, _, _, err := writer.Tree.Install(&manifest.Edit{LastSeq: 1 << 20}, nil, tree.Change{Flushed: true})
	must(t, err)
	p.Rebalance()
	expect("just after the flush", full, full, false)
	if !writer.Lends() {
		t.Error("a store with an empty memtable has nothing to lend later")
	}
	for range 2 {
		writer.later(lendAfter)
		p.Rebalance()
	}
	expect("two minutes after the flush", reader.whole, reader.whole, true)
	if writer.Lends() {
		t.Error("a store that lends all has more to lend later")
	}
}

// TestAPromiseIsReportedOnceUntilItChanges counts the reports of a store whose memory becomes short and enough again.
func TestAPromiseIsReportedOnceUntilItChanges(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 100_000, mib)
	held := p.Held.Bytes().Fixed()
	for _, short := range []bool{true, true, false, false, true} {
		if p.Held.Add(tree.TableBytes{RangeDeletes: held - p.Held.Bytes().Fixed()}); short {
			take(p, s.whole/3)
		}
		p.Rebalance()
		s.Restore(t.Context())
	}
	kept := []bool{}
	for _, q := range s.told.promises {
		kept = append(kept, q.Kept(q.Full))
	}
	if want := []bool{false, true, false}; !slices.Equal(kept, want) {
		t.Errorf("the store was told whether promises are kept: %v, want %v", kept, want)
	}
}

// TestAPromiseIsReportedIfItIsMissedByASixteenth sets what is promised, with all filters whole and as memory allows.
func TestAPromiseIsReportedIfItIsMissedByASixteenth(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 100, mib)
	for i, c := range []struct {
		told   bool
		passed float64
		want   bool
	}{
		{false, 1, false},
		{false, 1 + 1./17, false},
		{false, 1 + 1./16, true},
		{true, 1 + 1./16, false},
		{true, 1 + 1./17, false},
		{true, 1, true},
	} {
		s.told.promises = nil
		s.Share.told.Store(c.told)
		s.promise.Store(&Promises{Whole: 1, Full: filterplan.Promise{Passed: c.passed}})
		if s.report(); (len(s.told.promises) == 1) != c.want || s.Share.told.Load() != (c.told != c.want) {
			t.Errorf("case %d: %d reports, want one: %v", i, len(s.told.promises), c.want)
		}
	}
}

// TestReplacedFiltersTakeLittleMemory takes three quarters of the memory of filters. Those that are replaced stay until
// the collector has run, so that not all may be replaced at once.
func TestReplacedFiltersTakeLittleMemory(t *testing.T) {
	testkit.Long(t)
	const memory = mib
	p := NewPool(memory, 64)
	var stores []*testStore
	all := int64(0)
	for range 12 {
		s := join(t, p, 30_000, 1<<10)
		stores = append(stores, s)
		all += s.whole
	}
	take(p, all/4)
	p.Rebalance()
	testkit.Soon(t, "filters take a quarter of what they need", func() bool {
		replaced := p.Pieces.Lent() - p.Held.filterBytes() // read in this order, it may be too small
		if most := p.mostReplaced() + stores[0].whole + 1000; replaced > most {
			t.Fatalf("replaced filters take %d bytes, want at most %d", replaced, most)
		}
		return !slices.ContainsFunc(stores, func(s *testStore) bool { return s.exceeds(s.table) })
	})
	if got := p.Held.filterBytes(); got > all/4 || got < all/8 {
		t.Errorf("filters take %d bytes, want up to %d", got, all/4)
	}
}

// TestAFilterThatWasNotReadCountsWithAllItsBytes compares what the manifest tells with the header of the filter.
func TestAFilterThatWasNotReadCountsWithAllItsBytes(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 5000, mib)
	meta := *s.table.Meta
	known := s.table.Keys.Forms(0.01)
	unread := appendUnread(nil, &meta, 0.01)
	none, all := unread[0], unread[len(unread)-1]
	if want := known[len(known)-1]; len(unread) != 2 || none != known[0] ||
		all.Bytes < want.Bytes || all.Bytes > want.Bytes+128 || all.Rate < want.Rate || all.Rate > want.Rate*1.02 {
		t.Errorf("forms of a filter that was not read: %+v, those of its header: %+v", unread, known)
	}
	if got := appendUnread(nil, &meta, 1); len(got) != 1 {
		t.Errorf("where no filter is asked: %+v", got)
	}
	meta.FilterLen = bloomblock.HeaderSize
	if got := appendUnread(nil, &meta, 0.01); len(got) != 1 {
		t.Errorf("without units: %+v", got)
	}
}

func TestATableOfRangeTombstonesAloneIsNeverOffPlan(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 5000, mib)
	meta := *s.table.Meta
	s.table.Meta = &meta
	good := s.Plans().Good
	for _, c := range []struct {
		entries uint64
		rate    float64
		off     bool
	}{{meta.Entries, meta.FilterRate, false}, {meta.Entries, 0.5, true}, {meta.Entries, 1, true}, {0, 1, false}} {
		meta.Entries, meta.FilterRate = c.entries, c.rate
		if got := s.OffPlan(manifest.NumLevels-1, s.table, good); got != c.off {
			t.Errorf("%d entries, rate %g: off plan %v", c.entries, c.rate, got)
		}
	}
}

// TestLeaveGivesBackAllThatAStoreHad closes one of two stores, whose table and one of whose blocks are in memory: with
// its last state, and without, as when the table is not in that state.
func TestLeaveGivesBackAllThatAStoreHad(t *testing.T) {
	for _, stated := range []bool{true, false} {
		p := NewPool(16*mib, 8)
		join(t, p, 100, mib)
		before, parts, lent := p.Usage(), p.Parts.Bytes(), p.Pieces.Lent()
		s := join(t, p, 5000, mib)
		it := s.table.Reader.Iter(sstable.IterOptions{})
		if !it.First() {
			t.Fatal(it.Err())
		}
		must(t, it.Close())
		if u := p.Usage(); u.Cached <= before.Cached || u.OpenFiles <= before.OpenFiles || p.Parts.Bytes() <= parts {
			t.Fatalf("the store has nothing to give back: %+v after %+v", u, before)
		}
		s.Tree.Close()
		last := s.Tree.End()
		if !stated {
			last = nil
		}
		must(t, s.Leave(last))
		after := p.Usage()
		after.Spare = before.Spare
		if after != before || p.Parts.Bytes() != parts || p.Reserved.Load() != 2*mib {
			t.Errorf("with its last state %v: %+v, %d bytes of parts, %d reserved; before the store joined: %+v, %d",
				stated, after, p.Parts.Bytes(), p.Reserved.Load(), before, parts)
		}
		if stated {
			testkit.Soon(t, "the memory of the filter comes back", func() bool {
				runtime.GC()
				return p.Pieces.Lent() == lent
			})
		}
		s.WarmUp(t.Context())
		s.Restore(t.Context())
		if s.Lends() || p.Usage().Tables != before.Tables {
			t.Errorf("a store that has left lends %v, and there is %+v", s.Lends(), p.Usage())
		}
	}
}

func TestWhatIsLoadedAfterAStoreHasLeftIsNotCounted(t *testing.T) {
	p := NewPool(16*mib, 8)
	join(t, p, 100, mib)
	before := p.Usage()
	s := join(t, p, 5000, mib)
	s.Tree.Close()
	must(t, s.Leave(s.Tree.End()))
	s.Count(1000) // of a lookup that was under way
	if u := p.Usage(); u.Tables != before.Tables {
		t.Errorf("the pool counts %d bytes, want %d", u.Tables, before.Tables)
	}
}

func TestLeaveReportsThatAFileCannotBeClosed(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 100, mib)
	s.Tree.Close()
	last := s.Tree.End()
	s.failClose = errors.New("no close")
	if err := s.Leave(last); !errors.Is(err, s.failClose) {
		t.Errorf("%v, want %v", err, s.failClose)
	}
}

// TestAWholeFilterIsPlannedWithoutABound is right even if the filter turns out to be larger, once it is read.
func TestAWholeFilterIsPlannedWithoutABound(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 5000, mib)
	for _, left := range []int64{s.whole / 2, s.whole} {
		take(p, left)
		p.dropped.Store(true)
		p.Rebalance()
		if most := s.table.Keys.Most.Load(); (most == math.MaxInt64) != (left == s.whole) || most == s.whole {
			t.Errorf("%d bytes of %d are left: planned are up to %d", left, s.whole, most)
		}
	}
}

// TestALoadReportsThatItCannotReadTheFilter drops the filter of a table, and loads it again.
func TestALoadReportsThatItCannotReadTheFilter(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 5000, mib)
	held := p.Held.Bytes().Fixed()
	take(p, 0)
	p.Rebalance()
	p.Held.Add(tree.TableBytes{RangeDeletes: held - p.Held.Bytes().Fixed()})
	p.Rebalance()
	s.fail = errors.New("no read")
	if err := s.Load(s.table); !errors.Is(err, s.fail) || s.table.Keys.Bytes() != 0 {
		t.Errorf("%v, want %v; %d bytes of the filter are in memory", err, s.fail, s.table.Keys.Bytes())
	}
	s.Restore(t.Context())
	if !errors.Is(errors.Join(s.told.failed...), s.fail) {
		t.Errorf("the store was told of %v, want %v", s.told.failed, s.fail)
	}
	s.fail = nil
	if err := s.Load(s.table); err != nil || s.table.Keys.Bytes() != s.whole {
		t.Errorf("%v; %d bytes of the filter are in memory, want all %d", err, s.table.Keys.Bytes(), s.whole)
	}
}

// TestFiltersOfPrefixesAreLoadedOnlyIfFiltersAreAsked has a plan without filters, and none at all.
func TestFiltersOfPrefixesAreLoadedOnlyIfFiltersAreAsked(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 5000, mib)
	none, plans := filterplan.Plan{FPR: 1}, s.Plans()
	for l := range none.Levels {
		none.Levels[l].Rate = 1
	}
	s.plans.Store(&filterplan.Plans{Now: &none})
	s.planned.Store(nil)
	_, before := s.TailLoads()
	must(t, s.LoadPrefixes(s.table))
	if _, after := s.TailLoads(); after != before || s.planned.Load() != nil {
		t.Errorf("%d bytes are read for a store without filters", after-before)
	}
	s.plans.Store(plans)
	must(t, s.LoadPrefixes(s.table))
	if _, after := s.TailLoads(); after == before || s.planned.Load() == nil {
		t.Errorf("%d bytes are read for a store with filters, which has divided its memory %v", after-before,
			s.planned.Load() != nil)
	}
}

// TestATableWithoutAFilterShallHaveNoPrefixes has a table with a filter of prefixes, which a plan without filters has
// no more.
func TestATableWithoutAFilterShallHaveNoPrefixes(t *testing.T) {
	s := joinWith(t, NewPool(16*mib, 8), 100, mib, sstable.PrefixLen(9))
	meta := *s.table.Meta
	if s.OffPlan(manifest.NumLevels-1, s.table, []*filterplan.Plan{s.Plans().Now}) {
		t.Error("a table as planned is off plan")
	}
	none, err := s.Planner.First(1)
	must(t, err)
	meta.FilterRate = 1
	s.table.Meta = &meta
	if filterplan.Off([]*filterplan.Plan{none.Now}, manifest.NumLevels-1, 1) ||
		!s.OffPlan(manifest.NumLevels-1, s.table, []*filterplan.Plan{none.Now}) {
		t.Error("a table with prefixes is on a plan without filters")
	}
}

func TestPrefixesThatCannotBeReadAreAnError(t *testing.T) {
	s := joinWith(t, NewPool(16*mib, 8), 100, mib, sstable.PrefixLen(9))
	s.fail = errors.New("no read")
	if err := s.LoadPrefixes(s.table); !errors.Is(err, s.fail) {
		t.Errorf("%v, want %v", err, s.fail)
	}
}

// TestFiltersOfPrefixesGetWhatThoseOfKeysLeave takes memory from both until only half of the prefixes fit.
func TestFiltersOfPrefixesGetWhatThoseOfKeysLeave(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := joinWith(t, p, 100_000, mib, sstable.PrefixLen(9))
	must(t, s.LoadPrefixes(s.table))
	whole := s.table.Prefixes.Bytes()
	for _, left := range []int64{whole, whole / 2} {
		take(p, s.whole+left)
		p.Rebalance()
		if keys, got := s.table.Keys.Bytes(), s.table.Prefixes.Bytes(); keys != s.whole || got == 0 && left == whole ||
			(got < whole) != (left < whole) {
			t.Errorf("keys have %d bytes of %d, prefixes %d, want up to %d", keys, s.whole, got, left)
		}
	}
}

func TestReplacedFiltersMayTakeASixteenth(t *testing.T) {
	for memory, want := range map[int64]int64{4 * mib: mib, 8 * mib: 2 * mib, 16 * mib: 2 * mib, 64 * mib: 4 * mib} {
		if got := NewPool(memory, 8).mostReplaced(); got != want {
			t.Errorf("of %d bytes: %d, want %d", memory, got, want)
		}
	}
}

func TestTheCacheGivesWayToAFilterThatIsLoaded(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 100_000, mib)
	s.table.Keys.Most.Store(0)
	s.reduce(s.table)
	p.fit()
	before := p.Blocks.Stats().Capacity
	s.table.Keys.Most.Store(math.MaxInt64)
	must(t, s.Load(s.table))
	if less := before - p.Blocks.Stats().Capacity; less < s.whole*9/10 || less > s.whole*11/10 {
		t.Errorf("the cache has %d bytes less, want about the %d of the filter", less, s.whole)
	}
}

// TestTheCacheGetsWhatIsLeftInTheEnd has filters grow while another goroutine sets what the cache may have.
func TestTheCacheGetsWhatIsLeftInTheEnd(t *testing.T) {
	p := NewPool(16*mib, 8)
	join(t, p, 100, mib)
	before := p.Blocks.Stats().Capacity
	p.fitting.Lock()
	p.Held.Add(tree.TableBytes{RangeDeletes: mib})
	testkit.Within(t, "fit", p.fit)
	if got := p.Blocks.Stats().Capacity; got != before || !p.unfitted.Load() {
		t.Errorf("the cache may have %d bytes, %d before, while another goroutine sets it", got, before)
	}
	p.fitting.Unlock()
	p.fit()
	if got, most := p.Blocks.Stats().Capacity, before-mib*9/10; got > most || p.unfitted.Load() {
		t.Errorf("the cache may have %d bytes, want at most %d", got, most)
	}
}

func TestRestoreDividesMemoryForWhatIsKnownOnlyNow(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 100, mib)
	p.unplanned.Store(true)
	s.planned.Store(nil)
	if s.Restore(t.Context()); p.unplanned.Load() || s.planned.Load() == nil {
		t.Error("memory is not divided")
	}
}

func TestACopyOfAFilterThatCannotBeReadIsAnError(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 5000, mib)
	if c, err := s.CopyFilter(s.table, 0.01); err != nil || c.Read == 0 {
		t.Errorf("%+v, %v", c, err)
	}
	s.fail = errors.New("no read")
	if _, err := s.CopyFilter(s.table, 0.01); !errors.Is(err, s.fail) {
		t.Errorf("%v, want %v", err, s.fail)
	}
}

// TestATableThatIsNotKnownIsNotReady reduces one whose tail was never read.
func TestATableThatIsNotKnownIsNotReady(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 100, mib)
	table := s.Tree.NewTable(s.table.Meta)
	if s.reduce(table); table.Ready.Load() {
		t.Error("lookups may use a table that was never loaded")
	}
	must(t, s.Load(table))
	if s.reduce(table); !table.Ready.Load() {
		t.Error("lookups may not use a table that was loaded")
	}
	must(t, s.ReleaseTable(table))
}

func TestAStoreLoadsFiltersOnlyIfTheyMayGrow(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 5000, mib)
	take(p, 0)
	p.Rebalance()
	if got := s.table.Keys.Bytes(); got != 0 || s.Owes() {
		t.Errorf("filters shall grow when this one was reduced to %d bytes of %d", got, s.whole)
	}
	take(p, s.whole+64)
	if p.Rebalance(); !s.Owes() || !s.hasRoom() {
		t.Error("filters do not grow when there is memory again")
	}
}

// TestFiltersThatCannotBeReadAreTriedAgain has reads fail a few times, of a filter that memory has space for again.
func TestFiltersThatCannotBeReadAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(16*mib, 8)
		s := join(t, p, 5000, mib)
		s.fill(2 * mib) // so that nothing is lent
		for _, left := range []int64{0, s.whole * 3 / 2} {
			take(p, left)
			p.Rebalance()
		}
		s.fail = errors.New("no read")
		for _, pause := range []time.Duration{leastPause, 2 * leastPause, 4 * leastPause} {
			s.Restore(t.Context())
			p.Rebalance()
			s.hasRoom()
			if s.Planned(s.Tree.Load()) || s.Owes() {
				t.Error("filters follow the plan, or are to be tried again at once")
			}
			time.Sleep(pause - 1)
			synctest.Wait()
			if s.hasRoom() {
				t.Errorf("filters are tried again in less than %v", pause)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if !s.hasRoom() || !s.Owes() {
				t.Errorf("filters are not tried again after %v", pause)
			}
		}
		s.fail = nil
		s.Restore(t.Context())
		if got := s.table.Keys.Bytes(); got != s.whole || !s.Planned(s.Tree.Load()) {
			t.Errorf("%d bytes of the filter are in memory, want all %d", got, s.whole)
		}

		for _, left := range []int64{0, s.whole * 3 / 2} {
			take(p, left)
			p.Rebalance()
		}
		s.fail = errors.New("no read")
		s.Restore(t.Context())
		if s.Planned(s.Tree.Load()) {
			t.Error("no read has failed")
		}
		must(t, s.Leave(s.Tree.Load()))
		owed := s.owed.Load()
		time.Sleep(2 * mostPause)
		synctest.Wait()
		if s.owed.Load() != owed {
			t.Error("filters of a closed store are tried again")
		}
	})
}

// TestWhatIsLackingDuringALoadIsOwed has memory divided anew during a load.
func TestWhatIsLackingDuringALoadIsOwed(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 5000, mib)
	s.table.Keys.Most.Store(0)
	s.reduce(s.table)
	s.table.Keys.Most.Store(math.MaxInt64)
	s.owed.Add(1)
	s.onRead = func() { s.owed.Add(1) }
	if !s.Restore(t.Context()) || !s.Owes() {
		t.Error("what was found to lack during a load counts as loaded")
	}
	s.onRead = nil
	if !s.Restore(t.Context()) || s.Owes() || s.Restore(t.Context()) {
		t.Error("filters are loaded again though they lack nothing")
	}
}

// TestNothingIsDividedIfAllFiltersKeepWhatIsAsked asks fits about filters that are built as planned, and others.
func TestNothingIsDividedIfAllFiltersKeepWhatIsAsked(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 5000, mib)
	state, plan := s.Tree.Load(), *s.Plans().Now
	run := state.Runs[0]
	for _, c := range []struct {
		name      string
		worst     float64 // of the run, in relation to the plan
		fpr       float64
		memory    int64
		wantsFits bool
	}{
		{"filters as planned", 1, 0.01, 0, true},
		{"a filter that is too poor", 1.001, 0.01, 0, false},
		{"a store with a bound on memory", 1, 0.01, 1, false},
		{"a store without filters", 1, 1, 0, false},
	} {
		plan.FPR, s.Planner.Memory = c.fpr, c.memory
		s.plans.Store(&filterplan.Plans{Now: &plan})
		run.WorstRate = c.worst * plan.Levels[run.Level].Rate
		if bytes, ok := s.fits(state); ok != c.wantsFits || bytes < s.whole {
			t.Errorf("%s: %d bytes, fits %v; %d bytes are in memory", c.name, bytes, ok, s.whole)
		}
	}
}

// TestAPlanLeavesOtherStoresTheirFilters has a store plan with the most that the filters of others may take for it to
// build filters as if there were room to spare, and one byte more.
func TestAPlanLeavesOtherStoresTheirFilters(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 5000, mib)
	state := s.Tree.Load()
	runs := []filterplan.Run{{Level: manifest.NumLevels - 1, Tables: 1, Keys: 5000}}
	roomy := *s.Plans().Now
	least := sort.Search(mib, func(space int) bool {
		return *s.Planner.ForSpace(&filterplan.Plans{Now: &roomy}, runs, int64(space)).Now == roomy
	})
	others := p.filterSpace(p.Memory-p.Reserved.Load()) - int64(least)
	for _, more := range []int64{0, 1} {
		p.Held.Add(tree.TableBytes{Filter: others + more})
		must(t, s.Replan(state))
		p.Held.Add(tree.TableBytes{Filter: -others - more})
		if got := *s.Plans().Now == roomy; got != (more == 0) {
			t.Errorf("others have %d bytes more than leave twice the filters: there is room to spare: %v", more, got)
		}
	}
}

// TestRebalanceWaitsOnlyForAStoreThatIsAlone rebalances while another goroutine does so.
func TestRebalanceWaitsOnlyForAStoreThatIsAlone(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 100, mib)
	p.Balancing.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Rebalance()
	}()
	testkit.Soon(t, "Rebalance begins", p.unbalanced.Load)
	p.Balancing.Unlock()
	<-done
	if p.unbalanced.Load() {
		t.Error("memory is not divided when the Rebalance of a store that is alone returns")
	}
	join(t, p, 100, mib)
	p.Balancing.Lock()
	defer p.Balancing.Unlock()
	testkit.Within(t, "Rebalance of one of two stores", s.Rebalance)
	if !p.unbalanced.Load() {
		t.Error("nobody divides the memory later")
	}
}

// TestACallerDoesNoMoreThanItsOwnTurn has others ask for more work during each turn, and the second turn hang.
func TestACallerDoesNoMoreThanItsOwnTurn(t *testing.T) {
	const turns = 100
	var p Pool
	var done atomic.Int64
	due, gate := &p.unbalanced, make(chan struct{})
	due.Store(true)
	testkit.Within(t, "the first turn", func() {
		inTurn(due, &p.Balancing, func() {
			due.Store(false)
			n := done.Add(1)
			if n > 1 {
				<-gate
			}
			due.Store(n < turns)
		})
	})
	close(gate)
	testkit.Soon(t, "what was asked for is done", func() bool { return done.Load() == turns && !due.Load() })
}

// TestLendsDoesWhatWasLeftToIt leaves a division of memory to a call of Lends, as one that finds its lock taken does.
func TestLendsDoesWhatWasLeftToIt(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 100, mib)
	p.unbalanced.Store(true)
	s.Lends()
	if p.unbalanced.Load() {
		t.Error("nobody divides the memory")
	}
}

func TestAReleasedTableCountsNoMore(t *testing.T) {
	p := NewPool(16*mib, 8)
	s := join(t, p, 5000, mib)
	must(t, s.ReleaseTable(s.table))
	if got := p.Held.Bytes(); got != (tree.TableBytes{}) || s.Bytes() != got {
		t.Errorf("%+v are counted, %+v of the store", got, s.Bytes())
	}
}

// TestAFilterIsShortIfItIsNotWhole changes what the manifest says of a table, and what its filter may have in memory.
func TestAFilterIsShortIfItIsNotWhole(t *testing.T) {
	s := join(t, NewPool(16*mib, 8), 5000, mib)
	meta, whole := *s.table.Meta, s.table.Meta
	s.table.Meta = &meta
	if s.Short(s.table) {
		t.Error("a whole filter is short")
	}
	s.table.Keys.Most.Store(0)
	s.reduce(s.table)
	for _, c := range []struct {
		filter, entries uint64
		short           bool
	}{{whole.FilterLen, whole.Entries, true}, {0, whole.Entries, false}, {whole.FilterLen, 0, false}} {
		meta.FilterLen, meta.Entries = c.filter, c.entries
		if got := s.Short(s.table); got != c.short {
			t.Errorf("%d bytes in the file, %d entries, none in memory: short %v", c.filter, c.entries, got)
		}
	}
}

func TestAPaceIsFastIfAStepTakesLessThanASecond(t *testing.T) {
	var p pace
	begin := time.Unix(1_000_000, 0)
	for i, c := range []struct {
		at    time.Duration // in tenths of a second
		bytes int64
		want  bool
	}{
		{0, 10, false}, // the first call
		{9, 20, true},
		{19, 30, false},
		{28, 30, false}, // does not begin a step
		{33, 40, false},
		{34, 5, false}, // a flush, which begins a step
		{43, 15, true},
		{44, 24, false},
		{52, 25, true},
	} {
		if got := p.fast(c.bytes, 10, begin.Add(c.at*fastStep/10)); got != c.want {
			t.Errorf("call %d: %d bytes after %v: fast %v", i, c.bytes, c.at*fastStep/10, got)
		}
	}
}

// TestWarmUpWakesCompactionsAFewTimes has many tables with range tombstones, all of which each choice looks at.
func TestWarmUpWakesCompactionsAFewTimes(t *testing.T) {
	const tables = 200
	s := join(t, NewPool(16*mib, 8), 1, mib)
	e := &manifest.Edit{LastSeq: 2}
	for i := range tables {
		number, err := s.Tree.NewNumber()
		must(t, err)
		var file bytes.Buffer
		w := sstable.NewWriter(&file, sstable.WriterOptions{ID: number})
		key := fmt.Appendf(nil, "a%03d", i)
		must(t, w.AddRangeDel(rangedel.Fragment{Start: key, End: append(key, 0), Seqs: []ikey.Seq{2}}))
		info, err := w.Finish()
		must(t, err)
		f, err := s.Tree.FS.Create("db/" + filename.Base(filename.Table, number))
		must(t, err)
		_, err = f.Write(file.Bytes())
		must(t, errors.Join(err, f.Close()))
		e.Added = append(e.Added, manifest.Added{Level: 3, Run: 2, Table: compaction.Table(number, info)})
	}
	_, _, _, err := s.Tree.Install(e, s.Tree.Fresh(e), tree.Change{})
	must(t, err)
	before := s.Tree.View().Changes
	s.WarmUp(t.Context())
	loaded := 0
	s.Tree.Load().EachTable(func(_ int, table *tree.Table) {
		if table.Reader.RangeDels() != nil {
			loaded++
		}
	})
	if n := s.Tree.View().Changes - before; n < 2 || n > 10 || loaded != tables {
		t.Errorf("compactions are woken %d times for %d tables that are loaded, want 2 to 10", n, loaded)
	}
}
