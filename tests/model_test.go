package tests

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var modelSeed = flag.Uint64("model.seed", 0, "run only the model sequence of this seed")

// TestTheStoreBehavesLikeAMap runs random programs on a store and on a map. A failure prints its seed.
func TestTheStoreBehavesLikeAMap(t *testing.T) {
	sequences, operations := storetest.Seeds(200), 2000
	if testkit.RaceEnabled {
		operations = 500
	}
	const workers = 8
	little := modelMemory(t)
	var pages atomic.Uint64
	t.Cleanup(func() {
		if pages.Load() == 0 && *modelSeed == 0 && !t.Failed() {
			t.Error("no filter was asked in its file")
		}
	})
	for w := range workers {
		t.Run(fmt.Sprintf("worker %d", w), func(t *testing.T) {
			t.Parallel()
			for i := w; i < sequences; i += workers {
				seed := uint64(i + 1)
				if *modelSeed != 0 {
					if seed = *modelSeed; i > 0 {
						return
					}
				}
				rng := rand.New(rand.NewPCG(seed, 0))
				m := &modelRun{
					next: func(n int) int { return rng.IntN(n) },
					more: func(done int) bool { return done < operations }, little: little,
				}
				err := m.run()
				pages.Add(m.pages)
				if err != nil {
					t.Fatalf("%v\nafter: %s\nreplay with: go test -run %s -model.seed=%d", err, m.tail(),
						"TestTheStoreBehavesLikeAMap", seed)
				}
				storetest.Progress.Add(1)
			}
		})
	}
}

// FuzzModel interprets bytes as a program: a choice is one byte, or two if there are more than 256 alternatives.
func FuzzModel(f *testing.F) {
	for seed := range uint64(4) {
		program := make([]byte, 600)
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range program {
			program[i] = byte(rng.Uint32())
		}
		f.Add(program)
	}
	f.Add([]byte("put, delete and batch are small numbers; the rest is rarer"))
	f.Add(bytes.Repeat([]byte{0, 10, 20, 255}, 100))
	little := modelMemory(f)
	f.Fuzz(func(t *testing.T, program []byte) {
		m := &modelRun{
			next: func(n int) int {
				wide := 1
				if n > 256 {
					wide = 2
				}
				var b [2]byte
				program = program[copy(b[:wide], program):]
				return int(binary.LittleEndian.Uint16(b[:])) % n
			},
			more: func(done int) bool { return len(program) > 0 && done < 2000 }, little: little,
		}
		if err := m.run(); err != nil {
			t.Fatalf("%v\nafter: %s", err, m.tail())
		}
	})
}

// modelMemory returns memory for stores of modelRuns: as much as their filters need, a part of it, or none.
func modelMemory(tb testing.TB) []*bloomkv.Resources {
	tb.Helper()
	return []*bloomkv.Resources{
		littleMemory(tb, 2<<20), littleMemory(tb, 48<<10), littleMemory(tb, 0),
	}
}

// A modelRun is one program run on a store and its model. A crash may leave any state from the last durable one on.
type modelRun struct {
	next func(n int) int     // returns a choice below n
	more func(done int) bool // reports whether to do another operation

	little []*bloomkv.Resources // memory that stores may share, less and less
	pages  uint64               // pages of filters that were asked in files

	fs   *vfstest.Mem
	opts *bloomkv.Options
	db   *bloomkv.DB
	log  []string // the operations so far

	now     map[string]string
	durable map[string]string // a crash leaves at least this
	pending []modelWrite      // commits since then, in order
	commits int
	copies  int

	snaps []*modelSnap
	iters []*modelIter
}

type modelWrite []modelOp

// A modelOp puts value under key, deletes key, or deletes the range from key to end, nil for no end.
type modelOp struct {
	key, value  string
	del, ranged bool
	end         []byte
}

func (op modelOp) covers(key string) bool {
	return key >= op.key && (op.end == nil || key < string(op.end))
}

func (w modelWrite) apply(to map[string]string) {
	for _, op := range w {
		switch {
		case op.ranged:
			maps.DeleteFunc(to, func(k, _ string) bool { return op.covers(k) })
		case op.del:
			delete(to, op.key)
		default:
			to[op.key] = op.value
		}
	}
}

func putOp(k, v []byte) modelOp { return modelOp{key: string(k), value: string(v)} }

func deleteOp(k []byte) modelOp { return modelOp{key: string(k), del: true} }

