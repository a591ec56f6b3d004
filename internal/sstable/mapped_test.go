package sstable

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// A mappedFile is a file in memory that records how it is used.
type mappedFile struct {
	*bytes.Reader
	content []byte
	absent  bool // the system does not have it in memory
	asked   int  // calls that asked whether it has
	reads   int
}

func (f *mappedFile) Mapped(off int64, n int, inMemory bool) []byte {
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
	o.ID, o.BlockSize = 1, 1<<10
	file, info := build(t, o, kvs)
	f = &mappedFile{Reader: bytes.NewReader(file), content: file}
	d := new(epoch.Domain)
	r = NewReader(f, metaOf(info), cache.New(1, d), d)
	must(t, r.Load(1))
	if _, ok, err := get(r, "k0000", 9); !ok || err != nil || r.cache.HasRoom(1<<10) {
		t.Fatal(ok, err, "or the cache is not full")
	}
	f.asked, f.reads = 0, 0
	return r, f, kvs
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
		if blocks := r.index.Load().blocks(); f.reads != 0 || f.asked < blocks-1 || f.asked > 3*blocks {
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
		offset, _, _ := r.index.Load().extent(r.index.Load().find([]byte("k0500")))
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

func TestABlockThatMustComeFromTheDiskIsRead(t *testing.T) {
	r, f, kvs := mappedTable(t, WriterOptions{Codec: None})
	f.absent = true
	for _, v := range kvs {
		if got, ok, err := get(r, v.key, 9); err != nil || !ok || got.value != v.value {
			t.Fatalf("%s: %v, %v, %v", v.key, got, ok, err)
		}
	}
	if f.reads < r.index.Load().blocks() {
		t.Errorf("%d reads of %d blocks", f.reads, r.index.Load().blocks())
	}
}

func TestACompressedBlockIsRead(t *testing.T) {
	r, f, kvs := mappedTable(t, WriterOptions{Codec: S2})
	for _, v := range kvs {
		if got, ok, err := get(r, v.key, 9); err != nil || !ok || got.value != v.value {
			t.Fatalf("%s: %v, %v, %v", v.key, got, ok, err)
		}
	}
	if f.asked != 0 || f.reads < r.index.Load().blocks() {
		t.Errorf("asked %d times for mapped blocks; %d reads of %d blocks", f.asked, f.reads, r.index.Load().blocks())
	}
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
