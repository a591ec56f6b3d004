//go:build schedule

// Package schedules runs small programs of several goroutines on a store, each by a schedule that a seed chooses, and
// judges what they saw. It needs the build tag schedule: see package step.
package schedules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A program is what goroutines do with one store.
type program struct {
	rng  *rand.Rand
	mem  *vfstest.Mem
	open *storetest.OpenFiles // of mem
	res  *bloomkv.Resources   // of all stores of the program
	db   *bloomkv.DB

	actors [][]op // the calls of each goroutine
	used   int    // keys
	tight  bool   // there is memory for few filters and no block

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

// newProgram returns the program of a seed. A program makes few kinds of calls, so that those that meet are more often
// of a pair that matters (Groce et al., Swarm Testing, ISSTA 2012): mostly one goroutine moves data by calls of one
// kind, and others look at it, or all compete as writers. Four of five use one key.
func newProgram(seed uint64) *program {
	p := &program{rng: rand.New(rand.NewPCG(seed, 2)), mem: vfstest.NewMem(), crashAt: -1, last: 100}
	p.open = storetest.TrackOpen(p.mem)
	r := p.rng
	p.used = max(1, r.IntN(keys+7)-6)
	p.tight = r.IntN(4) == 0
	if r.IntN(2) == 0 {
		p.crashAt = r.IntN(120)
	}
	actor := func(most int, draw func() op) {
		var todo []op
		for range 1 + r.IntN(most) {
			todo = append(todo, draw())
		}
		p.actors = append(p.actors, todo)
	}
	always := func(o op) func() op { return func() op { return o } }
	switch r.IntN(8) {
	case 0: // anything
		for range 2 + r.IntN(3) {
			actor(3, func() op { return []weighted{movers, watchers, writers}[r.IntN(3)].draw(r) })
		}
	case 1:
		kinds := []op{writers.draw(r), writers.draw(r)}
		for range 3 + r.IntN(3) {
			actor(2, func() op { return kinds[r.IntN(2)] })
		}
	default:
		actor(1+r.IntN(3), always(movers.draw(r)))
		for range 2 {
			actor(2, always(watchers.draw(r)))
		}
	}
	switch r.IntN(16) {
	case 0:
		actor(1, always((*program).close))
	case 1:
		p.actors[0] = append(p.actors[0], (*program).reopen, watchers.draw(r))
	}
	return p
}

func (p *program) options() *bloomkv.Options {
	o := &bloomkv.Options{
		FS: vfstest.NewHook(p.open, p.operation), FilterSeed: 1, Resources: p.res, MemtableSize: 16 << 10,
		TableSize: 16 << 10, BaseLevelSize: 64 << 10, LevelRatio: 2, BlockSize: 512,
		Compression: bloomkv.CompressionNone, Compactions: 1 + p.rng.IntN(4),
	}
	if p.tight {
		o.FilterMemory = 64 << 10
	}
	return o
}

// copied returns the options of a copy of the store, in the given files.
func (p *program) copied(fs vfs.FS) *bloomkv.Options {
	return &bloomkv.Options{FS: fs, Resources: p.res}
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

// now returns the next moment of the program's clock.
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
	most := int64(24 << 10)
	if p.tight {
		most = 1
	}
	cache.Testing.Store(&cache.TestMode{Most: most})
	var err error
	p.res, err = bloomkv.NewResources(bloomkv.ResourcesOptions{MemoryBudget: 16 << 20, MaxOpenFiles: 8})
	if err == nil {
		p.db, err = bloomkv.Open("db", p.options())
	}
	if err != nil {
		p.fail("open: %v", err)
		return
	}
	small := 0
	prepare := func() {
		for i := range p.used + p.rng.IntN(2) {
			if small += 3; p.rng.IntN(4) > 0 {
				p.put(dice{i: i % p.used, n: small}) // so that all stay in one memtable
			}
		}
	}
	prepare()
	for range []int{0, 0, 1, 1, 7}[p.rng.IntN(5)] { // the eighth run of level 0 starts a compaction
		p.flush(dice{})
		prepare()
	}
	step.Meet()
	var g step.WaitGroup
	for _, ops := range p.actors {
		var todo []func()
		for _, do := range ops {
			p.last++
			d := dice{p.rng.IntN(p.used), p.rng.IntN(p.used), p.last, p.rng.IntN(2) == 0}
			late := p.rng.IntN(3)
			todo = append(todo, func() {
				step.Later(late)
				do(p, d)
			})
		}
		g.Go(func() {
			for _, do := range todo {
				do()
			}
		})
	}
	g.Wait()
	p.close(dice{})
	step.Met()
	p.judge(p.open, p.calls)
	if p.crashed != nil {
		p.judge(p.crashed, p.before(p.crashNow))
	}
	if err := p.open.Left(); err != nil {
		p.fail("%v", err)
	}
	if m := p.res.Metrics(); m.Stores > 0 || m.OpenFiles > 0 || m.Memory.Sum() > 0 || m.MemtablesReserved > 0 {
		p.fail("without stores there are %+v", m)
	}
}

// before returns the calls whose effects a crash at the moment at may have left. Those that had not ended are
// optional.
func (p *program) before(at int) (calls []call) {
	for _, c := range p.calls {
		switch {
		case c.to <= at:
			calls = append(calls, c)
		case c.from <= at && c.write:
			c.text, c.to = "perhaps "+c.text, never
			calls = append(calls, c)
		}
	}
	return calls
}

// judge judges the calls by what a store has after all of them.
func (p *program) judge(fs vfs.FS, calls []call) {
	got, ok := p.read("db", fs, true)
	if !ok {
		p.fail("after these calls:\n%s", list(calls))
		return
	}
	last := call{fmt.Sprintf("open again: %v", got), never - 1, never - 1, false, saw(got)}
	if calls = append(slices.Clone(calls), last); !explain(calls) {
		p.fail("no order of these calls explains what they saw:\n%s", list(calls))
	}
}

// read returns what a store in dir has, and checks it.
func (p *program) read(dir string, fs vfs.FS, check bool) (got state, ok bool) {
	db, err := bloomkv.Open(dir, p.copied(fs))
	if p.wrong("open "+dir, err) {
		return got, false
	}
	got, err = both(db.Iter(bloomkv.IterOptions{}), nil)
	ok = !p.wrong("read "+dir, err)
	got[marked] = p.mark(db.Mark())
	if check {
		report, err := db.Check(context.Background(), bloomkv.CheckOptions{})
		ok = !p.wrong(fmt.Sprintf("check %s: %v", dir, report), err) && ok
	}
	return got, !p.wrong("close "+dir, db.Close()) && ok
}