func (m *modelRun) tail() string {
	from := max(0, len(m.log)-25)
	return fmt.Sprintf("%d operations, the last: %q\noptions %+v", len(m.log), m.log[from:], m.opts)
}

func (m *modelRun) run() (err error) {
	m.fs = vfstest.NewMem()
	m.now, m.durable = map[string]string{}, map[string]string{}
	if err := m.open(); err != nil {
		return err
	}
	defer func() {
		if m.db != nil {
			err = errors.Join(err, m.db.Close())
		}
	}()
	for done := 0; m.more(done); done++ {
		if err := m.step(); err != nil {
			return err
		}
	}
	if err := m.agree(); err != nil {
		return err
	}
	m.count()
	db := m.db
	m.db = nil
	if err := db.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := m.dropReaders(); err != nil {
		return err
	}
	report, err := bloomkv.Check(context.Background(), "db", bloomkv.CheckOptions{FS: m.opts.FS})
	if err == nil && report.Records > 0 {
		err = fmt.Errorf("check: %d records in logs after a clean Close", report.Records)
	}
	return err
}

// modelRules give prefixes to all of the model's keys, to some, or to those that contain a zero.
var modelRules = []bloomkv.PrefixRule{
	{},
	bloomkv.PrefixLen(1), bloomkv.PrefixLen(4), bloomkv.PrefixSeparator('/', 1), bloomkv.PrefixSeparator('/', 2),
	bloomkv.PrefixSeparator(0, 2),
}

// open opens the store with randomly chosen options.
func (m *modelRun) open() (err error) {
	pick := func(from ...int) int { return from[m.next(len(from))] }
	o := storetest.Tiny(m.fs)
	o.MemtableSize = int64(pick(16, 16, 24, 64)) << 10
	o.TableSize = int64(pick(16, 16, 32, 256)) << 10
	o.BaseLevelSize = int64(pick(64, 64, 128)) << 10
	o.LevelRatio = pick(2, 4, 10)
	o.BlockSize = pick(256, 512, 1024, 4096)
	o.FilterFPR = []float64{0, 0.01, 0.1, 0.001, 1}[m.next(5)]
	o.FilterKind = bloomkv.FilterKind(m.next(3))
	o.FilterPrefix = modelRules[m.next(len(modelRules))]
	o.Compression = bloomkv.Compression(m.next(3))
	o.MaxOpenFiles = pick(8, 500)
	o.Durability = bloomkv.Durability(m.next(3) / 2)
	switch n := m.next(8); {
	case n < len(m.little): // memory changes when a store is opened again
		o.MemoryBudget, o.MaxOpenFiles, o.Resources = 0, 0, m.little[n]
	case n == len(m.little):
		o.MemoryBudget = 12 << 20
	case n == len(m.little)+1:
		o.FilterFPR, o.FilterMemory = 0, 64<<10
	}
	m.opts = o
	m.note("open")
	if m.db, err = bloomkv.Open("db", o); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return nil
}

// count counts the pages of filters that the store has asked in files.
func (m *modelRun) count() { m.pages += m.db.Metrics().Lookups.FilterParts }

func (m *modelRun) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

// key returns one of a few hundred keys: some share prefixes, contain zeros or 0xff, or are empty.
func (m *modelRun) key() []byte {
	n := m.next(300)
	switch m.next(8) {
	case 0:
		return []byte{byte(n)}
	case 1:
		return fmt.Appendf(nil, "user/%04d/profile", n)
	case 2:
		return append(bytes.Repeat([]byte{0xff}, n%5), bytes.Repeat([]byte{0}, n%3)...)
	case 3:
		return binary.BigEndian.AppendUint64(nil, uint64(n))
	default:
		return fmt.Appendf(nil, "key%03d", n)
	}
}

func (m *modelRun) value() []byte {
	size := m.next(40)
	switch m.next(24) {
	case 0:
		size = 5000
	case 1, 2, 3:
		size = 600
	case 4:
		size = 0
	}
	m.commits++
	v := fmt.Appendf(nil, "%d/", m.commits)
	if size == 0 {
		return nil
	}
	for len(v) < size {
		v = append(v, v...)
	}
	return v[:max(size, 8)%(len(v)+1)]
}

