//go:build schedule

// Package schedules runs small programs of several goroutines on a store, each by a schedule that a seed chooses, and
// judges what they saw. It needs the build tag schedule: see package step.
package schedules

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

const keys = 3

// A state is a value for each key; 0 is none.
type state [keys]int

func key(i int) []byte { return []byte{'k', "0123"[i]} } // the last is only a bound

// value returns the value with the given number. Two of three are so large that a few fill a memtable, and none
// needs one of its own.
func value(n int) []byte {
	size := []int{20, 3000, 6000}[n%3]
	return bytes.Repeat(binary.BigEndian.AppendUint32(nil, uint32(n)), size/4)
}

// number returns the number of a value, and an error if it is not one.
func number(v []byte) (int, error) {
	if len(v) < 4 {
		return 0, fmt.Errorf("a value of %d bytes", len(v))
	}
	n := int(binary.BigEndian.Uint32(v))
	if !bytes.Equal(v, value(n)) {
		return n, fmt.Errorf("a value of %d bytes that begins as number %d has other bytes", len(v), n)
	}
	return n, nil
}

// A call is a call that was made, and what it saw.
type call struct {
	text     string
	from, to int // by the program's clock: when it began, and when it had ended
	write    bool
	// apply returns the state after the call, and whether what it saw agrees with a state.
	apply func(s state) (state, bool)
}

// A program is what goroutines do with one store.
type program struct {
	rng *rand.Rand
	mem *vfstest.Mem
	db  *bloomkv.DB
	// what the seed makes of it
	used     int   // keys
	kinds    []int // of calls; none for all
	changing []int // of the first goroutine, if it only moves data

	clock int
	last  int // the number of the last value
	calls []call
	errs  []error

	canary bool // some updates are not transactions: a mistake to be found

	crashAt  int // the file operation before which power fails, in a copy; -1 for never
	ops      int
	crashed  *vfstest.Mem
	crashNow int // the clock at that moment
}

// newProgram returns the program of a seed. Most programs make few kinds of calls, half of them two, so that those that
// meet are more often of a pair that matters (Groce et al., Swarm Testing, ISSTA 2012).
func newProgram(seed uint64) *program {
	p := &program{rng: rand.New(rand.NewPCG(seed, 2)), mem: vfstest.NewMem(), crashAt: -1}
	p.used = 1 + p.rng.IntN(keys)
	if p.rng.IntN(4) > 0 {
		p.changing = changing
	}
	switch p.rng.IntN(4) {
	case 0, 1:
		p.kinds, p.changing = []int{6 + p.rng.IntN(8)}, []int{changing[p.rng.IntN(len(changing))]}
		if p.kinds[0] == 7 {
			p.kinds[0] = 17 + p.rng.IntN(5)
		}
	case 2:
		for range 3 + p.rng.IntN(3) {
			p.kinds = append(p.kinds, p.rng.IntN(kinds))
		}
	}
	if p.rng.IntN(2) == 0 {
		p.crashAt = p.rng.IntN(120)
	}
	return p
}

func (p *program) options() *bloomkv.Options {
	return &bloomkv.Options{
		FS: vfstest.NewHook(p.mem, p.operation), FilterSeed: 1, MemoryBudget: 8 << 20, MemtableSize: 16 << 10,
		TableSize: 16 << 10, BaseLevelSize: 64 << 10, LevelRatio: 2, BlockSize: 512,
		Compression: bloomkv.CompressionNone,
	}
}

// operation is called before each file operation.
func (p *program) operation(op vfstest.Op) error {
	if op.Kind.Changes() && op.Kind != vfstest.OpLock {
		step.At("file: " + op.Kind.String())
		if p.ops == p.crashAt {
			p.crashed, p.crashNow = p.mem.Crash(vfstest.KeepSome(p.rng.Uint64(), 50)), p.clock
		}
		p.ops++
	}
	return nil
}

func (p *program) fail(format string, a ...any) { p.errs = append(p.errs, fmt.Errorf(format, a...)) }

// did records a call that began at from.
func (p *program) did(text string, from int, write bool, apply func(state) (state, bool)) {
	p.clock++
	p.calls = append(p.calls, call{text, from, p.clock, write, apply})
}

// now begins a call.
func (p *program) now() int {
	p.clock++
	return p.clock
}

// wrong reports an error that is not the end of the store.
func (p *program) wrong(what string, err error) bool {
	if err != nil && !errors.Is(err, bloomkv.ErrClosed) {
		p.fail("%s: %v", what, err)
	}
	return err != nil
}

