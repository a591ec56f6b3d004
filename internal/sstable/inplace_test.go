package sstable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// A way is how a table in place is read.
type way struct {
	name   string
	mapped bool // the file can be mapped
	absent bool // the system does not have it in memory
}

var ways = []way{{"mapped", true, false}, {"mapped and not in memory", true, true}, {"not mapped", false, false}}

// inPlaceTable returns a reader of a table in many parts, whose pool has space for none. The file is nil if it is not
// mapped.
func inPlaceTable(tb testing.TB, w way, o WriterOptions, kvs []kv) (*Reader, *mappedFile) {
	tb.Helper()
	o.ID, o.BlockSize, o.partSize = 1, 1<<10, 60
	file, info := build(tb, o, kvs)
	d := new(epoch.Domain)
	r := NewReader(bytes.NewReader(file), metaOf(info), cache.New(1<<20, d), NewPartPool(0), d)
	var f *mappedFile
	if w.mapped {
		f = &mappedFile{Reader: bytes.NewReader(file), content: file, absent: w.absent}
		r.file, r.mapped = f, f
	}
	must(tb, r.Load(1))
	if !info.IndexInParts || len(r.top.Load().parts) < 10 {
		tb.Fatal("few parts")
	}
	return r, f
}

func numbered() (kvs []kv) {
	for i := range 600 {
		kvs = append(kvs, set(fmt.Sprintf("k%04d", 2*i), 1, strings.Repeat("v", 50)+strconv.Itoa(i)))
	}
	return kvs
}

func TestALookupInPlaceUsesOnePartAndOneBlock(t *testing.T) {
	testkit.Long(t)
	kvs := numbered()
	for _, c := range []Codec{None, S2} {
		for _, w := range ways {
			r, _ := inPlaceTable(t, w, WriterOptions{Codec: c}, kvs)
			for round := range 2 {
				for i, v := range kvs {
					st := mustGet(t, r, v)
					mapped := uint64(0)
					if c == None && w.mapped && !w.absent {
						mapped = 1
					}
					want := Stats{
						Blocks: 1, Mapped: mapped, IndexParts: 1, Present: 1,
						FileReads: 1 - mapped, FileBytes: st.FileBytes,
					}
					if st != want {
						t.Fatalf("%v, %s: %s: %+v, want %+v", c, w.name, v.key, st, want)
					}
					for _, absent := range []string{v.key + "x", v.key[:4], fmt.Sprintf("k%04d", 2*i+1), "a", "z"} {
						var st Stats
						g := r.Enter()
						_, ok, err := r.Get([]byte(absent), ikey.MaxSeq, &st)
						g.Leave()
						if ok || err != nil || st.Blocks > 1 || st.IndexParts > 1 || st.Present+st.PartLoads > 0 {
							t.Fatalf("%v, %s, round %d: %s: %v, %v, %+v", c, w.name, round, absent, ok, err, st)
						}
					}
				}
			}
			if s := r.cache.Stats(); s.Blocks != 0 || r.parts.Bytes() != 0 {
				t.Errorf("%v, %s: %d blocks and %d bytes of parts are kept", c, w.name, s.Blocks, r.parts.Bytes())
			}
			checkIter(t, r, IterOptions{}, kvs)
			r.Close()
		}
	}
}

func TestALookupInPlaceAllocatesNothing(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	defer cache.Testing.Store(cache.Testing.Swap(nil))
	kvs := numbered()
	var keys [][]byte
	for _, v := range kvs {
		keys = append(keys, []byte(v.key))
	}
	for _, c := range []Codec{None, S2} {
		for _, w := range ways {
			r, _ := inPlaceTable(t, w, WriterOptions{Codec: c}, kvs)
			i, dst := 0, make([]byte, 0, 100)
			var it Iter
			lookup := func() {
				i = (i + 7) % len(kvs)
				var st Stats
				g := r.Enter()
				hit, _, _ := r.Get(keys[i], 9, &st)
				dst, _ = hit.AppendValue(dst[:0])
				g.Leave()
			}
			seek := func() {
				i = (i + 7) % len(kvs)
				it.Reset(r, IterOptions{})
				if !it.SeekGE(ikey.Key{User: keys[i], Trailer: kvs[i].t}) || !bytes.Equal(it.Key().User, keys[i]) {
					t.Fatal(it.Key(), it.Err())
				}
				_ = it.Close()
			}
			for name, use := range map[string]func(){"lookup": lookup, "seek": seek} {
				for range 300 {
					use()
				}
				if n := testing.AllocsPerRun(300, use); n > 0 {
					t.Errorf("%v, %s: a %s allocates %v times", c, w.name, name, n)
				}
			}
		}
	}
}