func (m *modelRun) step() error {
	switch n := m.next(256); {
	case n < 70:
		k, v := m.key(), m.value()
		m.note("put %q %d", k, len(v))
		return m.wrote(m.db.Put(k, v), m.opts.Durability, modelWrite{putOp(k, v)})
	case n < 90:
		k := m.key()
		m.note("delete %q", k)
		return m.wrote(m.db.Delete(k), m.opts.Durability, modelWrite{deleteOp(k)})
	case n < 95:
		op := m.rangeOp()
		m.note("delete range %q to %q", op.key, op.end)
		err := m.db.DeleteRange(bloomkv.KeyRange{Lower: []byte(op.key), Upper: op.end})
		return m.wrote(err, m.opts.Durability, modelWrite{op})
	case n < 115:
		return m.batch()
	case n < 125:
		return m.conditional()
	case n < 150:
		return m.lookup(m.db, m.now, m.key())
	case n < 155:
		return m.lookups()
	case n < 170:
		return m.scan()
	case n < 205:
		return m.iterate()
	case n < 217:
		return m.snapshot()
	case n < 222:
		m.note("sync")
		return m.barrier(m.db.Sync())
	case n < 228:
		m.note("flush")
		return m.barrier(m.db.Flush(context.Background()))
	case n < 231:
		return m.compact()
	case n < 232:
		return m.agree()
	case n < 235:
		return m.ingest()
	case n < 236:
		return m.checkpoint()
	case n < 238:
		m.note("close")
		m.count()
		if err := m.barrier(m.db.Close()); err != nil {
			return err
		}
		if err := m.dropReaders(); err != nil {
			return err
		}
		return m.open()
	case n < 242:
		return m.crash()
	default:
		return m.lookup(m.db, m.now, m.key())
	}
}

// rangeOp returns a range delete. Most are small, and all shapes occur.
func (m *modelRun) rangeOp() modelOp {
	lo, hi := m.key(), m.key()
	switch m.next(12) {
	case 0:
		hi = nil
	case 1:
		lo = nil
	case 2, 3, 4, 5:
		hi = append(bytes.Clone(lo), 0xff)
	default:
		if bytes.Compare(lo, hi) > 0 && m.next(4) > 0 {
			lo, hi = hi, lo
		}
	}
	return modelOp{key: string(lo), ranged: true, end: hi}
}

// wrote records a write in the model.
func (m *modelRun) wrote(err error, d bloomkv.Durability, w modelWrite) error {
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	w.apply(m.now)
	m.pending = append(m.pending, w)
	if d != bloomkv.DurabilityNoSync {
		return m.barrier(nil)
	}
	return nil
}

// barrier records that all writes are durable.
func (m *modelRun) barrier(err error) error {
	if err != nil {
		return fmt.Errorf("barrier: %w", err)
	}
	for _, w := range m.pending {
		w.apply(m.durable)
	}
	m.pending = m.pending[:0]
	return nil
}

func (m *modelRun) batch() error {
	var b bloomkv.Batch
	var w modelWrite
	n := m.next(12)
	if m.next(40) == 0 {
		n = 60 // more than fits into a memtable
	}
	for range n {
		switch m.next(8) {
		case 0, 1:
			k := m.key()
			b.Delete(k)
			w = append(w, deleteOp(k))
		case 2:
			op := m.rangeOp()
			b.DeleteRange(bloomkv.KeyRange{Lower: []byte(op.key), Upper: op.end})
			w = append(w, op)
		default:
			k, v := m.key(), m.value()
			b.Put(k, v)
			w = append(w, putOp(k, v))
		}
	}
	if m.next(4) == 0 {
		raw, err := b.MarshalBinary()
		var other, twice bloomkv.Batch
		if err = errors.Join(err, other.UnmarshalBinary(raw)); err != nil {
			return fmt.Errorf("batch: %w", err)
		}
		twice.Append(&other)
		twice.Append(&b)
		w = append(w, w...)
		b.Reset()
		b.Append(&twice)
	}
	apply, d := m.db.Apply, m.opts.Durability
	if n := m.next(3); n > 0 {
		d = bloomkv.Durability(n - 1)
		apply = func(b *bloomkv.Batch) error { return m.db.ApplyWith(b, d) }
	}
	m.note("batch of %d, %d bytes, durability %d", b.Len(), b.Size(), d)
	return m.wrote(apply(&b), d, w)
}

