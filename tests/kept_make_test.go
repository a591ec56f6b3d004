package tests

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// keptSize is the size that a directory of kept stores may have, in bytes.
const keptSize = 256 << 10

// A keptStore builds a store in memory and records what it should hold.
type keptStore struct {
	t    *testing.T
	mem  *vfstest.Mem
	gate atomic.Pointer[gate] // nil: open
	db   *bloomkv.DB
	rng  *rand.Rand

	want map[string]string // what the store holds, by key
	gone map[string]bool   // keys that it once held
	mark string
}

// makeKept builds stores with every feature of the format, and returns their files and the lists of their contents, by
// path. The bytes differ in each run, since tables and logs have random ids.
func makeKept(t *testing.T) map[string][]byte {
	t.Helper()
	setPartSize(t, 0)
	files := make(map[string][]byte)
	for name, build := range map[string]func(*keptStore) *vfstest.Mem{
		"closed": (*keptStore).makeClosed, "memory": (*keptStore).makeMemory, "killed": (*keptStore).makeKilled,
		"short": (*keptStore).makeShort,
	} {
		s := &keptStore{
			t: t, mem: vfstest.NewMem(), rng: rand.New(rand.NewPCG(1, 2)),
			want: map[string]string{}, gone: map[string]bool{},
		}
		for file, b := range filesBelow(t, build(s), "db") {
			files[name+"/"+file] = b
		}
		files[name+".txt"] = s.list()
	}
	raw, want := keptBatch(t)
	files["batch"], files["batch.txt"] = raw, want
	return files
}

// keptBatch returns a batch as bytes, and the list of its operations.
func keptBatch(t *testing.T) (raw, list []byte) {
	t.Helper()
	var b bloomkv.Batch
	b.Put([]byte("a"), []byte("value"))
	b.Put(nil, nil)
	b.Delete([]byte("b"))
	b.DeleteRange(bloomkv.KeyRange{Lower: []byte("c"), Upper: []byte("d")})
	b.DeleteRange(bloomkv.KeyRange{Lower: []byte("e")})
	b.SetMark([]byte("a short mark"))
	raw, err := b.MarshalBinary()
	must(t, err)
	return raw, listOps(&b)
}

// listOps returns the operations of a batch, one a line.
func listOps(b *bloomkv.Batch) (list []byte) {
	names := []string{"put", "delete", "delete range", "mark"}
	for op := range b.Ops() {
		key := op.Key
		if op.Kind == bloomkv.OpDeleteRange {
			key = op.Range.Lower
		}
		list = fmt.Appendf(list, "%s %q %q %q\n", names[op.Kind], key, op.Value, op.Range.Upper)
	}
	return list
}

// shown returns bytes as the lists show them: quoted, or, if they are long, as their number and eight bytes of their
// SHA-256.
func shown(b string) string {
	if len(b) <= 24 {
		return fmt.Sprintf("%q", b)
	}
	sum := sha256.Sum256([]byte(b))
	return fmt.Sprintf("%d:%x", len(b), sum[:8])
}

// listPairs returns what a store holds, one key a line, in the order of keys.
func listPairs(pairs func(yield func(key, value string) bool)) string {
	var out strings.Builder
	for key, value := range pairs {
		fmt.Fprintf(&out, "%s = %s\n", shown(key), shown(value))
	}
	return out.String()
}

// listMark returns the last line of a list, which a store without a mark does not have.
func listMark(mark string) string {
	if mark == "" {
		return ""
	}
	return fmt.Sprintf("mark %q\n", mark)
}

// list returns what the store should hold, and then the keys that it does not hold any more.
func (s *keptStore) list() []byte {
	var list strings.Builder
	list.WriteString(listPairs(func(yield func(key, value string) bool) {
		for _, key := range slices.Sorted(maps.Keys(s.want)) {
			if !yield(key, s.want[key]) {
				return
			}
		}
	}))
	for _, key := range slices.Sorted(maps.Keys(s.gone)) {
		if _, ok := s.want[key]; !ok {
			fmt.Fprintf(&list, "%q absent\n", key)
		}
	}
	list.WriteString(listMark(s.mark))
	return []byte(list.String())
}

