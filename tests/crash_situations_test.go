package tests

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestACrashDuringAManifestRoll fills a manifest with long keys until the next one begins, and crashes at the
// operations around that.
func TestACrashDuringAManifestRoll(t *testing.T) {
	h := &history{}
	manifests, rolling := 0, false
	c := &crasher{mem: vfstest.NewMem(), h: h, seed: 99, random: 1, want: func(op vfstest.Op) bool {
		if strings.Contains(op.Name, "MANIFEST-") {
			switch op.Kind {
			case vfstest.OpCreate:
				manifests++
				rolling = true
			case vfstest.OpRemove:
				rolling = false
				return true
			default:
			}
		}
		return rolling && manifests > 1
	}}
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(c.mem, c.hook)))
	long := strings.Repeat("k", bloomkv.MaxKeySize-8)
	for i := 0; ; i++ {
		w := modelWrite{{key: fmt.Sprintf("%s%03d", long, i%8), value: "v"}}
		must(t, h.write(db, bloomkv.DurabilityNoSync, w))
		must(t, h.barrier(db.Flush(t.Context())))
		c.mu.Lock()
		rolled := manifests > 1 && !rolling
		c.mu.Unlock()
		if rolled {
			break
		}
		if i > 300 {
			t.Fatalf("%d flushes and no second manifest", i)
		}
	}
	must(t, h.write(db, bloomkv.DurabilitySync, nil))
	c.mu.Lock()
	c.clone("the end")
	c.mu.Unlock()
	must(t, db.Close())
	c.verifyAll(t, 500/storetest.AtStride(500), 29)
}

// TestACrashUnderManyWriters writes from several goroutines. A prefix of each one's commits must survive, and a commit
// that began after another had returned never survives without that one.
func TestACrashUnderManyWriters(t *testing.T) {
	const writers = 4
	var clock atomic.Int64
	var hs [writers]*history
	for i := range hs {
		hs[i] = &history{prefix: fmt.Sprintf("w%d/", i), clock: &clock}
	}
	type state struct {
		fs        *vfstest.Mem
		low, high [writers]int64
		what      string
	}
	mem := vfstest.NewMem()
	var mu sync.Mutex
	var found []state
	ops := 0
	fsys := vfstest.NewHook(mem, func(op vfstest.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if ops++; ops%3 > 0 {
			return nil
		}
		var synced, acked [writers]int64
		for i, h := range hs {
			synced[i], acked[i] = h.synced.Load(), h.acked.Load()
		}
		from := len(found)
		found = append(found,
			state{fs: mem.Kill(), low: acked, what: fmt.Sprintf("process death before operation %d (%v)", ops, op)},
			state{
				fs: mem.Crash(vfstest.KeepSome(uint64(ops), 10+ops%81)), low: synced,
				what: fmt.Sprintf("power cut before operation %d (%v)", ops, op),
			})
		for i, h := range hs {
			for j := range found[from:] {
				found[from+j].high[i] = h.started.Load()
			}
		}
		return nil
	})
	db := storetest.Open(t, "db", storetest.Tiny(fsys))
	var wg sync.WaitGroup
	for i, h := range hs {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(i)))
			for range 120 {
				var w modelWrite
				for range 1 + rng.IntN(4) {
					k := fmt.Sprintf("%s%02d", h.prefix, rng.IntN(20))
					w = append(w, modelOp{
						key: k, del: rng.IntN(5) == 0,
						value: strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(700)),
					})
				}
				var err error
				if rng.IntN(12) == 0 {
					w = slices.DeleteFunc(w, func(op modelOp) bool { return op.del })
					err = h.ingest(db, false, w)
				} else {
					err = h.write(db, bloomkv.DurabilitySync+bloomkv.Durability(rng.IntN(2)), w)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	must(t, db.Close())
	for n := range len(found) {
		s := &found[n]
		if n%storetest.Stride() > 0 {
			continue
		}
		db, err := bloomkv.Open("db", storetest.Tiny(s.fs))
		if err != nil {
			t.Fatalf("state %d, %s: %v", n, s.what, err)
		}
		got, err := storetest.Contents(db)
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatalf("state %d, %s: %v", n, s.what, err)
		}
		var last, first int64 = 0, 1 << 62 // latest begin of a commit that is there; earliest end of one that is not
		for i, h := range hs {
			own := map[string]string{}
			for k, v := range got {
				if strings.HasPrefix(k, h.prefix) {
					own[k] = v
				}
			}
			k, err := prefixOf(own, h.all(), h.prefix, s.low[i], s.high[i])
			if err != nil {
				t.Fatalf("state %d, %s: writer %d: %v", n, s.what, i, err)
			}
			if k > 0 {
				last = max(last, h.spans[k-1][0])
			}
			if int(k) < len(h.spans) {
				first = min(first, h.spans[k][1])
			}
		}
		if first < last {
			t.Fatalf("state %d, %s: a commit that began at %d is there, but one that ended at %d is not", n, s.what,
				last, first)
		}
		s.fs = nil
	}
	t.Logf("%d operations, %d states", ops, len(found))
}

