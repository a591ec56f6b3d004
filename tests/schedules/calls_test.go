//go:build schedule

package schedules

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/step"
)

// An op makes a call, or a few.
type op func(*program, dice)

// dice hold the random choices of a call: two keys, the number of a value, and a yes or no.
type dice struct {
	i, j, n int
	flip    bool
}

// Calls that move data, that look at it, and that write, each with its weight.
var (
	movers = weighted{
		{(*program).churn, 5},
		{(*program).ingest, 6},
		{(*program).flush, 1},
		{(*program).compact, 1},
		{(*program).batch, 1},
		{(*program).deleteRange, 1},
		{(*program).export, 1},
	}
	watchers = weighted{
		{(*program).get, 5},
		{(*program).getMany, 1},
		{(*program).iterate, 2},
		{(*program).snapshot, 5},
		{(*program).swap, 2},
		{(*program).update, 6},
		{(*program).digest, 1},
		{(*program).checkpoint, 1},
		{(*program).metrics, 1},
		{(*program).export, 1},
	}
	writers = weighted{
		{(*program).put, 2},
		{(*program).delete, 1},
		{(*program).batch, 1},
		{(*program).swap, 2},
		{(*program).update, 2},
	}
)

type weighted []struct {
	op     op
	weight int
}

// draw draws one of the calls.
func (w weighted) draw(r *rand.Rand) op {
	sum := 0
	for _, x := range w {
		sum += x.weight
	}
	at := r.IntN(sum)
	for _, x := range w {
		if at -= x.weight; at < 0 {
			return x.op
		}
	}
	return nil
}

// did records a call that has just ended, or that has seen what it saw, and did what it did, before to.
func (p *program) did(text string, from, to int, write bool, apply func(state) (state, bool)) {
	p.calls = append(p.calls, call{text, from, to, write, apply})
}

func (p *program) wrote(what string, d dice, from int, err error, apply func(state) (state, bool)) {
	if !p.wrong(what, err) {
		p.did(fmt.Sprintf("%s %d %d", what, d.i, d.n), from, p.now(), true, apply)
	}
}

func (p *program) put(d dice) {
	from := p.now()
	p.wrote("put", d, from, p.db.Put(key(d.i), value(d.n)), sets(d.n, d.i))
}

func (p *program) delete(d dice) {
	from := p.now()
	p.wrote("delete", d, from, p.db.Delete(key(d.i)), sets(0, d.i))
}

func (p *program) deleteRange(d dice) {
	from, lo, hi := p.now(), min(d.i, d.j), max(d.i, d.j)+1
	err := p.db.DeleteRange(bloomkv.KeyRange{Lower: key(lo), Upper: key(hi)})
	p.wrote(fmt.Sprintf("delete up to %d from", hi), dice{i: lo}, from, err, func(s state) (state, bool) {
		clear(s[lo:hi])
		return s, true
	})
}

// batch puts two keys and sets the mark.
func (p *program) batch(d dice) {
	from := p.now()
	var b bloomkv.Batch
	b.Put(key(d.i), value(d.n))
	b.Put(key(d.j), value(d.n))
	b.SetMark(markOf(d.n))
	p.wrote(fmt.Sprintf("put with mark, and %d,", d.j), d, from, p.db.Apply(&b), sets(d.n, d.i, d.j, marked))
}

func (p *program) flush(dice) { p.wrong("flush", p.db.Flush(context.Background())) }

func (p *program) compact(dice) {
	p.wrong("compact", p.db.Compact(context.Background(), bloomkv.CompactOptions{}))
}

// churn overwrites a key, drops the older version by a flush, or merges both, and overwrites the key again, so that the
// next flush has something to drop. Merging may hide a mistake: in the last level, versions lose their numbers.
func (p *program) churn(d dice) {
	p.put(d)
	p.flush(d)
	if d.flip && d.n%2 == 0 {
		p.compact(d)
	}
	d.n += 500
	p.put(d)
}

func (p *program) ingest(d dice) {
	from, o := p.now(), bloomkv.IngestOptions{}
	mark := d.n%4 > 0
	if mark {
		o.Mark = markOf(d.n)
	}
	err := p.db.Ingest(context.Background(), func(yield func(bloomkv.KV, error) bool) {
		yield(bloomkv.KV{Key: key(d.i), Value: value(d.n)}, nil)
	}, o)
	p.wrote("ingest", d, from, err, sets(d.n, d.i, due))
	if mark && err == nil {
		p.afterwards(d.n, d.n, from)
	}
}

// afterwards records that a mark was set after the data of the same call, which has number n as what is due.
func (p *program) afterwards(n, mark, from int) {
	p.did(fmt.Sprintf("its mark %d", mark), from, p.clock, true, func(s state) (state, bool) {
		ok := s[due] == n
		s[marked] = mark
		return s, ok
	})
}