// run runs the whole program, as the first goroutine of a schedule.
func (p *program) run() {
	var err error
	if p.db, err = bloomkv.Open("db", p.options()); err != nil {
		p.fail("open: %v", err)
		return
	}
	for i := range keys + p.rng.IntN(3) {
		p.put(i%keys, 3+3*i) // small ones, so that they stay in one memtable
	}
	if p.rng.IntN(2) == 0 {
		p.wrong("flush", p.db.Flush(context.Background()))
	}
	p.last = 100
	step.Meet()
	var g step.WaitGroup
	actors := 2 + p.rng.IntN(3)
	for a := range actors {
		todo := make([]func(), 1+p.rng.IntN(10/actors))
		kinds := p.kinds
		if a == 0 && len(p.changing) > 0 {
			kinds = p.changing
		}
		for i := range todo {
			todo[i] = p.draw(kinds)
		}
		if a == 0 && p.rng.IntN(8) == 0 {
			todo = append(todo, func() { p.wrong("close", p.db.Close()) })
		}
		g.Go(func() {
			for _, do := range todo {
				do()
			}
		})
	}
	g.Wait()
	p.wrong("close", p.db.Close())
	p.reopen(p.mem, p.calls)
	if p.crashed != nil {
		p.reopen(p.crashed, p.before(p.crashNow))
	}
}

// before returns the calls whose effects a crash at the moment at may have left. Those that had not ended are
// optional, and what they saw does not count.
func (p *program) before(at int) (calls []call) {
	for _, c := range p.calls {
		switch {
		case c.to <= at:
			calls = append(calls, c)
		case c.from <= at && c.write:
			apply := c.apply
			calls = append(calls, call{"perhaps " + c.text, c.from, never, true, func(s state) (state, bool) {
				s, _ = apply(s)
				return s, true
			}})
		}
	}
	return calls
}

// reopen judges the calls by what a store has after all of them.
func (p *program) reopen(mem *vfstest.Mem, calls []call) {
	after := &bloomkv.Options{FS: mem, MemoryBudget: 8 << 20}
	db, err := bloomkv.Open("db", after)
	if err != nil {
		p.fail("open again: %v\n%s", err, list(calls))
		return
	}
	got, err := all(func(o bloomkv.IterOptions) *bloomkv.Iterator { return db.Iter(o) }, false)
	if err != nil {
		p.fail("read again: %v", err)
	}
	report, err := db.Check(context.Background(), bloomkv.CheckOptions{})
	if err != nil {
		p.fail("check: %v %v", report, err)
	}
	if err := db.Close(); err != nil {
		p.fail("close again: %v", err)
	}
	last := call{fmt.Sprintf("open again: %v", got), never - 1, never - 1, false, saw(got)}
	if calls = append(slices.Clone(calls), last); !explain(calls) {
		p.fail("no order of these calls explains what they saw:\n%s", list(calls))
	}
}

func list(calls []call) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "  %3d-%-3d %s\n", c.from, c.to, c.text)
	}
	return b.String()
}

const never = 1 << 30

// explain reports whether there is an order of the calls, each between its beginning and its end, in which each saw
// what a store would have shown (Herlihy and Wing, Linearizability, 1990). Calls that end never may be left out.
func explain(calls []call) bool {
	type point struct {
		done uint64
		s    state
	}
	seen := map[point]bool{}
	var search func(point) bool
	search = func(at point) bool {
		if seen[at] {
			return false
		}
		seen[at] = true
		next, left := never, false
		for i, c := range calls {
			if at.done>>i&1 == 0 && c.to < never {
				next, left = min(next, c.to), true
			}
		}
		if !left {
			return true
		}
		for i, c := range calls {
			if at.done>>i&1 == 0 && c.from <= next {
				if s, ok := c.apply(at.s); ok && search(point{at.done | 1<<i, s}) {
					return true
				}
			}
		}
		return false
	}
	return search(point{})
}

// saw returns the apply of a call that saw all keys.
func saw(got state) func(state) (state, bool) {
	return func(s state) (state, bool) { return s, s == got }
}

// all reads all keys of an iterator.
func all(open func(bloomkv.IterOptions) *bloomkv.Iterator, back bool) (s state, err error) {
	it := open(bloomkv.IterOptions{})
	pairs := it.All()
	if back {
		pairs = it.Backward()
	}
	for k, v := range pairs {
		step.At("program: pair")
		n, err := number(v)
		if err != nil || len(k) != 2 {
			return s, errors.Join(fmt.Errorf("key %s: %w", words.Quoted(k), err), it.Close())
		}
		s[k[1]-'0'] = n
	}
	return s, it.Close()
}

// kinds is the number of kinds of calls; some count more than once.
const kinds = 22

