package sstable

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	"github.com/bloomkv/bloomkv/vfs"
)

// A mappedFile is a file in memory that records how it is used.
type mappedFile struct {
	*bytes.Reader
	content []byte
	absent  bool // the system does not have it in memory
	gone    bool // it is not mapped
	asked   int  // calls that asked whether it has
	reads   int
}

func (f *mappedFile) Mapped(off int64, n int, inMemory bool) []byte {
	if f.gone {
		return nil
	}
	if inMemory {
		if f.asked++; f.absent {
			return nil
		}
	}
	return f.content[off:][:n:n]
}

func (f *mappedFile) ReadAt(p []byte, off int64) (int, error) {
	f.reads++
	return f.Reader.ReadAt(p, off)
}

// mappedTable returns a reader of a table of 1000 keys k0000, k0001 … in a mapped file, with a cache that is full. Its
// index is loaded.
func mappedTable(t *testing.T, o WriterOptions) (r *Reader, f *mappedFile, kvs []kv) {
	t.Helper()
	for i := range 1000 {
		kvs = append(kvs, set(fmt.Sprintf("k%04d", i), 1, strings.Repeat("v", 50)+strconv.Itoa(i)))
	}
	o.BlockSize = 1 << 10
	r, f = mapped(t, o, kvs)
	return r, f, kvs
}

// mapped does the same for a table of kvs, in blocks of 4 KiB by default.
func mapped(t *testing.T, o WriterOptions, kvs []kv) (r *Reader, f *mappedFile) {
	t.Helper()
	o.ID, o.partSize = 1, cmp.Or(o.partSize, defaultPartSize)
	file, info := build(t, o, kvs)
	f = &mappedFile{Reader: bytes.NewReader(file), content: file}
	d := new(epoch.Domain)
	r = NewReader(f, metaOf(info), cache.New(1, d), anyParts(), d)
	must(t, r.Load(1))
	if _, ok, err := get(r, kvs[0].key, 9); !ok || err != nil || r.cache.HasRoom(1<<10) {
		t.Fatal(ok, err, "or the cache is not full")
	}
	f.asked, f.reads = 0, 0
	return r, f
}

// getUnadmitted returns the result of a lookup of key, and its work, at the first of some attempts in which the lookup
// does not put its block into the cache.
func getUnadmitted(r *Reader, key string) (value string, st Stats, err error) {
	for range 100 * admitted {
		st = Stats{}
		g := r.Enter()
		hit, ok, err := r.Get([]byte(key), 9, &st)
		var b []byte
		if err == nil && ok {
			b, err = hit.AppendValue(nil)
		}
		held := hit.block != nil
		g.Leave()
		if err != nil || !ok || !held {
			return string(b), st, err
		}
	}
	return "", st, fmt.Errorf("%q was never looked up in the mapped file", key)
}

func TestABlockInTheMappedFileIsUsedInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no residence ends
		r, f, kvs := mappedTable(t, WriterOptions{Codec: None})
		for range 3 {
			for i, v := range kvs {
				value, st, err := getUnadmitted(r, v.key)
				if err != nil || value != v.value || st.Mapped != 1 || st.FileReads != 0 || st.Present != 1 {
					t.Fatalf("%s: %q, %v, %+v; want %q from the mapped file", v.key, value, err, st, v.value)
				}
				if _, st, err := getUnadmitted(r, fmt.Sprintf("k%04d+", i)); err != nil || st.Present != 0 {
					t.Fatalf("after %s: %v, %+v; want no version", v.key, err, st)
				}
			}
		}
		if blocks := wholeIndex(t, r).blocks(); f.reads != 0 || f.asked < blocks-1 || f.asked > 3*blocks {
			t.Errorf("%d reads; asked %d times whether one of %d blocks is in memory", f.reads, f.asked, blocks)
		}
		key, dst := []byte("k0500"), make([]byte, 0, 100)
		if n := testing.AllocsPerRun(40, func() { // rounds down, so the one or two that are admitted do not count
			var st Stats
			g := r.Enter()
			hit, _, _ := r.Get(key, 9, &st)
			dst, _ = hit.AppendValue(dst[:0])
			g.Leave()
		}); n > 0 {
			t.Errorf("a lookup in the mapped file allocates %v times", n)
		}
	})
}