// conditional calls PutIfAbsent or CompareAndSwap, with the stored value or another one.
func (m *modelRun) conditional() error {
	k, v := m.key(), m.value()
	if v == nil {
		v = []byte{}
	}
	is, there := m.now[string(k)]
	var got, want bool
	var err error
	op := putOp(k, v)
	switch m.next(4) {
	case 0, 1:
		m.note("put %q if absent", k)
		want = !there
		got, err = m.db.PutIfAbsent(k, v)
	case 2:
		want = there
		old := []byte(is)
		if len(old) == 0 && m.next(2) == 0 {
			old = nil
		}
		if m.next(3) == 0 {
			op = deleteOp(k)
			m.note("delete %q if it has its value, stored %v", k, there)
			got, err = m.db.CompareAndDelete(k, old)
		} else {
			m.note("swap %q from its value, stored %v", k, there)
			got, err = m.db.CompareAndSwap(k, old, v)
		}
	default:
		m.note("swap %q from another value", k)
		got, err = m.db.CompareAndSwap(k, append([]byte(is), 'x'), v)
	}
	if err != nil || got != want {
		return fmt.Errorf("conditional write of %q: %v, %w, want %v", k, got, err, want)
	}
	if !got { // nothing was written
		return nil
	}
	return m.wrote(nil, m.opts.Durability, modelWrite{op})
}

// ingest ingests a sorted sequence, sometimes replacing a range.
func (m *modelRun) ingest() error {
	pairs := map[string]string{}
	for range m.next(60) {
		pairs[string(m.key())] = string(m.value())
	}
	var o bloomkv.IngestOptions
	var w modelWrite
	if m.next(2) == 0 {
		op := m.rangeOp()
		o.Replace = &bloomkv.KeyRange{Lower: []byte(op.key), Upper: op.end}
		if op.end == nil || op.key < string(op.end) { // otherwise there is nothing to write, and no barrier
			w = append(w, op)
		}
	}
	keys := slices.Sorted(maps.Keys(pairs))
	for _, k := range keys {
		w = append(w, putOp([]byte(k), []byte(pairs[k])))
	}
	broken := len(keys) > 1 && m.next(6) == 0
	m.note("ingest of %d, replacing %v, out of order %v", len(keys), o.Replace, broken)
	var buf, val []byte
	err := m.db.Ingest(context.Background(), func(yield func(bloomkv.KV, error) bool) {
		for i, k := range keys {
			if broken && i == len(keys)-1 {
				k = keys[0]
			}
			buf, val = append(buf[:0], k...), append(val[:0], pairs[k]...) // valid for one step only
			if !yield(bloomkv.KV{Key: buf, Value: val}, nil) {
				return
			}
		}
	}, o)
	if broken {
		if !errors.Is(err, bloomkv.ErrOrder) {
			return fmt.Errorf("ingest out of order: %w", err)
		}
		return nil
	}
	if len(w) == 0 && err == nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	w.apply(m.now)
	m.pending = append(m.pending, w)
	return m.barrier(nil)
}

// scan iterates over a range, often not to its end, and writes meanwhile: the scan must not see these writes.
func (m *modelRun) scan() error {
	o := m.iterOptions()
	o.KeysOnly = false
	limit, writes := m.next(80), m.next(4) == 0
	var want []string
	for k := range m.now {
		if inRange(o, k) {
			want = append(want, k)
		}
	}
	slices.Sort(want)
	then := m.now
	if writes {
		then = maps.Clone(m.now)
	}
	m.note("scan %q to %q, prefix %q, %d steps, writing %v", o.Lower, o.Upper, o.Prefix, limit, writes)
	i := 0
	for kv, err := range m.db.Scan(o) {
		switch {
		case err != nil:
			return fmt.Errorf("scan: %w", err)
		case i >= len(want):
			return fmt.Errorf("scan: got %q after the end", kv.Key)
		case string(kv.Key) != want[i] || string(kv.Value) != then[want[i]]:
			return fmt.Errorf("scan: step %d: got %q = %q, want %q = %q", i, kv.Key, kv.Value, want[i], then[want[i]])
		}
		if i++; i > limit {
			return nil
		}
		if writes && i%3 == 0 {
			k, v := m.key(), m.value()
			if err := m.wrote(m.db.Put(k, v), m.opts.Durability, modelWrite{putOp(k, v)}); err != nil {
				return err
			}
		}
	}
	if i != len(want) {
		return fmt.Errorf("scan: ended after %d keys, want %d", i, len(want))
	}
	return nil
}