// changing are the kinds of calls that move data.
var changing = []int{0, 5, 14, 16, 18, 18, 18, 19}

// draw draws a call of one of the given kinds, or of any.
func (p *program) draw(some []int) func() {
	r := p.rng
	i, j, back := r.IntN(p.used), r.IntN(p.used), r.IntN(2) == 0
	p.last++
	n := p.last
	kind := r.IntN(kinds)
	if len(some) > 0 {
		kind = some[r.IntN(len(some))]
	}
	switch kind {
	case 0, 1, 2, 3:
		return func() { p.put(i, n) }
	case 4:
		return func() { p.delete(i) }
	case 5:
		return func() { p.deleteRange(min(i, j), max(i, j)+1) }
	case 6, 7:
		return func() { p.get(i) }
	case 8:
		return func() { p.getMany() }
	case 9:
		return func() { p.iterate(back) }
	case 10:
		return func() { p.snapshot(back) }
	case 11:
		return func() { p.putIfAbsent(i, n) }
	case 12, 13:
		return func() { p.update(i, j, n) }
	case 14:
		return func() { p.wrong("flush", p.db.Flush(context.Background())) }
	case 15:
		return func() { p.wrong("compact", p.db.Compact(context.Background(), bloomkv.CompactOptions{})) }
	case 16:
		return func() { p.ingest(i, n) }
	case 17:
		return func() { p.digest() }
	case 18, 19:
		return func() { p.churn(i, n, kind == 19) }
	case 20:
		return func() { p.checkpoint(n) }
	default:
		return func() { p.export(n) }
	}
}

func (p *program) put(i, n int) {
	from := p.now()
	if err := p.db.Put(key(i), value(n)); !p.wrong("put", err) {
		p.did(fmt.Sprintf("put %d %d", i, n), from, true, func(s state) (state, bool) { s[i] = n; return s, true })
	}
}

// churn overwrites a key, and drops the older version by a flush, or merges both. Merging may hide a mistake: in the
// last level, versions lose their numbers.
func (p *program) churn(i, n int, merge bool) {
	p.put(i, n)
	p.wrong("flush", p.db.Flush(context.Background()))
	if merge {
		p.wrong("compact", p.db.Compact(context.Background(), bloomkv.CompactOptions{}))
	}
}

func (p *program) delete(i int) {
	from := p.now()
	if err := p.db.Delete(key(i)); !p.wrong("delete", err) {
		p.did(fmt.Sprintf("delete %d", i), from, true, func(s state) (state, bool) { s[i] = 0; return s, true })
	}
}

func (p *program) deleteRange(lo, hi int) {
	from := p.now()
	if err := p.db.DeleteRange(bloomkv.KeyRange{Lower: key(lo), Upper: key(hi)}); !p.wrong("delete range", err) {
		p.did(fmt.Sprintf("delete %d to %d", lo, hi-1), from, true, func(s state) (state, bool) {
			clear(s[lo:hi])
			return s, true
		})
	}
}

// found returns the number that a lookup has found.
func (p *program) found(what string, v []byte, err error) (n int, ok bool) {
	if errors.Is(err, bloomkv.ErrNotFound) {
		return 0, true
	}
	if p.wrong(what, err) {
		return 0, false
	}
	n, err = number(v)
	return n, !p.wrong(what, err)
}

func (p *program) get(i int) {
	from := p.now()
	v, err := p.db.Get(key(i))
	if n, ok := p.found("get", v, err); ok {
		p.did(fmt.Sprintf("get %d: %d", i, n), from, false, func(s state) (state, bool) { return s, s[i] == n })
	}
}

func (p *program) getMany() {
	from := p.now()
	var got state
	var asked [][]byte
	for i := range keys {
		asked = append(asked, key(i))
	}
	err := p.db.GetMany(asked, func(i int, v []byte, found bool) (err error) {
		if found {
			got[i], err = number(v)
		}
		return err
	})
	if !p.wrong("get many", err) {
		p.did(fmt.Sprintf("get many: %v", got), from, false, saw(got))
	}
}

func (p *program) iterate(back bool) {
	from := p.now()
	got, err := all(p.db.Iter, back)
	if !p.wrong("iterate", err) {
		p.did(fmt.Sprintf("iterate: %v", got), from, false, saw(got))
	}
}

func (p *program) snapshot(back bool) {
	from := p.now()
	snap, err := p.db.Snapshot()
	if p.wrong("snapshot", err) {
		return
	}
	to := p.now()
	var got [2]state
	for i := range got {
		if got[i], err = all(snap.Iter, back != (i == 0)); p.wrong("read snapshot", err) {
			p.wrong("close snapshot", snap.Close())
			return
		}
	}
	p.wrong("close snapshot", snap.Close())
	if got[0] != got[1] {
		p.fail("a snapshot shows %v and then %v", got[0], got[1])
	}
	p.did(fmt.Sprintf("snapshot: %v", got[0]), from, false, saw(got[0]))
	p.calls[len(p.calls)-1].to = to
}