func TestLookupsPutTheirBlocksIntoTheCacheNowAndThen(t *testing.T) {
	r, _, _ := mappedTable(t, WriterOptions{Codec: None})
	const n = 100 * admitted
	mapped, admissions := 0, 0
	for range n {
		var st Stats
		g := r.Enter()
		hit, _, err := r.Get([]byte("k0500"), 9, &st)
		must(t, err)
		if _, held := hit.Held(); held {
			admissions++
		} else {
			mapped++
		}
		g.Leave()
	}
	if admissions < 40 || admissions > 200 { // 100 ± 10: six standard deviations
		t.Errorf("%d of %d lookups took their block into the cache, want one in %d", admissions, n, admitted)
	}
}

func TestACacheWithRoomIsFilledFirst(t *testing.T) {
	r, _, kvs := mappedTable(t, WriterOptions{Codec: None})
	r.cache = cache.New(1<<20, r.domain)
	for _, v := range kvs {
		var st Stats
		g := r.Enter()
		hit, ok, err := r.Get([]byte(v.key), 9, &st)
		if _, held := hit.Held(); !ok || err != nil || !held {
			t.Fatalf("%s: %v, %v; want its block in the cache", v.key, ok, err)
		}
		g.Leave()
	}
}

func TestAMappedBlockIsVerifiedOncePerResidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f, _ := mappedTable(t, WriterOptions{Codec: None})
		offset, _, _ := wholeIndex(t, r).extent(wholeIndex(t, r).find([]byte("k0500")))
		find := func() error {
			_, _, err := getUnadmitted(r, "k0500")
			return err
		}
		must(t, find())
		asked := f.asked
		for range 10 {
			must(t, find())
		}
		if asked == 0 || f.asked != asked {
			t.Errorf("whether the block is in memory was asked %d times, then %d times more", asked, f.asked-asked)
		}
		time.Sleep(5 * time.Second) // two moments and more
		must(t, find())
		if f.asked != asked+1 {
			t.Errorf("asked %d times after a pause, want once", f.asked-asked)
		}
		flip := int(offset) + 100
		f.content[flip] ^= 1 // the reader shares the bytes
		time.Sleep(5 * time.Second)
		if err := find(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("000001.sst: offset %d", offset)) {
			t.Errorf("a block that changed in the file: %v, want an error with file and offset %d", err, offset)
		}
		f.content[flip] ^= 1
		must(t, find())
	})
}

// TestABlockIsVerifiedAgainAfterAFault cuts the file off under a lookup, a cursor and a value, and makes it whole again
// with another byte in the last value of the block.
func TestABlockIsVerifiedAgainAfterAFault(t *testing.T) {
	key, block := []byte("k0500"), 0
	for name, use := range map[string]func(r *Reader, cut func()) error{
		"lookup": func(r *Reader, cut func()) error {
			cut()
			if _, _, ok := r.getMapped(wholeIndex(t, r), block, key, ikey.Search(nil, 9).Trailer, new(Stats)); !ok {
				return corrupt.Err // if that must be read
			}
			return nil
		},
		"cursor": func(r *Reader, cut func()) (err error) {
			it := r.Iter(IterOptions{})
			for ok := it.First(); ok; ok = it.Next() { // has whole blocks, except at its ends
				if it.at == block-1 && it.i == it.b.n-1 {
					cut()
				}
			}
			return it.Close()
		},
		"value": func(r *Reader, cut func()) (err error) {
			g := r.Enter()
			defer g.Leave()
			hit, _, err := r.Get(key, 9, new(Stats))
			for err == nil && hit.block != nil {
				hit, _, err = r.Get(key, 9, new(Stats))
			}
			if cut(); err == nil {
				_, err = hit.AppendValue(nil)
			}
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) { // so that no residence ends
			r, mem, _ := mappedTable(t, WriterOptions{Codec: None})
			path := filepath.Join(t.TempDir(), "a")
			must(t, os.WriteFile(path, mem.content, 0o600))
			file, err := vfs.OS.Open(path)
			must(t, err)
			defer file.Close()
			mapper, can := file.(vfs.Mapper)
			if !can {
				t.Skip("files cannot be mapped")
			}
			m, err := mapper.Map(len(mem.content))
			if errors.Is(err, errors.ErrUnsupported) {
				t.Skip(err)
			}
			must(t, err)
			defer m.Close()
			content := bytes.Clone(mem.content)
			mem.content = m.Bytes()
			r.file = file
			x := wholeIndex(t, r)
			block = x.find(key)
			must(t, use(r, func() {})) // verifies it
			for range 100 {            // one in 32 goes past the mapped file
				err = errors.Join(err, use(r, func() { must(t, os.Truncate(path, 0)) }))
				must(t, os.WriteFile(path, content, 0o600))
			}
			if err == nil {
				t.Errorf("%s: no error where the file ends", name)
			}
			offset, stored, _ := x.extent(block)
			content[offset+uint64(stored)-1] ^= 1
			must(t, os.WriteFile(path, content, 0o600))
			if err := use(r, func() {}); !errors.Is(err, corrupt.Err) {
				t.Errorf("%s: %v, want damage", name, err)
			}
		})
	}
}

