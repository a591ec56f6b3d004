package sstable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/cache"
)

// topOf returns the top of a table, its payload, and the limit and the slack of its parts.
func topOf(tb testing.TB, file []byte) (t *top, payload []byte, limit, slack uint64) {
	tb.Helper()
	ft, err := parseFooter(file, uint64(len(file)))
	must(tb, err)
	payload = file[ft.indexOff:][:ft.indexLen]
	t, err = parseTop(payload, ft.sampleOff(), ft.slack())
	must(tb, err)
	return t, payload, ft.sampleOff(), ft.slack()
}

// wholeIndex returns the index of a table, also if it is in parts. Its slots are not those of the table.
func wholeIndex(tb testing.TB, r *Reader) *index {
	tb.Helper()
	t, err := r.load(new(Stats))
	must(tb, err)
	whole := new(index)
	whole.reset(0, t.prefix, 0)
	whole.first, whole.seqs, whole.checked, whole.last = t.first, t.seqs, t.checked, true
	for p := range t.parts {
		x := t.loaded[p].Load()
		if x == nil {
			x, err = r.loadPart(t, p, nil)
			must(tb, err)
		}
		for i := range x.handles {
			_, stored, decoded := x.extent(i)
			whole.push(uint32(stored), uint32(decoded), nil, x.sep(i))
		}
	}
	whole.slots = make([]cache.Slot, t.blocks)
	return whole
}

// dropCached drops the blocks of a table from the cache, and not its index.
func dropCached(r *Reader) {
	t := r.top.Load()
	for p := range t.parts {
		if x := t.loaded[p].Load(); x != nil {
			r.cache.Drop(x.slots)
		}
	}
}

func TestASmallIndexIsNotInParts(t *testing.T) {
	for _, n := range []int{1, 50, 3000, 20_000} {
		var kvs []kv
		for i := range n {
			kvs = append(kvs, set(fmt.Sprintf("key%06d", i), 1, "0123456789"))
		}
		file, info := build(t, WriterOptions{ID: 1, BlockSize: 512, partSize: defaultPartSize}, kvs)
		ft, err := parseFooter(file, info.Size)
		must(t, err)
		if wantParts := n >= 20_000; ft.inParts() != wantParts || info.IndexInParts != wantParts ||
			ft.version != 1+uint32(min(ft.flags, 1)) {
			t.Errorf("%d keys: version %d, in parts: %v", n, ft.version, ft.inParts())
		}
		if !ft.inParts() {
			if ft.indexLen > defaultPartSize {
				t.Errorf("an index of %d bytes in one part", ft.indexLen)
			}
			continue
		}
		top, _, _, _ := topOf(t, file)
		for p := range top.parts {
			w := &top.parts[p]
			if last := p == len(top.parts)-1; w.length > defaultPartSize || !last && w.length < defaultPartSize-40 {
				t.Errorf("part %d of %d bytes, want up to %d", p, w.length, defaultPartSize)
			}
		}
		if p, err := newReader(file, info, 0).Properties(); err != nil || top.blocks != int(p.Blocks) {
			t.Errorf("parts of %d blocks, want %d: %v", top.blocks, p.Blocks, err)
		}
	}
}

// TestPartsHoldSeveralLongSeparators: parts of few blocks would make the top as long as the index.
func TestPartsHoldSeveralLongSeparators(t *testing.T) {
	var b indexBuilder
	b.limit = defaultPartSize
	for i := range 100 {
		b.add([]byte(fmt.Sprintf("%03d", i)+strings.Repeat("x", 1000)), 4000, 4000)
	}
	b.eachPart(func([]byte) {})
	for _, p := range b.tops[:len(b.tops)-1] {
		if p.blocks != minPart {
			t.Errorf("part of %d blocks and %d bytes, want %d blocks", p.blocks, p.length, minPart)
		}
	}
}