// A gate stops a flush before its first file is created.
type gate struct {
	shut    chan struct{} // closed when the flush may go on
	arrived chan struct{} // the flush waits
	flushed chan error    // the result of Flush
}

func (s *keptStore) must(err error) {
	s.t.Helper()
	must(s.t, err)
}

func (s *keptStore) open(change func(*bloomkv.Options)) {
	s.t.Helper()
	o := &bloomkv.Options{
		FilterSeed: 1, Durability: bloomkv.DurabilityNoSync, BlockSize: 2 << 10,
		MemoryBudget: 8 << 20, TableSize: 64 << 10, BaseLevelSize: 64 << 10, LevelRatio: 2,
	}
	change(o)
	o.FS = vfstest.NewHook(s.mem, func(op vfstest.Op) error {
		if g := s.gate.Load(); g != nil && op.Kind == vfstest.OpCreate && strings.HasSuffix(op.Name, ".sst") {
			select {
			case g.arrived <- struct{}{}:
			default:
			}
			<-g.shut
		}
		return nil
	})
	var err error
	s.db, err = bloomkv.Open("db", o)
	s.must(err)
	s.settle()
}

func (s *keptStore) close() {
	s.t.Helper()
	s.settle()
	s.must(s.db.Close())
}

// settle waits until no background work is left.
func (s *keptStore) settle() {
	s.t.Helper()
	s.until(func() bool { m := s.db.Metrics(); return m.Settled && m.Files.Obsolete == 0 })
}

func (s *keptStore) until(done func() bool) {
	s.t.Helper()
	testkit.Soon(s.t, "the background work of a new store ends", done)
}

func (s *keptStore) put(key, value string) {
	s.t.Helper()
	s.must(s.db.Put([]byte(key), []byte(value)))
	s.want[key] = value
}

func (s *keptStore) delete(key string) {
	s.t.Helper()
	s.must(s.db.Delete([]byte(key)))
	s.forget(key)
}

func (s *keptStore) forget(key string) {
	delete(s.want, key)
	s.gone[key] = true
}

// deleteRange deletes the keys from lo on and before hi, which is no end if it is empty.
func (s *keptStore) deleteRange(lo, hi string) {
	s.t.Helper()
	end := []byte(hi)
	if hi == "" {
		end = nil
	}
	s.must(s.db.DeleteRange(bloomkv.KeyRange{Lower: []byte(lo), Upper: end}))
	s.forgetRange(lo, hi)
}

func (s *keptStore) forgetRange(lo, hi string) {
	for key := range s.want {
		if key >= lo && (hi == "" || key < hi) {
			s.forget(key)
		}
	}
}

// ingest stores keys in tables of their own, in place of all keys of a range.
func (s *keptStore) ingest(keys []string, lo, hi string) {
	s.t.Helper()
	s.must(s.db.Ingest(s.t.Context(), func(yield func(bloomkv.KV, error) bool) {
		for _, key := range keys {
			if !yield(bloomkv.KV{Key: []byte(key), Value: []byte("ingested " + key)}, nil) {
				return
			}
		}
	}, bloomkv.IngestOptions{Replace: &bloomkv.KeyRange{Lower: []byte(lo), Upper: []byte(hi)}}))
	s.forgetRange(lo, hi)
	for _, key := range keys {
		s.want[key] = "ingested " + key
	}
}

func (s *keptStore) flush() {
	s.t.Helper()
	s.must(s.db.Flush(s.t.Context()))
	s.settle()
}

func (s *keptStore) compact() {
	s.t.Helper()
	s.must(s.db.Compact(s.t.Context(), bloomkv.CompactOptions{}))
	s.settle()
}

// snapshot keeps the versions of now until the store is closed.
func (s *keptStore) snapshot() {
	s.t.Helper()
	_, err := s.db.Snapshot()
	s.must(err)
}

// lookUp looks up present and absent keys, so that the manifest has counts of the filters' answers.
func (s *keptStore) lookUp() {
	s.t.Helper()
	for key := range s.want {
		_, err := s.db.Get([]byte(key))
		s.must(err)
		for i := range 8 {
			if ok, err := s.db.Has(fmt.Appendf([]byte(key), "?%d", i)); ok || err != nil {
				s.t.Fatalf("a key that was never written: %v, %v", ok, err)
			}
		}
	}
}