// TestAValueFoundInPlaceCanBeHeld: it is in no cache, and yet valid for as long as it is held.
func TestAValueFoundInPlaceCanBeHeld(t *testing.T) {
	kvs := numbered()
	r, _ := inPlaceTable(t, way{}, WriterOptions{}, kvs)
	get := func(v kv) Hit {
		g := r.Enter()
		defer g.Leave()
		hit, ok, err := r.Get([]byte(v.key), ikey.MaxSeq, new(Stats))
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		hit.Hold()
		return hit
	}
	hits := make([]Hit, 50)
	for i := range hits {
		hits[i] = get(kvs[i])
	}
	for _, v := range kvs {
		mustGet(t, r, v)
	}
	for i := range hits {
		if value, held := hits[i].Held(); !held || string(value) != kvs[i].value {
			t.Errorf("held %v: %q, want %q", held, value, kvs[i].value)
		}
		hits[i].Release()
	}
}

func TestAFullPoolLoadsAPartNowAndThen(t *testing.T) {
	kvs := numbered()
	r, _ := inPlaceTable(t, ways[0], WriterOptions{}, kvs)
	r.parts.SetLimit(3000)
	mustGet(t, r, kvs[300])
	size := r.parts.Bytes() // of its part
	dropIndex(r)
	r.parts.SetLimit(5 * size)
	fill := func() {
		for i := 0; i < len(kvs) && r.parts.hasRoom(size); i += 10 {
			mustGet(t, r, kvs[i])
		}
	}
	fill()
	loads, n := 0, 0
	for range 100 * admitted {
		st := mustGet(t, r, kvs[300])
		if st.IndexParts > 0 {
			n++
			if st.PartLoads > 0 {
				loads++
				dropIndex(r)
				fill()
			}
		}
	}
	if want := n / admitted; loads < want/2 || loads > 2*want || n < 80*admitted {
		t.Errorf("%d of %d lookups loaded the part, want one in %d", loads, n, admitted)
	}
}

func TestAPartInPlaceIsVerifiedOncePerResidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kvs := numbered()
		r, f := inPlaceTable(t, ways[0], WriterOptions{}, kvs)
		top := r.top.Load()
		key := []byte(kvs[300].key)
		part := &top.parts[top.find(key)]
		find := func() error {
			_, ok, err := get(r, string(key), 9)
			if err == nil && !ok {
				err = errors.New("not found")
			}
			return err
		}
		must(t, find())
		asked := f.asked
		for range 10 {
			must(t, find())
		}
		if f.asked != asked || asked != 2 {
			t.Errorf("asked %d times for a part and a block, then %d times more", asked, f.asked-asked)
		}
		time.Sleep(5 * time.Second)
		must(t, find())
		if f.asked != 4 {
			t.Errorf("asked %d times, want 4: once more for each after a pause", f.asked)
		}
		x := wholeIndex(t, r)
		block := x.handles[x.find(key)].offset
		for _, offset := range []uint64{part.offset, block} {
			f.content[offset+9] ^= 1
			time.Sleep(5 * time.Second)
			want := fmt.Sprintf("000001.sst: offset %d", offset)
			if err := find(); !errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want damage at %s", err, want)
			}
			f.content[offset+9] ^= 1
			must(t, find())
		}
		f.absent = true
		f.reads = 0
		time.Sleep(5 * time.Second)
		must(t, find())
		if f.reads != 2 {
			t.Errorf("%d reads of a part and a block that are not in memory, want 2", f.reads)
		}
	})
}

// TestAPartThatDoesNotFitIsCheckedWholeAgain gives a part that was checked another payload, whose first entry is
// impossible and whose checksum is right.
func TestAPartThatDoesNotFitIsCheckedWholeAgain(t *testing.T) {
	kvs := numbered()
	r, f := inPlaceTable(t, ways[1], WriterOptions{}, kvs)
	top := r.top.Load()
	var of []kv
	for _, v := range kvs {
		if top.find([]byte(v.key)) == 3 {
			of = append(of, v)
		}
	}
	first, last := of[0], of[len(of)-1]
	mustGet(t, r, last)
	w := &top.parts[3]
	b := f.content[w.offset:][:w.length]
	v, err := viewPart(b)
	must(t, err)
	binary.LittleEndian.PutUint32(v.entries[4:], maxCoded+1) // decoded
	sealed := NewSeal(1).appendTrailer(bytes.Clone(b), 0, KindPart, w.offset, None)
	copy(f.content[w.offset:], sealed)
	mustGet(t, r, last)
	for _, v := range []kv{first, last} {
		if _, _, err := get(r, v.key, 9); !errors.Is(err, corrupt.Err) {
			t.Errorf("%s: %v, want damage", v.key, err)
		}
	}
}