// TestAPartEndsBeforeItsOffsetsOverflow: offsets in a part have 32 bits.
func TestAPartEndsBeforeItsOffsetsOverflow(t *testing.T) {
	var b indexBuilder
	b.limit = defaultPartSize
	data := uint64(0)
	for i := range 40 {
		b.add([]byte{byte(i)}, maxValue, maxValue)
		data += maxValue + trailerSize
	}
	var parts [][]byte
	b.eachPart(func(payload []byte) { parts = append(parts, payload) })
	end := data
	for _, p := range parts {
		end += uint64(len(p)) + trailerSize
	}
	top, err := parseTop(b.appendTop(nil), end, 0)
	must(t, err)
	if len(parts) != 3 || top.end != data {
		t.Fatalf("%d parts up to %d, want 3 up to %d", len(parts), top.end, data)
	}
	for p := range parts {
		x, err := top.parsePart(p, parts[p])
		must(t, err)
		if want := uint64(top.parts[p].base) * (maxValue + trailerSize); x.handles[0].offset != want {
			t.Errorf("part %d begins at %d, want %d", p, x.handles[0].offset, want)
		}
	}
}

// indexOf builds an index of random separators, some of them several times, in parts of about the given size.
func indexOf(rng *rand.Rand, n, size int) (b indexBuilder, seps [][]byte) {
	b.limit = size
	key := []byte("prefix")
	for len(seps) < n {
		switch rng.IntN(4) {
		case 0: // again: versions of one key continue
		case 1:
			key = append(key, byte(rng.IntN(3)))
		default:
			key = bytes.TrimRight(key[6:], "\xff")
			if len(key) == 0 {
				key = append(key, 1)
			} else {
				key[len(key)-1]++
			}
			key = append([]byte("prefix"), key...)
			for range rng.IntN(12) {
				key = append(key, byte(rng.IntN(256)))
			}
		}
		seps = append(seps, bytes.Clone(key))
		stored := 1 + rng.IntN(5000)
		b.add(key, stored, stored+rng.IntN(100))
	}
	return b, seps
}

// TestPartsAndTheWholeIndexAgree compares the whole index, parts in memory and parts searched in place.
func TestPartsAndTheWholeIndexAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		b, seps := indexOf(rng, 20+rng.IntN(100), 1+rng.IntN(300))
		if !b.inParts() {
			continue
		}
		var whole partBuilder
		var parts [][]byte
		data := uint64(0)
		b.eachPart(func(payload []byte) { parts = append(parts, bytes.Clone(payload)) })
		end := uint64(0)
		for p, w := range b.tops {
			data += w.data
			end += uint64(len(parts[p])) + trailerSize
		}
		top, err := parseTop(b.appendTop(nil), data+end+5, 5)
		must(t, err)
		at := 0
		for p := range parts {
			x, err := top.parsePart(p, parts[p])
			must(t, err)
			if top.parts[p].base != at {
				t.Fatalf("part %d begins with block %d, want %d", p, top.parts[p].base, at)
			}
			for i := range x.blocks() {
				_, stored, decoded := x.extent(i)
				if !bytes.Equal(x.separatorKey(i), seps[at]) {
					t.Fatalf("separator %d is %q, want %q", at, x.separatorKey(i), seps[at])
				}
				whole.add(seps[at], stored, decoded)
				at++
			}
		}
		x, err := parseIndex(whole.appendIndex(nil), data, 0)
		must(t, err)
		keys := [][]byte{nil, []byte("p"), []byte("prefix"), []byte("q")}
		for _, s := range seps {
			keys = append(keys, s, s[:len(s)-1], append(bytes.Clone(s), 0), append(bytes.Clone(s), 'x'))
		}
		for _, key := range keys {
			want := x.find(key)
			p := top.find(key)
			if p == len(parts) {
				if want != x.blocks() {
					t.Fatalf("round %d: %q is after all parts, want block %d", round, key, want)
				}
				continue
			}
			part, err := top.parsePart(p, parts[p])
			must(t, err)
			if got := top.parts[p].base + part.find(key); got != want {
				t.Fatalf("round %d: %q is in block %d, want %d", round, key, got, want)
			}
			v, err := top.checkPart(p, parts[p])
			must(t, err)
			i, ok := v.find(key)
			if got := top.parts[p].base + i; !ok || got != want {
				t.Fatalf("round %d: %q is in block %d in place (%v), want %d", round, key, got, ok, want)
			}
		}
	}
}

func TestAPartOfMoreBlocksThanWritersPutIntoOneIsRefused(t *testing.T) {
	for _, blocks := range []uint32{maxPartBlocks, maxPartBlocks + 1} {
		b := binary.LittleEndian.AppendUint32(nil, 2)
		b = binary.LittleEndian.AppendUint32(b, 0)
		length, data := partHeader+blocks*partEntry, uint64(blocks)*(1+trailerSize)
		for range 2 {
			b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, length), blocks)
			b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, data), 1)
		}
		end := 2 * (data + uint64(length) + trailerSize)
		if _, err := parseTop(append(b, "ab"...), end, 0); (err == nil) != (blocks == maxPartBlocks) {
			t.Errorf("parts of %d blocks: %v", blocks, err)
		}
	}
}