func (p *program) putIfAbsent(i, n int) {
	from := p.now()
	done, err := p.db.PutIfAbsent(key(i), value(n))
	if !p.wrong("put if absent", err) {
		p.did(fmt.Sprintf("put if absent %d %d: %v", i, n, done), from, done, func(s state) (state, bool) {
			ok := done == (s[i] == 0)
			if done {
				s[i] = n
			}
			return s, ok
		})
	}
}

// update reads a key and writes another one in a transaction.
func (p *program) update(i, j, n int) {
	from, got, ok := p.now(), 0, false
	if p.canary && i == j && n%7 == 0 {
		v, err := p.db.Get(key(i))
		if got, ok = p.found("get", v, err); ok {
			p.replaced(i, j, n, from, got, p.db.Put(key(j), value(n)))
		}
		return
	}
	err := p.db.Update(context.Background(), func(tx *bloomkv.Tx) error {
		v, err := tx.Get(key(i))
		if got, ok = p.found("get of a transaction", v, err); !ok {
			return err
		}
		step.At("program: read")
		return tx.Put(key(j), value(n))
	})
	p.replaced(i, j, n, from, got, err)
}

// replaced records an update that has read a key.
func (p *program) replaced(i, j, n, from, got int, err error) {
	if !p.wrong("update", err) {
		p.did(fmt.Sprintf("update: %d is %d, put %d %d", i, got, j, n), from, true, func(s state) (state, bool) {
			ok := s[i] == got
			s[j] = n
			return s, ok
		})
	}
}

func (p *program) ingest(i, n int) {
	from := p.now()
	err := p.db.Ingest(context.Background(), func(yield func(bloomkv.KV, error) bool) {
		yield(bloomkv.KV{Key: key(i), Value: value(n)}, nil)
	}, bloomkv.IngestOptions{})
	if !p.wrong("ingest", err) {
		p.did(fmt.Sprintf("ingest %d %d", i, n), from, true, func(s state) (state, bool) { s[i] = n; return s, true })
	}
}

func (p *program) digest() {
	from := p.now()
	d, err := p.db.Digest(context.Background(), bloomkv.DigestOptions{})
	if p.wrong("digest", err) {
		return
	}
	var denied []int
	for i := range keys {
		if !d.MayContain(key(i)) {
			denied = append(denied, i)
		}
	}
	p.did(fmt.Sprintf("digest without %v", denied), from, false, func(s state) (state, bool) {
		return s, !slices.ContainsFunc(denied, func(i int) bool { return s[i] != 0 })
	})
}

func (p *program) checkpoint(n int) {
	from, dir := p.now(), fmt.Sprintf("checkpoint%d", n)
	if p.wrong("checkpoint", p.db.Checkpoint(context.Background(), dir)) {
		return
	}
	to := p.now()
	p.sawCopy("checkpoint", dir, from, to)
}

// sawCopy records what a store in dir has as what a call saw.
func (p *program) sawCopy(what, dir string, from, to int) {
	db, err := bloomkv.Open(dir, &bloomkv.Options{FS: p.mem, MemoryBudget: 8 << 20})
	if p.wrong("open "+what, err) {
		return
	}
	got, err := all(db.Iter, false)
	if p.wrong("read "+what, err) || p.wrong("close "+what, db.Close()) {
		return
	}
	p.did(fmt.Sprintf("%s: %v", what, got), from, false, saw(got))
	p.calls[len(p.calls)-1].to = to
}

// export exports the store and imports the result into another one.
func (p *program) export(n int) {
	from := p.now()
	e, err := p.db.Export(context.Background(), bloomkv.ExportOptions{})
	if p.wrong("export", err) {
		return
	}
	to := p.now()
	var stream bytes.Buffer
	_, err = e.WriteTo(&stream)
	if p.wrong("write export", err) || p.wrong("close export", e.Close()) {
		return
	}
	dir := fmt.Sprintf("import%d", n)
	db, err := bloomkv.Open(dir, &bloomkv.Options{FS: p.mem, MemoryBudget: 8 << 20})
	if p.wrong("open for import", err) {
		return
	}
	err = db.Import(context.Background(), &stream, bloomkv.ImportOptions{})
	if p.wrong("import", err) || p.wrong("close for import", db.Close()) {
		return
	}
	p.sawCopy("export", dir, from, to)
}