func TestABlockThatMustComeFromTheDiskIsRead(t *testing.T) {
	r, f, kvs := mappedTable(t, WriterOptions{Codec: None})
	f.absent = true
	for _, v := range kvs {
		if got, ok, err := get(r, v.key, 9); err != nil || !ok || got.value != v.value {
			t.Fatalf("%s: %v, %v, %v", v.key, got, ok, err)
		}
	}
	if f.reads < wholeIndex(t, r).blocks() {
		t.Errorf("%d reads of %d blocks", f.reads, wholeIndex(t, r).blocks())
	}
}

func TestACompressedBlockIsRead(t *testing.T) {
	r, f, kvs := mappedTable(t, WriterOptions{Codec: S2})
	for _, v := range kvs {
		if got, ok, err := get(r, v.key, 9); err != nil || !ok || got.value != v.value {
			t.Fatalf("%s: %v, %v, %v", v.key, got, ok, err)
		}
	}
	if f.asked != 0 || f.reads < wholeIndex(t, r).blocks() {
		t.Errorf("asked %d times for mapped blocks; %d reads of %d blocks", f.asked, f.reads, wholeIndex(t, r).blocks())
	}
}

func TestACursorPastTheCacheCopiesItsBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no residence ends
		r, f, kvs := mappedTable(t, WriterOptions{Codec: None})
		blocks := wholeIndex(t, r).blocks()
		var it Iter
		held := 0
		walk := func() Stats {
			it.Reset(r, IterOptions{})
			i := 0
			for ok := it.First(); ok; ok = it.Next() {
				if string(it.Key().User) != kvs[i].key || string(it.Value()) != kvs[i].value {
					t.Fatalf("%q = %q, want %q = %q", it.Key().User, it.Value(), kvs[i].key, kvs[i].value)
				}
				i++
				if it.held != nil {
					held++
				}
			}
			for ok := it.Last(); ok; ok = it.Prev() {
				if i--; string(it.Key().User) != kvs[i].key || string(it.Value()) != kvs[i].value {
					t.Fatalf("back: %q = %q, want %q = %q", it.Key().User, it.Value(), kvs[i].key, kvs[i].value)
				}
			}
			must(t, it.Close())
			return it.stats
		}
		st := walk()
		if f.asked > blocks/4 {
			t.Errorf("asked %d times about %d blocks; want many at once", f.asked, blocks)
		}
		asked := f.asked
		for range 3 {
			st = walk()
		}
		if f.reads != 0 || st.Mapped < uint64(blocks) || st.FileReads != 0 || f.asked > asked+blocks/4 {
			t.Errorf("%d reads, %+v, asked %d times and %d times more", f.reads, st, asked, f.asked-asked)
		}
		if all := 4 * len(kvs); held > all/4 {
			t.Errorf("%d of %d entries were in blocks of the cache, want one in %d", held, all, admitted)
		}
		for range 100 * admitted {
			it.Reset(r, IterOptions{})
			if !it.SeekGE(ikey.Search([]byte("k0500"), 9)) || string(it.Value()) != kvs[500].value {
				t.Fatal(string(it.Value()))
			}
			if it.held == nil { // the block is the cursor's own: what happens to cache and file does not matter
				dropIndex(r)
				if string(it.Key().User) != kvs[500].key || string(it.Value()) != kvs[500].value || !it.Next() {
					t.Error("the block changed under its cursor")
				}
				must(t, it.Close())
				break
			}
			must(t, it.Close())
		}
		must(t, r.Load(1))
		if n := testing.AllocsPerRun(400, func() { // rounds down: one block of 32 is put into the cache
			it.Reset(r, IterOptions{})
			it.SeekGE(ikey.Search([]byte("k0500"), 9))
			for range 10 {
				it.Next()
			}
			_ = it.Close()
		}); n > 0 {
			t.Errorf("a cursor over mapped blocks allocates %v times", n)
		}
	})
}