// noise returns bytes that do not compress, text bytes that do.
func (s *keptStore) noise(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.rng.Uint32())
	}
	return string(b)
}

func text(i, n int) string {
	return strings.Repeat(fmt.Sprintf("line %d of a text that compresses\n", i), n/32+1)[:n]
}

func fruit(i int) string {
	return fmt.Sprintf("%s/%04d", []string{"apple", "banana", "cherry", "damson"}[i%4], i)
}

// makeClosed makes a store of several levels that was closed: zstd, Ribbon filters and an index in parts in the last
// level, s2 and Bloom filters above, and versions that snapshots held.
func (s *keptStore) makeClosed() *vfstest.Mem {
	s.open(func(o *bloomkv.Options) {
		o.Compression, o.FilterKind = bloomkv.CompressionZstdBottom, bloomkv.FilterRibbon
		o.FilterPrefix = bloomkv.PrefixSeparator('/', 1)
		o.TableSize = 0 // so that the key of maximal length is no bound of a table, whose manifest would have it, too
	})
	for i := range 600 {
		if i%2 == 0 {
			s.put(fruit(i), text(i, i%100))
		} else {
			s.put(fruit(i), s.noise(230))
		}
		if i == 300 { // of a single run, compaction moves the table as it is
			s.flush()
		}
	}
	s.put("", "the empty key")
	s.put("empty value", "")
	s.put("book/"+strings.Repeat("long key/", bloomkv.MaxKeySize)[:bloomkv.MaxKeySize-5], "a key of maximal length")
	s.put("book/large text", text(1, 48<<10))
	s.put("book/large noise", s.noise(5<<10))
	sstable.SetPartSize(300)
	s.compact()
	sstable.SetPartSize(0)
	s.lookUp()
	s.close()

	s.open(func(o *bloomkv.Options) { o.FilterPrefix = bloomkv.PrefixLen(5) })
	s.snapshot()
	for round := range 8 { // the eighth run of level 0 has them merged
		for i := round; i < 200; i += 8 {
			s.put(fruit(i), text(round, 50))
		}
		s.put("many versions", fmt.Sprint("version ", round))
		s.snapshot()
		s.delete(fruit(200 + round))
		s.deleteRange(fruit(300+4*round), fruit(312+4*round))
		s.flush()
	}
	for i := range 20 { // each inside the last, and each for a snapshot of its own
		s.put(fmt.Sprintf("nested/%02d", 2*i), fmt.Sprint("before ", i))
		s.deleteRange(fmt.Sprintf("nested/%02d", i), fmt.Sprintf("nested/%02d", 50-i))
		s.snapshot()
	}
	s.put("many versions", "the last version")
	s.delete(fruit(1))
	s.deleteRange(fruit(400), fruit(440))
	s.snapshot()
	s.deleteRange(fruit(420), fruit(460))
	s.put(fruit(440), "back again")
	s.put("zebra", "beyond the range")
	s.deleteRange("y", "")
	s.flush()
	s.ingest([]string{fruit(500), fruit(504), fruit(504) + "/a"}, fruit(496), fruit(520))
	s.put(fruit(516), "after the tables that were ingested")
	s.delete(fruit(3))
	s.deleteRange(fruit(5), fruit(21))
	s.mark = "a mark\x00 of \xff 24 bytes"
	s.must(s.db.Apply(marked(s.mark)))
	s.flush()
	s.lookUp()
	s.close()
	return s.mem
}

// makeMemory makes a store with FilterMemory over tables without filters.
func (s *keptStore) makeMemory() *vfstest.Mem {
	s.open(func(o *bloomkv.Options) { o.FilterFPR, o.Compression, o.TableSize = 1, bloomkv.CompressionNone, 16<<10 })
	for i := range 40 {
		s.put(fruit(i), s.noise(500))
	}
	s.compact()
	s.lookUp()
	s.close()
	s.open(func(o *bloomkv.Options) { o.FilterMemory, o.FilterKind = 64<<10, bloomkv.FilterRibbon })
	for i := range 30 {
		s.put(fruit(i), text(i+1, 60))
	}
	s.flush()
	s.lookUp()
	s.close()
	return s.mem
}