// TestALookupSurvivesChangesOfAMappedPart changes bytes of parts that were verified just before.
func TestALookupSurvivesChangesOfAMappedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kvs := numbered()
		r, f := inPlaceTable(t, ways[0], WriterOptions{}, kvs)
		top := r.top.Load()
		rng := rand.New(rand.NewPCG(1, 2))
		whole := bytes.Clone(f.content)
		wrong := 0
		for range 3000 {
			i := rng.IntN(len(kvs))
			mustGet(t, r, kvs[i])
			w := &top.parts[top.find([]byte(kvs[i].key))]
			for range 1 + rng.IntN(4) {
				f.content[w.offset+rng.Uint64N(uint64(w.length))] = byte(rng.IntN(256))
			}
			if got, ok, err := get(r, kvs[i].key, 9); err != nil || !ok || got != kvs[i] {
				wrong++
			}
			it := r.Iter(IterOptions{})
			it.SeekGE(kvs[i].ikey())
			_ = it.Close()
			copy(f.content, whole)
			time.Sleep(5 * time.Second)
		}
		if wrong == 0 {
			t.Error("no change was seen")
		}
	})
}

// A halfMapped is a file whose data blocks are not in memory. It loses its parts of the index while a block is read.
type halfMapped struct {
	mappedFile
	parts, end uint64 // where the parts begin and end
}

func (f *halfMapped) Mapped(off int64, n int, inMemory bool) []byte {
	if inMemory && uint64(off) < f.parts {
		return nil
	}
	return f.mappedFile.Mapped(off, n, false)
}

func (f *halfMapped) ReadAt(p []byte, off int64) (int, error) {
	clear(f.content[f.parts:f.end])
	return f.mappedFile.ReadAt(p, off)
}

// TestNothingOfAMappedPartIsUsedOutsideOfIt: the separators that a block is checked against are copies.
func TestNothingOfAMappedPartIsUsedOutsideOfIt(t *testing.T) {
	kvs := numbered()
	r, f := inPlaceTable(t, ways[0], WriterOptions{}, kvs)
	top := r.top.Load()
	half := &halfMapped{*f, top.end, top.partsEnd()}
	half.Reader = bytes.NewReader(bytes.Clone(f.content))
	r.file, r.mapped = half, half
	whole := bytes.Clone(f.content)
	for _, v := range kvs {
		if st := mustGet(t, r, v); st.FileReads != 1 || st.IndexParts != 1 {
			t.Fatalf("%s: %+v", v.key, st)
		}
		copy(f.content, whole)
	}
}

func TestManyLookupsInPlace(t *testing.T) {
	kvs := numbered()
	for _, w := range ways {
		r, _ := inPlaceTable(t, w, WriterOptions{}, kvs)
		for from := 0; from < len(kvs); from += 60 {
			ls := make([]Lookup, 60)
			for i := range ls {
				ls[i] = Lookup{Reader: r, Key: []byte(kvs[from+i].key), Seq: ikey.MaxSeq}
			}
			var st Stats
			g := r.Enter()
			GetMany(ls, &st)
			for i := range ls {
				value, err := ls[i].Hit.AppendValue(nil)
				if err != nil || ls[i].Err != nil || string(value) != kvs[from+i].value || !ls[i].Present {
					t.Errorf("%s: %q, %v, %v", ls[i].Key, value, err, ls[i].Err)
				}
			}
			g.Leave()
			if st.IndexParts != 60 || st.Blocks != 60 || st.Present != 60 {
				t.Errorf("%s: %+v, want one part and one block for each", w.name, st)
			}
		}
	}
}

func TestAChecklistForgetsAResidence(t *testing.T) {
	c := makeChecklist(70)
	if len(c) != 3 || c.bytes() != 24 {
		t.Fatalf("%d words of %d bytes", len(c), c.bytes())
	}
	for i := range 70 {
		for _, at := range []moment{2, 3} {
			if c.has(i, at) {
				t.Errorf("block %d is in an empty list", i)
			}
		}
	}
	c.add(40, 10)
	c.add(41, 11)
	for _, q := range []struct {
		i    int
		at   moment
		want bool
	}{
		{40, 10, true},
		{40, 11, true},
		{40, 12, false},
		{41, 11, true},
		{41, 12, false},
		{42, 10, false},
		{8, 10, false},
		{40, 9, false},
	} {
		if got := c.has(q.i, q.at); got != q.want {
			t.Errorf("block %d at %d: %v, want %v", q.i, q.at, got, q.want)
		}
	}
	c.remove(40)
	if c.has(40, 10) || !c.has(41, 10) {
		t.Error("one block is removed, the other is not")
	}
	c.add(43, 12)
	if c.has(41, 12) || !c.has(43, 13) {
		t.Error("a new residence begins with the block alone")
	}
}
