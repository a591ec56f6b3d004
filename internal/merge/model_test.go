package merge

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A program is a sequence of bytes: first sources, lists and runs of tables, then moves. It runs on the merge and on a
// model that searches sorted slices. It also checks that the sources are used as their grammar requires, that no table
// is opened before the merge has come to it, and that an error stops the merge until the next First, Last or seek.
type program struct {
	model

	t    *testing.T
	data []byte

	runs    []*tableRun
	sources []Source
	fuse    int  // moves of sources, and tables opened, until one fails; 0 is never
	blown   bool // in this move
	opened  [][2]int
	err     bool
}

func FuzzIter(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomProgram(rand.New(rand.NewPCG(seed, 0))))
	}
	f.Fuzz(func(t *testing.T, data []byte) { runProgram(t, data) })
}

func TestRandomProgramsAgainstAModel(t *testing.T) {
	n := uint64(30000)
	if testing.Short() {
		n /= 10
	}
	for seed := range n {
		if data := randomProgram(rand.New(rand.NewPCG(seed, 1))); !runProgram(t, data) {
			t.Fatalf("seed %d: %q", seed, data)
		}
	}
}

func randomProgram(rng *rand.Rand) []byte {
	data := make([]byte, 10+rng.IntN(190))
	for i := range data {
		data[i] = byte(rng.IntN(256))
	}
	return data
}