// TestHostileTopsAndParts changes a field at a time, where no checksum would notice it.
func TestHostileTopsAndParts(t *testing.T) {
	file, _ := smallInParts(t, None)
	good, payload, _, _ := topOf(t, file)
	lastSep := len(payload) - int(good.parts[len(good.parts)-1].sep)
	topFields := topHeader + len(good.prefix)
	put := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	for name, change := range map[string]func([]byte){
		"one part":                          put(0, 1),
		"2³²-1 parts":                       put(0, 1<<32-1),
		"a long prefix":                     put(4, 1<<32-1),
		"an empty part":                     put(topFields, 0),
		"a part of another length":          put(topFields, good.parts[0].length+1),
		"a long part":                       put(topFields, maxPart+1),
		"no blocks":                         put(topFields+4, 0),
		"more blocks than the part has":     put(topFields+4, good.parts[0].length),
		"no data":                           put(topFields+8, 0),
		"more data than the file has":       put(topFields+12, 1),
		"data that wraps":                   put(topFields+12, 1<<32-1),
		"a separator of another length":     put(topFields+16, good.parts[0].sep-1),
		"a separator of 2³²-1":              put(topFields+16, 1<<32-1),
		"separators that are out of order":  func(b []byte) { b[topFields+topEntry*len(good.parts)]++ },
		"a last separator before the other": func(b []byte) { b[lastSep] = 0 },
	} {
		b := bytes.Clone(payload)
		change(b)
		if _, err := parseTop(b, good.partsEnd(), 0); err == nil {
			t.Errorf("top with %s is accepted", name)
		}
	}
	const p = 1
	w := &good.parts[p]
	part := file[w.offset:][:w.length]
	v, err := good.checkPart(p, part)
	must(t, err)
	fields := partHeader + len(v.prefix)
	last := fields + (v.blocks()-1)*partEntry
	for name, change := range map[string]func([]byte){
		"no blocks":                     put(0, 0),
		"2³²-1 blocks":                  put(0, 1<<32-1),
		"a long prefix":                 put(4, 1<<32-1),
		"another prefix":                func(b []byte) { b[partHeader]++ },
		"a block without bytes":         put(fields, trailerSize),
		"a block that ends too late":    put(last, uint32(w.data)+1),
		"a block that ends too early":   put(last, uint32(w.data)-1),
		"a short decoded block":         put(last+4, 1),
		"a huge decoded block":          put(last+4, 1<<32-1),
		"a separator that ends too far": put(last+8, uint32(len(v.seps))+1),
		"bytes after the last":          put(last+8, uint32(len(v.seps))-1),
		"another last separator":        func(b []byte) { b[len(b)-1]++ },
	} {
		b := bytes.Clone(part)
		change(b)
		if _, err := good.checkPart(p, b); err == nil {
			t.Errorf("part with %s is accepted", name)
		}
	}
	for _, other := range []int{0, 2} {
		w := &good.parts[other]
		if _, err := good.checkPart(p, file[w.offset:][:w.length]); err == nil {
			t.Errorf("part %d is accepted as part %d", other, p)
		}
	}
}

// TestAPartBeginsAfterTheOneBefore changes the first separator of a part alone.
func TestAPartBeginsAfterTheOneBefore(t *testing.T) {
	b := indexBuilder{limit: partHeader + 2*partEntry + 4}
	for _, sep := range []string{"a1", "b1", "b3", "c1"} {
		b.add([]byte(sep), 10, 10)
	}
	var parts [][]byte
	end := uint64(4 * (10 + trailerSize))
	b.eachPart(func(payload []byte) { parts, end = append(parts, payload), end+uint64(len(payload))+trailerSize })
	top, err := parseTop(b.appendTop(nil), end, 0)
	if must(t, err); len(parts) != 2 {
		t.Fatalf("%d parts", len(parts))
	}
	for first, ok := range map[string]bool{"b3": true, "b1": true, "b0": false, "a0": false, "c2": false} {
		copy(parts[1][partHeader+2*partEntry:], first)
		if _, err := top.checkPart(1, parts[1]); (err == nil) != ok {
			t.Errorf("a part from %q on behind %q: %v", first, "b1", err)
		}
	}
}