// TestACursorHasPartsOfMappedBlocksInAnyOrderOfMoves compares random moves over mapped blocks with those over a slice.
func TestACursorHasPartsOfMappedBlocksInAnyOrderOfMoves(t *testing.T) {
	testkit.LongUnderRace(t)
	for name, value := range map[string]func(i int) string{
		"of one length": func(i int) string { return fmt.Sprintf("%060d", i) },
		"of any length": func(i int) string { return strings.Repeat("v", i*i%97) },
		"large":         func(i int) string { return strings.Repeat("v", 600+i%3) },
	} {
		t.Run(name, func(t *testing.T) {
			var kvs []kv
			for i := range 500 {
				kvs = append(kvs, set(fmt.Sprintf("key%06d", 10*i), 1, value(i)))
			}
			r, f := mapped(t, WriterOptions{Codec: None}, kvs)
			rnd := rand.New(rand.NewPCG(1, 2))
			var it Iter
			it.Reset(r, IterOptions{})
			at, parts, series := 0, 0, 0
			for range 20_000 {
				k := rnd.IntN(len(kvs))
				key := kvs[k].key + [2]string{"", "+"}[rnd.IntN(2)]
				var ok bool
				switch m := rnd.IntN(40); {
				case m == 0:
					at, ok = 0, it.First()
				case m == 1:
					at, ok = len(kvs)-1, it.Last()
				case m < 5:
					if len(key) > len(kvs[k].key) {
						k++
					}
					at, ok = k, it.SeekGE(ikey.Search([]byte(key), ikey.MaxSeq))
				case m < 8:
					if len(key) == len(kvs[k].key) {
						k--
					}
					at, ok = k, it.SeekLT(ikey.Search([]byte(key), ikey.MaxSeq))
				case it.at < 0:
					continue
				case m < 10: // a series
					end := []byte(kvs[min(at+rnd.IntN(20), len(kvs)-1)].key)
					if rnd.IntN(2) == 0 {
						end = nil
					}
					if !it.EnterPairs(end, 9) {
						continue
					}
					for range rnd.IntN(20) {
						if !it.Advance() {
							break
						}
						key, v := it.Pair()
						at++
						series++
						if string(key) != kvs[at].key || string(v) != kvs[at].value {
							t.Fatalf("in a series: %q = %q, want %q = %q", key, v, kvs[at].key, kvs[at].value)
						}
						if end != nil && bytes.Compare(key, end) >= 0 {
							t.Fatalf("in a series that ends before %q: %q", end, key)
						}
					}
					it.LeavePairs()
					ok = true
				case m < 12: // a series back
					end := []byte(kvs[max(at-rnd.IntN(20), 0)].key)
					if rnd.IntN(2) == 0 {
						end = nil
					}
					if !it.EnterPairsBack(end, 9) {
						continue
					}
					for range rnd.IntN(20) {
						if !it.Advance() {
							break
						}
						key, v := it.Pair()
						series++
						if string(key) != kvs[at].key || string(v) != kvs[at].value {
							t.Fatalf("in a series back: %q = %q, want %q = %q", key, v, kvs[at].key, kvs[at].value)
						}
						if end != nil && bytes.Compare(key, end) < 0 {
							t.Fatalf("in a series back that ends at %q: %q", end, key)
						}
						at--
					}
					it.LeavePairs()
				case m < 26:
					at++
					ok = it.Next()
				default:
					at--
					ok = it.Prev()
				}
				if it.at >= 0 && !it.whole() {
					parts++
				}
				if want := at >= 0 && at < len(kvs); it.at >= 0 != want || ok && !want {
					t.Fatalf("at %d of %d: %v, %v", at, len(kvs), ok, it.Err())
				}
				if it.at >= 0 && (string(it.Key().User) != kvs[at].key || string(it.Value()) != kvs[at].value) {
					t.Fatalf("%q = %q, want %q = %q", it.Key().User, it.Value(), kvs[at].key, kvs[at].value)
				}
			}
			must(t, it.Close())
			if f.reads > 0 || parts < 1000 && name != "large" || series < 1000 {
				t.Errorf("%d reads, %d moves in parts of blocks, %d in series", f.reads, parts, series)
			}
		})
	}
}