func markOf(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// mark returns the number of a mark.
func (p *program) mark(b []byte, err error) int {
	if p.wrong("mark", err) || len(b) == 0 {
		return 0
	}
	return int(binary.BigEndian.Uint32(b))
}

// readMark reads the mark, in most cases. Who sees a mark sees all writes before it.
func (p *program) readMark(d dice) {
	if d.n%4 == 0 {
		return
	}
	from := p.now()
	b, err := p.db.Mark()
	if n := p.mark(b, err); err == nil {
		p.did(fmt.Sprintf("mark: %d", n), from, p.now(), false, has(n, marked))
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

func (p *program) get(d dice) {
	p.readMark(d)
	p.look(d.i)
}

func (p *program) look(i int) (n int, ok bool) {
	from := p.now()
	v, err := p.db.Get(key(i))
	if n, ok = p.found("get", v, err); ok {
		p.did(fmt.Sprintf("get %d: %d", i, n), from, p.now(), false, has(n, i))
	}
	return n, ok
}

func (p *program) getMany(d dice) {
	p.readMark(d)
	from, got := p.now(), state{marked: unknown}
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
		p.did(fmt.Sprintf("get many: %v", got), from, p.now(), false, saw(got))
	}
}

// aside returns a write between two reads that must show the same, or nil. It also lets writes end that came before.
func (p *program) aside(d dice) func() {
	if d.flip {
		return func() { p.put(d) }
	}
	return nil
}

func (p *program) iterate(d dice) {
	from := p.now()
	it := p.db.Iter(bloomkv.IterOptions{})
	to := p.now()
	got, err := both(it, p.aside(d))
	if !p.wrong("iterate", err) {
		p.did(fmt.Sprintf("iterate: %v", got), from, to, false, saw(got))
	}
}

func (p *program) snapshot(d dice) {
	from := p.now()
	snap, err := p.db.Snapshot()
	if p.wrong("snapshot", err) {
		return
	}
	to := p.now()
	defer func() { p.wrong("close snapshot", snap.Close()) }()
	var got [2]state
	for i := range got {
		if got[i], err = both(snap.Iter(bloomkv.IterOptions{}), nil); p.wrong("read snapshot", err) {
			return
		}
		if i == 0 && d.n%4 > 0 {
			p.put(d) // which waits for a write that has stopped halfway
		}
	}
	if got[0] != got[1] {
		p.fail("a snapshot shows %v and then %v", got[0], got[1])
	}
	b, err := snap.Mark()
	if got[0][marked] = p.mark(b, err); err == nil {
		p.did(fmt.Sprintf("snapshot: %v", got[0]), from, to, false, saw(got[0]))
	}
}

// swap reads a key, and writes it if it has not changed.
func (p *program) swap(d dice) {
	old, ok := p.look(d.i)
	if !ok {
		return
	}
	from := p.now()
	var done bool
	var err error
	if old == 0 {
		done, err = p.db.PutIfAbsent(key(d.i), value(d.n))
	} else {
		done, err = p.db.CompareAndSwap(key(d.i), value(old), value(d.n))
	}
	if !p.wrong("swap", err) {
		text := fmt.Sprintf("swap %d from %d to %d: %v", d.i, old, d.n, done)
		p.did(text, from, p.now(), done, func(s state) (state, bool) {
			ok := done == (s[d.i] == old)
			if done {
				s[d.i] = d.n
			}
			return s, ok
		})
	}
}

// update reads a key and writes another one in a transaction.
func (p *program) update(d dice) {
	from, got, ok := p.now(), 0, false
	var err error
	if p.canary && d.i == d.j && d.n%7 == 0 {
		v, missing := p.db.Get(key(d.i))
		if got, ok = p.found("get", v, missing); !ok {
			return
		}
		err = p.db.Put(key(d.j), value(d.n))
	} else {
		err = p.db.Update(context.Background(), func(tx *bloomkv.Tx) error {
			v, err := tx.Get(key(d.i))
			if got, ok = p.found("get of a transaction", v, err); !ok {
				return err
			}
			step.At("program: read")
			return tx.Put(key(d.j), value(d.n))
		})
	}
	p.wrote(fmt.Sprintf("update: %d is %d, put", d.i, got), dice{i: d.j, n: d.n}, from, err,
		func(s state) (state, bool) {
			ok := s[d.i] == got
			s[d.j] = d.n
			return s, ok
		})
}

func (p *program) digest(dice) {
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
	p.did(fmt.Sprintf("digest without %v", denied), from, p.now(), false, func(s state) (state, bool) {
		return s, !slices.ContainsFunc(denied, func(i int) bool { return s[i] != 0 })
	})
}

func (p *program) metrics(dice) {
	if m := p.db.Metrics(); m.Levels != nil && m.FPRPromised < m.FPRAsked {
		p.fail("metrics: %v is promised, which is better than the %v that is asked", m.FPRPromised, m.FPRAsked)
	}
}

func (p *program) checkpoint(d dice) {
	from, dir := p.now(), fmt.Sprintf("checkpoint%d", d.n)
	if p.wrong("checkpoint", p.db.Checkpoint(context.Background(), dir)) {
		return
	}
	to := p.now()
	if got, ok := p.read(dir, p.open, false); ok {
		p.did(fmt.Sprintf("checkpoint: %v", got), from, to, false, saw(got))
	}
}

// export exports the store and imports the result into another one, and then, perhaps, in place of what the store has.
func (p *program) export(d dice) {
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
	dir, again := fmt.Sprintf("import%d", d.n), bytes.NewReader(stream.Bytes())
	err = bloomkv.Import(context.Background(), &stream, dir, bloomkv.NewStoreOptions{FS: p.open})
	if p.wrong("import", err) {
		return
	}
	got, ok := p.read(dir, p.open, false)
	if !ok {
		return
	}
	p.did(fmt.Sprintf("export: %v", got), from, to, false, saw(got))
	if d.flip {
		from := p.now()
		err := p.db.Import(context.Background(), again, bloomkv.ImportOptions{Replace: true})
		p.wrote(fmt.Sprintf("replace by %v:", got), d, from, err, func(s state) (state, bool) {
			copy(s[:keys], got[:keys])
			s[due] = d.n
			return s, true
		})
		if err == nil {
			p.afterwards(d.n, got[marked], from)
		}
	}
}

func (p *program) close(dice) { p.wrong("close", p.db.Close()) }

// reopen closes the store and opens it again. Other calls get ErrClosed meanwhile.
func (p *program) reopen(d dice) {
	p.close(d)
	db, err := bloomkv.Open("db", p.options())
	if !p.wrong("open again", err) {
		p.db = db
	}
}