// makeShort makes a store whose last level was built while memory was far too short for its filter, so that its Bloom
// units stand side by side. The filter of level 0, of a low rate, was built with memory to spare. Each takes more than
// a page.
func (s *keptStore) makeShort() *vfstest.Mem {
	const keys = 3400
	key := func(i int) string { return fmt.Sprintf("%c%03x", 'a'+i%3, i) }
	s.open(func(o *bloomkv.Options) {
		o.MemoryBudget, o.Resources, o.TableSize = 0, littleMemory(s.t, 256<<10), 0
		o.MemtableSize, o.FilterKind = 1<<20, bloomkv.FilterBloom
	})
	for i := range keys {
		s.put(key(i), "")
	}
	s.compact()
	s.close()
	s.open(func(o *bloomkv.Options) { o.FilterFPR, o.FilterKind, o.TableSize = 1e-6, bloomkv.FilterBloom, 0 })
	for i := 0; i < keys; i += 3 {
		s.put(key(i), strconv.Itoa(i))
	}
	s.flush()
	s.close()
	return s.mem
}

// makeKilled makes a store whose process was killed, once before and once at the end, with two logs that were not
// replayed.
func (s *keptStore) makeKilled() *vfstest.Mem {
	options := func(o *bloomkv.Options) { o.FilterFPR = 0.02 }
	s.open(options)
	for i := range 30 {
		s.put(fruit(i), text(i, 40))
	}
	killed := s.mem.Kill()
	s.must(s.db.Close())
	s.mem = killed

	s.open(options)
	s.snapshot()
	for round := range 8 {
		for i := round; i < 60; i += 9 {
			s.put(fruit(i), text(round, 30))
		}
		s.flush()
	}
	s.put("first log", "")
	s.stopFlush()
	s.put("second log", "")
	s.deleteRange(fruit(20), fruit(24))
	s.must(s.db.Sync())
	s.resumeFlush() // its edit has the length of the second log that was synced

	s.put("frozen", "in a log that was full")
	s.stopFlush()
	value := s.noise(300)
	var b bloomkv.Batch
	b.Put([]byte("third log"), []byte(value))
	b.Put(nil, []byte("the empty key"))
	b.Put([]byte("empty value"), nil)
	b.Delete([]byte(fruit(9)))
	b.DeleteRange(bloomkv.KeyRange{Lower: []byte("z")})
	s.mark = "in a log"
	b.SetMark([]byte(s.mark))
	s.must(s.db.ApplyWith(&b, bloomkv.DurabilitySync))
	s.want["third log"], s.want[""], s.want["empty value"] = value, "the empty key", ""
	s.forget(fruit(9))
	s.until(func() bool { // a record has the promise once the older log is durable
		s.put("last", "of the third log")
		s.must(s.db.Sync())
		c := readContents(filesBelow(s.t, s.mem, "db"))
		return len(c.lacks([]string{"record with a promise of older logs"})) == 0
	})
	killed = s.mem.Kill()
	s.resumeFlush()
	s.must(s.db.Close())
	return killed
}

// stopFlush starts a flush and returns once it waits at the gate.
func (s *keptStore) stopFlush() {
	g := &gate{make(chan struct{}), make(chan struct{}, 1), make(chan error, 1)}
	s.gate.Store(g)
	go func() { g.flushed <- s.db.Flush(context.Background()) }()
	<-g.arrived
}

// resumeFlush opens the gate and waits for the flush.
func (s *keptStore) resumeFlush() {
	s.t.Helper()
	g := s.gate.Swap(nil)
	close(g.shut)
	s.must(<-g.flushed)
	s.settle()
}

// filesBelow returns the files of a directory by their names. It keeps only 4 KiB of the reserved space in a log.
func filesBelow(t *testing.T, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	names, err := fsys.List(dir)
	must(t, err)
	files := make(map[string][]byte)
	for _, name := range names {
		b, err := vfs.ReadFile(fsys, filepath.Join(dir, name), 1<<30)
		must(t, err)
		if filepath.Ext(name) == ".log" {
			b = b[:min(len(b), len(bytes.TrimRight(b, "\x00"))+4<<10)]
		}
		files[name] = b
	}
	return files
}