func TestABlockLiesBetweenItsSeparators(t *testing.T) {
	data := encode([]kv{set("key3", 1, "v"), set("key5", 1, "v")})
	for name, q := range map[string]struct {
		x     *index // of one block
		upper string
		ok    bool
	}{
		"close":                        {&index{base: 7, lower: []byte("y2")}, "y5", true},
		"versions that go on":          {&index{base: 7, lower: []byte("y3")}, "y5", true},
		"far":                          {&index{base: 7, lower: []byte("y")}, "z", true},
		"a key before the one before":  {&index{base: 7, lower: []byte("y4")}, "y5", false},
		"a key behind its own":         {&index{base: 7, lower: []byte("y2")}, "y4", false},
		"a last block with other keys": {&index{base: 7, lower: []byte("y"), last: true}, "y6", false},
		"a last block":                 {&index{base: 7, lower: []byte("y"), last: true}, "y5", true},
		"a first block":                {&index{first: []byte("key3")}, "z", true},
		"a first block without a key":  {&index{first: []byte("key2")}, "z", false},
	} {
		q.x.reset(1, []byte("ke"), 0)
		q.x.push(1, 1, nil, []byte(q.upper))
		if err := q.x.checkBounds(0, data); (err == nil) != q.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzPart searches a part in place that was checked, and one that was not: neither may panic, and the first is right.
func FuzzPart(f *testing.F) {
	file, _ := smallInParts(f, None)
	good, _, _, _ := topOf(f, file)
	for p := range good.parts {
		w := &good.parts[p]
		f.Add(file[w.offset:][:w.length], []byte("key011"))
	}
	f.Fuzz(func(t *testing.T, b, key []byte) {
		v, err := viewPart(b)
		if err != nil {
			return
		}
		i, ok := v.find(key)
		if ok && (i < 0 || i >= v.blocks()) {
			t.Fatalf("find(%q) = %d of %d", key, i, v.blocks())
		}
		n := v.blocks()
		from, to := v.suffixEnds(n - 1)
		if from > to || int(to) > len(v.seps) {
			return
		}
		_, data := v.span(n - 1)
		upper := append(bytes.Clone(v.prefix), v.suffix(n-1)...)
		if v.check(&topPart{uint32(len(b)), uint32(n), uint64(data), 0}, v.prefix, nil, upper) != nil {
			return
		}
		if bytes.Compare(key, upper) > 0 {
			return
		}
		if !ok || v.compare(i, key) < 0 || i > 0 && v.compare(i-1, key) >= 0 {
			t.Fatalf("find(%q) = %d, %v of %d", key, i, ok, n)
		}
		var again partBuilder
		for i := range n {
			start, end := v.span(i)
			again.add(append(bytes.Clone(v.prefix), v.suffix(i)...), int(end-start-trailerSize), int(v.decoded(i)))
		}
		if got, err := viewPart(again.appendPart(nil)); err != nil || got.blocks() != n {
			t.Fatalf("built again: %d blocks, want %d; %v", got.blocks(), n, err)
		}
	})
}

// FuzzTop: what parses is consistent.
func FuzzTop(f *testing.F) {
	file, _ := smallInParts(f, S2)
	_, payload, limit, slack := topOf(f, file)
	f.Add(payload, limit, slack, []byte("key011"))
	f.Fuzz(func(t *testing.T, b []byte, limit, slack uint64, key []byte) {
		top, err := parseTop(b, limit, slack%filterAlign)
		if err != nil {
			return
		}
		blocks, end := 0, uint64(0)
		for p := range top.parts {
			w := &top.parts[p]
			if w.base != blocks || w.start != end || w.offset < top.end || w.length > maxPart {
				t.Fatalf("part %d: %+v after %d blocks of %d bytes", p, w.topPart, blocks, end)
			}
			blocks += int(w.blocks)
			end += w.data
		}
		if blocks != top.blocks || end != top.end || top.partsEnd() > limit {
			t.Fatalf("%d blocks up to %d, parts up to %d", blocks, end, top.partsEnd())
		}
		if i := top.find(key); i > len(top.parts) || i < len(top.parts) && top.compareSep(i, key) < 0 ||
			i > 0 && top.compareSep(i-1, key) >= 0 {
			t.Fatalf("find(%q) = %d of %d", key, i, len(top.parts))
		}
	})
}

func TestAnEvictedIndexInOneBlockIsReadAgainAndIsTheSame(t *testing.T) {
	table := func(n int) (*Reader, []byte, []kv) {
		var kvs []kv
		for i := range n {
			kvs = append(kvs, set(fmt.Sprintf("key%03d", i), 1, strings.Repeat("v", 100)))
		}
		file, info := build(t, WriterOptions{ID: 1, BlockSize: 1 << 10, partSize: defaultPartSize}, kvs)
		r := newReader(file, info, 1<<20)
		must(t, r.LoadTail())
		w := &r.top.Load().parts[0]
		return r, file[w.offset:][:w.length], kvs
	}
	r, payload, kvs := table(100)
	if loaded, all := r.Parts(); loaded != 1 || all != 1 {
		t.Fatalf("%d of %d parts are loaded, want 1 of 1", loaded, all)
	}
	dropIndex(r)
	for i, want := range []uint64{1, 0} {
		if st := mustGet(t, r, kvs[50]); st.PartLoads != want || st.IndexParts != want || st.TailLoads != 0 {
			t.Errorf("lookup %d: %+v, want %d loads of the part and none of the tail", i, st, want)
		}
	}
	top := r.top.Load()
	if x, err := top.parseOne(payload); err != nil || x.blocks() != top.blocks {
		t.Error(err)
	}
	_, other, _ := table(99) // has as many blocks, and another last key
	_, more, _ := table(200)
	for _, p := range [][]byte{other, more, payload[:len(payload)-1]} {
		if _, err := top.parseOne(p); err == nil {
			t.Errorf("an index of %d bytes is taken for the one of %d bytes that was evicted", len(p), len(payload))
		}
	}
}

// placeOf describes block i of an index.
func placeOf(x *index, i int) string {
	offset, stored, _ := x.extent(i)
	return fmt.Sprintf("%d at %d: %d bytes, last: %v, from %s%s to %s",
		x.base+i, offset, stored, x.last && i+1 == x.blocks(), x.prefix, x.before(i), x.separatorKey(i))
}

// TestOneBlockOfAPartIsThatOfTheWholePart also changes parts that were checked before, as a mapped file may change.
func TestOneBlockOfAPartIsThatOfTheWholePart(t *testing.T) {
	var kvs []kv
	for i := range 400 {
		kvs = append(kvs, set(fmt.Sprintf("k%04d", i), 1, strings.Repeat("v", 90)))
	}
	file, info := build(t, WriterOptions{ID: 1, BlockSize: 512, partSize: 120}, kvs)
	r := newReader(file, info, 0)
	must(t, r.LoadTail())
	top, whole, x, refused := r.top.Load(), wholeIndex(t, r), new(index), 0
	for p := 1; p < len(top.parts); p++ {
		part, err := r.loadPart(top, p, nil)
		must(t, err)
		if lower := slices.Concat(part.prefix, part.before(0)); !bytes.Equal(lower, top.separatorKey(p-1)) {
			t.Errorf("part %d begins behind %q, want %q", p, lower, top.separatorKey(p-1))
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		key := []byte(kvs[rng.IntN(len(kvs))].key)
		p := top.find(key)
		w := &top.parts[p]
		b := bytes.Clone(file[w.offset:][:w.length])
		v, err := viewPart(b)
		if err != nil || !top.fillOne(x, p, &v, key) {
			t.Fatalf("part %d is refused: %v", p, err)
		}
		if got, want := placeOf(x, 0), placeOf(whole, whole.find(key)); got != want {
			t.Fatalf("%s: got %s, want %s", key, got, want)
		}
		for range 1 + rng.IntN(3) {
			b[rng.IntN(len(b))] = byte(rng.IntN(256))
		}
		if v, err = viewPart(b); err != nil || !top.fillOne(x, p, &v, key) {
			refused++
		} else if offset, stored, _ := x.extent(0); offset < w.start || stored < 1 || x.end > w.start+w.data {
			t.Fatalf("a changed part %d: %s, want a block in %d…%d", p, placeOf(x, 0), w.start, w.start+w.data)
		}
	}
	if refused == 0 {
		t.Error("no change was seen")
	}
}