// TestALogAfterAGapIsDiscardedUnlessItPromisedThatThereIsNone loses the end of a log, or all of it, as a power cut may,
// while a younger log survives. The younger log's records come after the gap and are discarded. But if the younger log
// or the manifest promises that the older log was durable, the gap is corruption.
func TestALogAfterAGapIsDiscardedUnlessItPromisedThatThereIsNone(t *testing.T) {
	for _, promised := range []bool{false, true} {
		// Each function gets the written bytes and the offset of the last record; the zeros reserved after them are
		// lost or kept.
		for name, cut := range map[string]func(b []byte, last int) []byte{
			"its last record is lost":          func(b []byte, last int) []byte { return b[:last] },
			"its last record is partly there":  func(b []byte, _ int) []byte { return b[:len(b)-1000] },
			"its last sectors read as zeros":   func(b []byte, _ int) []byte { clear(b[len(b)-1000:]); return b },
			"its last record reads as zeros":   func(b []byte, last int) []byte { clear(b[last:]); return b },
			"it is lost with its name":         func([]byte, int) []byte { return nil },
			"its file exists and is empty":     func(b []byte, _ int) []byte { return b[:0] },
			"its file exists and is all zeros": func(b []byte, _ int) []byte { clear(b); return b },
		} {
			t.Run(fmt.Sprintf("%s, promised durable: %v", name, promised), func(t *testing.T) {
				fsys, writes := twoLogs(t, promised)
				names, err := fsys.List("db")
				must(t, err)
				older := names[slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, ".log") })]
				storetest.Rewrite(t, fsys, "db/"+older, func(b []byte) []byte {
					left := cut(written(b), lastRecord(t, fsys, older))
					if !strings.HasSuffix(name, "zeros") {
						return left
					}
					return b
				})
				strict := storetest.Tiny(fsys.Kill())
				strict.StrictWAL = true
				if _, err := bloomkv.Open("db", strict); !errors.Is(err, bloomkv.ErrCorruption) {
					t.Errorf("StrictWAL: %v, want corruption", err)
				}
				db, err := bloomkv.Open("db", storetest.Tiny(fsys))
				if promised {
					if !errors.Is(err, bloomkv.ErrCorruption) || !strings.Contains(err.Error(), ".log: offset") {
						t.Fatalf("got %v, want corruption in a log", err)
					}
					return
				}
				must(t, err)
				defer db.Close()
				got, err := storetest.Contents(db)
				must(t, err)
				n, _ := strconv.Atoi(got["last"])
				for i := 1; i <= writes; i++ {
					if _, ok := got[fmt.Sprint("fill", i)]; ok != (i <= n) {
						t.Errorf("write %d: found %v, but the last one is %d", i, ok, n)
					}
				}
				if n >= writes {
					t.Errorf("all %d writes survived", n)
				}
			})
		}
	}
}