// TestACursorGoesOnWhereTheRestOfAMappedBlockMustBeRead seeks each key in the mapped file, and moves on without it.
func TestACursorGoesOnWhereTheRestOfAMappedBlockMustBeRead(t *testing.T) {
	r, f, kvs := mappedTable(t, WriterOptions{Codec: None})
	var it Iter
	parts := 0
	for i := range kvs {
		for _, back := range []bool{false, true} {
			dropCached(r)
			f.gone = false
			it.Reset(r, IterOptions{})
			ok := it.SeekGE(kvs[i].ikey())
			if ok && !it.whole() {
				parts++
			}
			f.gone = true
			for j := i; j >= max(0, i-20) && j < min(len(kvs), i+20); {
				if !ok || at(&it) != kvs[j] {
					t.Fatalf("back %v, at key %d from key %d: %v, %q, %v", back, j, i, ok, it.Key().User, it.Err())
				}
				if back {
					j, ok = j-1, it.Prev()
				} else {
					j, ok = j+1, it.Next()
				}
			}
			must(t, it.Close())
		}
	}
	if parts < len(kvs) {
		t.Errorf("%d of %d cursors had a part of a block", parts, 2*len(kvs))
	}
}

// TestPairsGoOnInMappedBlocks walks from a seek to the end of a table in one series, or to a key.
func TestPairsGoOnInMappedBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no residence ends
		var kvs []kv
		for i := range 300 {
			kvs = append(kvs, set(fmt.Sprintf("%07d", i), 1, strings.Repeat("v", 90)+fmt.Sprintf("%010d", i)))
		}
		r, f := mapped(t, WriterOptions{Codec: None}, kvs)
		x := wholeIndex(t, r)
		it := r.Iter(IterOptions{})
		// series seeks version i in a mapped block, walks in one series before version end, and returns the version
		// that it leads to.
		series := func(i, end int) int {
			for ok := it.SeekGE(kvs[i].ikey()); it.held != nil || !ok; ok = it.SeekGE(kvs[i].ikey()) {
				must(t, it.Err())
				it.leave()
				dropCached(r)
			}
			var upper []byte
			if end < len(kvs) {
				upper = []byte(kvs[end].key)
			}
			if !it.EnterPairs(upper, ikey.MaxSeq) {
				return i
			}
			for it.Advance() {
				i++
				if key, value := it.Pair(); string(key) != kvs[i].key || string(value) != kvs[i].value {
					t.Fatalf("pair %d: %q = %q", i, key, value)
				}
			}
			it.LeavePairs()
			if at(it) != kvs[i] {
				t.Fatalf("after pair %d: %q", i, it.Key().User)
			}
			return i
		}
		for range 100 {
			for _, end := range []int{len(kvs), len(kvs) / 2, len(kvs) / 3} {
				if got := series(1, end); got != end-1 {
					t.Fatalf("a series before pair %d ends at pair %d", end, got)
				}
			}
		}
		if f.reads > 0 {
			t.Errorf("%d reads", f.reads)
		}
		// From the end of a block, a cursor takes a part of the next one first, and not in a series.
		dropCached(r)
		if !it.First() || it.b.n < 4 {
			t.Fatal(it.Err())
		}
		if n := it.b.n; series(n-3, len(kvs)) != n-1 {
			t.Error("a series went on in a block of which the cursor had not taken a part")
		}
		// Where a block cannot be had, the series ends before it, and Next returns the error.
		dropCached(r)
		time.Sleep(5 * time.Second)
		f.content[x.handles[2].offset+100] ^= 1
		got := series(1, len(kvs))
		if it.Next() || !errors.Is(it.Err(), corrupt.Err) {
			t.Errorf("after pair %d, before a damaged block: %v", got, it.Err())
		}
		_ = it.Close()
	})
}