func (m *modelRun) compact() error {
	var lo, hi []byte
	if m.next(2) == 0 {
		lo, hi = m.key(), m.key()
	}
	m.note("compact %q to %q", lo, hi)
	err := m.db.Compact(context.Background(), bloomkv.CompactOptions{Range: bloomkv.KeyRange{Lower: lo, Upper: hi}})
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		if err != nil {
			return fmt.Errorf("compact of nothing: %w", err)
		}
		return nil
	}
	return m.barrier(err)
}

// crash simulates a power failure or the death of the process, and opens the store again. Its contents must be one of
// the states since the last durable one.
func (m *modelRun) crash() error {
	old := m.db
	kind := m.next(5)
	m.note("crash %d", kind)
	m.count()
	switch kind {
	case 0:
		m.fs = m.fs.Crash(vfstest.KeepNothing)
	case 1, 2:
		m.fs = m.fs.Crash(vfstest.KeepSome(uint64(m.next(256)), 10+m.next(81)))
	default: // all acknowledged writes have reached the operating system
		m.fs = m.fs.Kill()
		if err := m.barrier(nil); err != nil {
			return err
		}
	}
	if err := old.Close(); err != nil { // only ends the goroutines of the lost store
		return fmt.Errorf("close of the lost store: %w", err)
	}
	if err := m.dropReaders(); err != nil {
		return err
	}
	var read map[string]string // the contents seen read-only, before the store is recovered
	if m.next(2) == 0 {
		var err error
		if read, err = m.readOnly("db"); err != nil {
			return fmt.Errorf("after a crash: %w", err)
		}
	}
	if err := m.open(); err != nil {
		return err
	}
	got, err := storetest.Contents(m.db)
	if err != nil {
		return fmt.Errorf("after a crash: %w", err)
	}
	if read != nil {
		if d := storetest.Diff(read, got); d != "" {
			return fmt.Errorf("after a crash, read-only compared with recovered: %s", d)
		}
	}
	found := fingerprint(got)
	for i := 0; ; i++ {
		if fingerprint(m.durable) == found && storetest.Diff(got, m.durable) == "" {
			m.now, m.pending = maps.Clone(m.durable), m.pending[:0]
			return nil
		}
		if i == len(m.pending) {
			return fmt.Errorf("after a crash: no prefix of the %d unsynced writes matches; compared with all: %s",
				len(m.pending), storetest.Diff(got, m.now))
		}
		m.pending[i].apply(m.durable)
	}
}

// readOnly reads a store without changing it.
func (m *modelRun) readOnly(dir string) (map[string]string, error) {
	o := *m.opts
	o.FS, o.ReadOnly = m.fs, true
	db, err := bloomkv.Open(dir, &o)
	if err != nil {
		return nil, err
	}
	got, err := storetest.Contents(db)
	if err == nil {
		err = lookupsAgree(db, got)
	}
	if putErr := db.Put(nil, nil); !errors.Is(putErr, bloomkv.ErrReadOnly) {
		err = errors.Join(err, fmt.Errorf("put into a read-only store: %w", putErr))
	}
	return got, errors.Join(err, db.Close())
}

// checkpoint makes a checkpoint, which must keep its contents after the store has changed.
func (m *modelRun) checkpoint() error {
	m.copies++
	dir := fmt.Sprintf("copy%d", m.copies)
	m.note("checkpoint")
	if err := m.barrier(m.db.Checkpoint(context.Background(), dir)); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	want := maps.Clone(m.now)
	if m.next(2) == 0 {
		for range 5 {
			k, v := m.key(), m.value()
			if err := m.wrote(m.db.Put(k, v), m.opts.Durability, modelWrite{putOp(k, v)}); err != nil {
				return err
			}
		}
		if err := m.barrier(m.db.Compact(context.Background(), bloomkv.CompactOptions{})); err != nil {
			return err
		}
	}
	got, err := m.readOnly(dir)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if d := storetest.Diff(got, want); d != "" {
		return fmt.Errorf("checkpoint: %s", d)
	}
	return nil
}

var fingerprintSeed = maphash.MakeSeed()

func fingerprint(m map[string]string) (sum uint64) {
	for k, v := range m {
		sum += maphash.Comparable(fingerprintSeed, [2]string{k, v})
	}
	return sum
}

// agree compares the contents and all lookups of the store with the model.
func (m *modelRun) agree() error {
	m.note("compare all")
	got, err := storetest.Contents(m.db)
	if err != nil {
		return err
	}
	if d := storetest.Diff(got, m.now); d != "" {
		return errors.New(d)
	}
	if err := m.verify(); err != nil {
		return err
	}
	return lookupsAgree(m.db, m.now)
}