// lastRecord returns the offset of the last record of a log.
func lastRecord(t *testing.T, fsys vfs.FS, name string) (at int) {
	t.Helper()
	f, err := fsys.Open(filepath.Join("db", name))
	must(t, err)
	_, number := filename.Parse(name)
	var ends [2]int64
	_, err = wal.Replay(f, name, number, func(_ []byte, end int64) error {
		ends = [2]int64{ends[1], end}
		return nil
	})
	if err = errors.Join(err, f.Close()); err != nil || ends[0] == 0 {
		t.Fatalf("%s: records end at %d, %v", name, ends, err)
	}
	return int(ends[0])
}

// twoLogs returns the files that a process death leaves with two logs, and the number of writes in them.
func twoLogs(t *testing.T, promised bool) (left *vfstest.Mem, writes int) {
	t.Helper()
	mem := vfstest.NewMem()
	var opened atomic.Bool
	release := make(chan struct{})
	db := storetest.Open(t, "db", storetest.Tiny(vfstest.NewHook(mem, func(op vfstest.Op) error {
		if opened.Load() && (op.Kind == vfstest.OpCreate && strings.HasSuffix(op.Name, ".sst") ||
			!promised && (op.Kind == vfstest.OpSyncDir || op.Kind == vfstest.OpSync)) {
			<-release
		}
		return nil
	})))
	opened.Store(true)
	defer func() {
		close(release)
		must(t, db.Close())
	}()
	put := func() {
		t.Helper()
		writes++
		var b bloomkv.Batch
		b.Put([]byte("last"), fmt.Append(nil, writes))
		b.Put(fmt.Append(nil, "fill", writes), bytes.Repeat([]byte{byte(writes)}, 3000))
		must(t, db.ApplyWith(&b, bloomkv.DurabilityNoSync))
	}
	for logs := 0; logs < 2; {
		put()
		logs = 0
		names, err := mem.List("db")
		must(t, err)
		for _, n := range names {
			if strings.HasSuffix(n, ".log") {
				logs++
			}
		}
	}
	if promised {
		must(t, db.Sync())
		put()
	}
	return mem.Kill(), writes
}

// Crashes at different operations often leave the same bytes. A store with these bytes is recovered only once; each
// crash is judged by the result of that recovery.

// An image is a file system left by one or more crashes.
type image struct {
	fs    *vfstest.Mem
	once  sync.Once
	found finding
}

// A finding is the state of a store after its recovery.
type finding struct {
	contents map[string]string // for tests that do not identify them by the number of commits
	commits  int64
	after    bool // the write of an earlier recovery is present
	err      error
}

// recovered returns the result of calling f with the image; f is called only once per image.
func (i *image) recovered(f func(*vfstest.Mem) finding) finding {
	i.once.Do(func() { i.found, i.fs = f(i.fs), nil })
	return i.found
}

// images is a set of file systems, identified by the names and bytes of the files in "db". The zero value is ready for
// use. It is safe for concurrent use.
type images struct {
	mu sync.Mutex
	by map[uint64]*image
}

// of returns the image with these bytes. Which of them are durable makes no difference.
func (m *images) of(fsys *vfstest.Mem) *image {
	d := hashOfFiles(fsys)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[uint64]*image{}
	}
	if m.by[d] == nil {
		m.by[d] = &image{fs: fsys}
	}
	return m.by[d]
}

func (m *images) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.by)
}

var filesSeed = maphash.MakeSeed()

// hashOfFiles returns a hash of the names and bytes of all files in "db", and of the error, if one occurs.
func hashOfFiles(fsys *vfstest.Mem) uint64 {
	var h maphash.Hash
	h.SetSeed(filesSeed)
	names, err := fsys.List("db")
	maphash.WriteComparable(&h, fmt.Sprint(names, err))
	buf := make([]byte, 16<<10)
	for _, name := range names {
		f, err := fsys.Open(filepath.Join("db", name))
		if err != nil { // not a regular file
			maphash.WriteComparable(&h, err.Error())
			continue
		}
		size, err := f.Size()
		for at := int64(0); at < size && err == nil; at += int64(len(buf)) {
			buf = buf[:min(int64(cap(buf)), size-at)]
			_, err = f.ReadAt(buf, at)
			_, _ = h.Write(buf)
		}
		maphash.WriteComparable(&h, fmt.Sprint(size, err, f.Close()))
	}
	return h.Sum64()
}