// TestACursorSurvivesChangesOfMappedBlocks changes blocks in the mapped file that were verified just before, so that
// no checksum is looked at again: cursors may return anything, but must end.
func TestACursorSurvivesChangesOfMappedBlocks(t *testing.T) {
	testkit.Long(t)
	for name, value := range map[string]func(i int) string{
		"of one length": func(int) string { return "value" },
		"of any length": func(i int) string { return strings.Repeat("v", i%17) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var kvs []kv
				for i := range 40 {
					kvs = append(kvs, set(fmt.Sprintf("k%02d", i), 1, value(i)))
				}
				r, f := mapped(t, WriterOptions{Codec: None, BlockSize: 256}, kvs)
				x := wholeIndex(t, r)
				good := bytes.Clone(f.content)
				rnd := rand.New(rand.NewPCG(3, 4))
				var it Iter
				changed := 0
				for range 20_000 {
					copy(f.content, good)
					it.Reset(r, IterOptions{})
					for ok := it.First(); ok; ok = it.Next() { // verifies them all
					}
					must(t, it.Err())
					seek := ikey.Search([]byte(kvs[rnd.IntN(len(kvs))].key), 9)
					it.SeekGE(seek)
					block := x.handles[rnd.IntN(len(x.handles))].offset
					for range 1 + rnd.IntN(3) {
						f.content[block+rnd.Uint64N(200)] ^= byte(1 << rnd.IntN(8))
					}
					for i := range 10 {
						switch {
						case it.at < 0:
						case i == 2 && it.EnterPairs(nil, 9):
							for range rnd.IntN(len(kvs)) {
								if !it.Advance() {
									break
								}
								it.Pair()
							}
							it.LeavePairs()
						case i < 5:
							it.Next()
						default:
							it.Prev()
						}
					}
					it.SeekLT(seek)
					steps := 0
					for ok := it.First(); ok; ok = it.Next() {
						steps++
					}
					for ok := it.Last(); ok; ok = it.Prev() {
						steps++
					}
					if steps > 1000 || it.Err() != nil && !errors.Is(it.Err(), corrupt.Err) {
						t.Fatal(steps, it.Err())
					}
					if steps != 2*len(kvs) {
						changed++
					}
					_ = it.Close()
				}
				if changed == 0 {
					t.Error("no change was seen")
				}
			})
		})
	}
}

func TestACursorVerifiesMappedBlocksOncePerResidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f, kvs := mappedTable(t, WriterOptions{Codec: None})
		x := wholeIndex(t, r)
		at := x.find([]byte("k0500"))
		offset, _, _ := x.extent(at)
		it := r.Iter(IterOptions{})
		walk := func() error {
			for ok := it.First(); ok; ok = it.Next() {
			}
			return it.Err()
		}
		must(t, walk())
		dropCached(r)
		f.content[offset+100] ^= 1 // the reader shares the bytes
		time.Sleep(5 * time.Second)
		want := fmt.Sprintf("000001.sst: offset %d", offset)
		if err := walk(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a block that changed in the file: %v, want an error that begins with %q", err, want)
		}
		f.content[offset+100] ^= 1
		f.absent = true
		time.Sleep(5 * time.Second)
		dropCached(r)
		f.reads = 0
		if err := walk(); err != nil || f.reads == 0 {
			t.Errorf("a file that is not in memory: %v, %d reads of %d keys", err, f.reads, len(kvs))
		}
		must(t, it.Close())
	})
}

func TestCursorsAndManyLookupsUseTheMappedFile(t *testing.T) {
	r, f, kvs := mappedTable(t, WriterOptions{Codec: None})
	it := r.Iter(IterOptions{})
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		if string(it.Key().User) != kvs[i].key || string(it.Value()) != kvs[i].value {
			t.Fatalf("%q = %q, want %q = %q", it.Key().User, it.Value(), kvs[i].key, kvs[i].value)
		}
		i++
	}
	must(t, it.Err())
	must(t, it.Close())
	g := r.Enter()
	defer g.Leave()
	for len(kvs) > 0 {
		ls := make([]Lookup, min(50, len(kvs)))
		for i := range ls {
			ls[i] = Lookup{Reader: r, Key: []byte(kvs[i].key), Seq: ikey.MaxSeq}
		}
		var st Stats
		GetMany(ls, &st)
		for i := range ls {
			value, err := ls[i].Hit.AppendValue(nil)
			if err != nil || ls[i].Err != nil || string(value) != kvs[i].value {
				t.Fatalf("%s: %q, %v, %v", kvs[i].key, value, err, ls[i].Err)
			}
		}
		kvs = kvs[len(ls):]
	}
	if i != 1000 || f.reads != 0 {
		t.Errorf("%d entries of 1000, %d reads", i, f.reads)
	}
}