func runProgram(t *testing.T, data []byte) bool {
	t.Helper()
	p := &program{t: t, data: data}
	eager := p.makeSources()
	var m *Iter
	var s Source
	if eager { // a run alone, without a merge that settles it
		s = NewConcat(p.runs[0])
	} else {
		m = &Iter{}
		m.Reset(p.sources)
		s = m
	}
	for len(p.data) > 0 && !t.Failed() {
		p.move(s, m)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	for i, r := range p.runs {
		if r != nil && r.open >= 0 {
			t.Errorf("table %d of run %d is open after Close", r.open, i)
		}
	}
	return !t.Failed()
}

func (p *program) byte() byte {
	if len(p.data) == 0 {
		return 0
	}
	b := p.data[0]
	p.data = p.data[1:]
	return b
}

var (
	programKeys     = []string{"", "\x00", "a", "a\x00", "a\x00\x00", "b", "c\xff", "d"}
	programTrailers = []ikey.Trailer{0, 1, 0x100, 0x301, 1<<64 - 1, 0x200} // entries have the first four
)

// target returns a key for a seek, with bytes of its own.
func (p *program) target(b byte) ikey.Key {
	return ikey.Key{User: []byte(programKeys[b&7]), Trailer: programTrailers[int(b>>3)%len(programTrailers)]}
}

// makeSources reads the sources, and whether a single one is used without a merge.
func (p *program) makeSources() (eager bool) {
	n := int(p.byte() % 7)
	for i := range n {
		style := p.byte()
		var es []entry
		for range p.byte() % 12 {
			b := p.byte()
			es = append(es, entry{key: ikey.Key{User: []byte(programKeys[b&7]), Trailer: programTrailers[b>>3&3]}})
		}
		slices.SortFunc(es, func(a, b entry) int { return ikey.Compare(a.key, b.key) })
		es = slices.CompactFunc(es, func(a, b entry) bool { return ikey.Compare(a.key, b.key) == 0 })
		for j := range es {
			es[j].value = fmt.Sprintf("%d/%d", i, j)
		}
		p.all = append(p.all, es)
		if style&1 == 0 {
			p.runs = append(p.runs, nil)
			p.sources = append(p.sources, &list{entries: es, broken: p.fails})
			continue
		}
		r := &tableRun{open: -1, tables: p.cut(es), log: func(opened bool, table int) {
			if opened {
				p.opened = append(p.opened, [2]int{i, table})
			}
		}}
		p.runs = append(p.runs, r)
		p.sources = append(p.sources, NewConcat(r))
		eager = n == 1 && style&2 != 0
	}
	p.pos = make([]int, n)
	return eager
}

// cut divides entries into tables, between user keys, with bounds as narrow or as wide as possible, and adds tables
// without versions between them.
func (p *program) cut(es []entry) (tables []*table) {
	add := func(es []entry, b Bounds) {
		tables = append(tables, &table{list: list{entries: es, broken: p.fails}, bounds: b, opens: func() error {
			if p.fails() {
				return errOpen
			}
			return nil
		}})
	}
	end := []byte{} // end of the tables so far, exclusive
	for len(es) > 0 {
		style := p.byte()
		n := 1
		for n < len(es) && (bytes.Equal(es[n].key.User, es[n-1].key.User) || n < int(style&3)) {
			n++
		}
		first, last := es[0].key.User, es[n-1].key.User
		if style&4 != 0 && bytes.Compare(end, first) < 0 {
			add(nil, Bounds{Lo: end, Hi: first, Exclusive: true})
			end = first
		}
		b := Bounds{Lo: first, Hi: last}
		if style&8 != 0 {
			b.Lo = end
		}
		end = append(slices.Clone(last), 0)
		if style&16 != 0 {
			b.Hi, b.Exclusive = end, true
		}
		if n == len(es) && style&32 != 0 {
			b.Hi = nil
		}
		add(es[:n], b)
		es = es[n:]
		if len(es) == 0 && style&(32|64) == 64 {
			add(nil, Bounds{Lo: end})
		}
	}
	return tables
}

// fails is called at each move of a source.
func (p *program) fails() bool {
	p.fuse--
	if p.fuse == 0 {
		p.blown = true
	}
	return p.fuse == 0
}

// move makes one move on the merge and on the model, and compares them.
func (p *program) move(s Source, m *Iter) {
	p.blown, p.opened = false, nil
	var from ikey.Key // the version at which a step begins
	if p.on {
		from = p.current().key
		from.User = slices.Clone(from.User)
	}
	var sought []ikey.Key // target of each source
	var name string
	var ok bool
	op := p.byte()
	if m == nil && op%16 > 9 {
		op = op % 2 * 3
	}
	switch op % 16 {
	case 0, 1, 2:
		name, ok = "next", s.Next()
		p.step(false)
	case 3, 4, 5:
		name, ok = "prev", s.Prev()
		p.step(true)
	case 6:
		name, ok = "first", s.First()
		p.err = false
		p.start(false, func(int) int { return 0 })
	case 7:
		name, ok = "last", s.Last()
		p.err = false
		p.start(true, func(i int) int { return len(p.all[i]) - 1 })
	case 8, 9, 10, 11:
		b := p.byte()
		each := op%16 > 9
		for i := range p.all {
			k := p.target(b)
			if each {
				k = p.target(b + 37*byte(i))
			}
			sought = append(sought, k)
		}
		spoilt := p.target(b)
		var targets []ikey.Key
		for _, k := range sought {
			targets = append(targets, ikey.Key{User: slices.Clone(k.User), Trailer: k.Trailer})
		}
		switch op % 16 {
		case 8:
			name, ok = "seek", s.SeekGE(spoilt)
		case 9:
			name, ok = "seek back", s.SeekLT(spoilt)
		default:
			name, ok = "seek each", m.SeekEach(targets, op%2 == 1)
		}
		copy(spoilt.User, "########")
		for _, k := range targets {
			copy(k.User, "########")
		}
		p.err = false
		p.start(op%2 == 1, func(i int) int { return p.search(i, op%2 == 1, sought[i]) })
	case 12, 13:
		after, k := int(p.byte()%8)-1, p.target(p.byte())
		spoilt := ikey.Key{User: slices.Clone(k.User), Trailer: k.Trailer}
		for range p.all {
			sought = append(sought, k)
		}
		name, ok = "skip", m.Skip(after, spoilt, op%16 == 13)
		copy(spoilt.User, "########")
		p.skip(op%16 == 13, after, k)
	default:
		p.fuse = int(p.byte()%16) + 1
		return
	}
	if p.blown {
		p.err, p.on = true, false
	}
	p.compare(name, ok, s, m)
	if !p.blown {
		p.checkOpened(name, from, sought)
	}
}

func (p *program) compare(name string, ok bool, s Source, m *Iter) {
	switch err := s.Err(); {
	case p.err && (ok || !errors.Is(err, errBroken) && !errors.Is(err, errOpen)):
		p.t.Errorf("%s: got %v, error %v after a source failed", name, ok, err)
	case !p.err && err != nil:
		p.t.Errorf("%s: error %v, but no source failed", name, err)
	case ok && !p.on:
		p.t.Errorf("%s: got %q at %x, want none", name, s.Key().User, s.Key().Trailer)
	case p.on && !ok:
		p.t.Errorf("%s: got none, want %q at %x", name, p.current().key.User, p.current().key.Trailer)
	case p.on:
		want := p.current()
		if k := s.Key(); ikey.Compare(k, want.key) != 0 || string(s.Value()) != want.value {
			p.t.Errorf("%s: got %q at %x = %s, want %q at %x = %s",
				name, k.User, k.Trailer, s.Value(), want.key.User, want.key.Trailer, want.value)
		}
		if m != nil && m.Order() != p.cur() {
			p.t.Errorf("%s: the version is of source %d, want %d", name, m.Order(), p.cur())
		}
	}
}

// checkOpened checks that there is a reason for each table that the move opened: the merge is beyond the table's bound,
// or the bounds contain a target of the move, or the version where the merge turned.
func (p *program) checkOpened(name string, from ikey.Key, sought []ikey.Key) {
	for _, o := range p.opened {
		b := p.runs[o[0]].tables[o[1]].bounds
		holds := func(user []byte) bool {
			c := bytes.Compare(b.Hi, user)
			return bytes.Compare(b.Lo, user) <= 0 && (b.Hi == nil || c > 0 || c == 0 && !b.Exclusive)
		}
		lo, hi := ikey.Search(b.Lo, ikey.MaxSeq), ikey.Key{User: b.Hi}
		if b.Exclusive {
			hi.Trailer = 1<<64 - 1
		}
		switch {
		case sought != nil && holds(sought[o[0]].User) && ikey.Compare(lo, sought[o[0]]) < 0:
		case from.User != nil && (holds(from.User) || from.Trailer == 0 && holds(append(from.User, 0))):
		case !p.on:
		case !p.back && ikey.Compare(lo, p.current().key) <= 0:
		case p.back && (b.Hi == nil || ikey.Compare(hi, p.current().key) >= 0):
		default:
			p.t.Errorf("%s: table %d of run %d was opened, with bounds %q to %q (exclusive: %v), from %q",
				name, o[1], o[0], b.Lo, b.Hi, b.Exclusive, from.User)
		}
	}
}
