package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/salvage"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A hostileResult is the result of using a store whose files were changed.
type hostileResult struct {
	err    error // a violation of the store's promises
	damage bool  // some call was refused
	pages  bool  // filters were asked in their files
	phase  string
}

// countedFS counts open files and held locks.
type countedFS struct {
	vfs.FS
	open atomic.Int64
}

type countedFile struct {
	vfs.File
	fs *countedFS
}

type countedLock struct {
	vfs.Lock
	fs *countedFS
}

func (c *countedFS) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedFile{f, c}, nil
}

func (c *countedFS) lock(l vfs.Lock, err error) (vfs.Lock, error) {
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedLock{l, c}, nil
}

func (c *countedFS) Create(name string) (vfs.File, error)     { return c.file(c.FS.Create(name)) }
func (c *countedFS) Open(name string) (vfs.File, error)       { return c.file(c.FS.Open(name)) }
func (c *countedFS) Lock(name string) (vfs.Lock, error)       { return c.lock(c.FS.Lock(name)) }
func (c *countedFS) LockShared(name string) (vfs.Lock, error) { return c.lock(c.FS.LockShared(name)) }

func (f *countedFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}

func (l *countedLock) Close() error {
	l.fs.open.Add(-1)
	return l.Lock.Close()
}

// A hostileCase uses one store in every way.
type hostileCase struct {
	hostileResult
	kind  *hostileKind
	fs    *countedFS
	dir   string
	size  uint64   // of all files without holes, in bytes
	named []string // other files that errors may name
	full  bool     // a write was refused, since the numbers are exhausted
	bare  bool     // no table and no log is among them: without CURRENT that is no store
	most  int      // more keys than the files can hold
	rng   *rand.Rand
	alloc []metrics.Sample
	sound bool              // Check found no damage: then no call is refused, and all answers agree
	holds map[string]string // result of a scan, if sound
	first map[string]string // that of the first scan
}

// One call may allocate a constant, and a multiple of the files' size (I30).
const (
	hostileBase  = 8 << 20
	hostileTimes = 1100
)

func (c *hostileCase) allocated() uint64 {
	metrics.Read(c.alloc)
	return c.alloc[0].Value.Uint64()
}

// bad records the first violation.
func (c *hostileCase) bad(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: "+format, append([]any{c.phase}, args...)...)
	}
}

// refused checks an error: it must be ErrCorruption or ErrUnsupportedVersion, and name a file. It reports whether err
// is not nil.
func (c *hostileCase) refused(err error) bool {
	if err == nil {
		return false
	}
	if strings.Contains(err.Error(), "are exhausted") && !errors.Is(err, bloomkv.ErrCorruption) {
		c.full = true // no write fits behind the numbers of the manifest
		return true
	}
	c.damage = true
	if c.sound {
		c.bad("Check found no damage: %w", err)
	}
	text := err.Error()
	named := false
	for _, s := range append([]string{".sst", ".log", "MANIFEST-", "CURRENT", "LOCK"}, c.named...) {
		named = named || strings.Contains(text, s)
	}
	switch {
	case c.bare && errors.Is(err, fs.ErrNotExist):
	case c.named != nil && errors.Is(err, bloomkv.ErrMissingTable):
	case !errors.Is(err, bloomkv.ErrCorruption) && !errors.Is(err, bloomkv.ErrUnsupportedVersion):
		c.bad("neither corruption nor an unsupported version: %w", err)
	case !named:
		c.bad("an error that names no file: %w", err)
	}
	return true
}

// do runs f, which makes a number of calls, and checks the limit of their allocations.
func (c *hostileCase) do(phase string, calls int, f func()) {
	if c.err != nil {
		return
	}
	c.phase = phase
	watched.phase.Store(&phase)
	before := c.allocated()
	f()
	if got, most := c.allocated()-before, hostileBase+uint64(calls)*hostileTimes*c.size; got > most {
		c.bad("%d bytes allocated by %d calls on files of %d bytes, want at most %d", got, calls, c.size, most)
	}
}

// A watchedCase is the running case: a watchdog ends the program if it hangs or uses too much memory.
type watchedCase struct {
	began       atomic.Int64 // in ns; 0 for no case
	what, phase atomic.Pointer[string]
}

var watched watchedCase

// timeLimit is long enough even for a slow machine.
const timeLimit = 2 * time.Minute

func (w *watchedCase) begin(what string) {
	phase := "begin"
	w.what.Store(&what)
	w.phase.Store(&phase)
	w.began.Store(time.Now().UnixNano())
}

func (w *watchedCase) end() { w.began.Store(0) }

// watch ends the program with all stacks if a case exceeds the time limit or 2 GiB of memory; stop ends the watch.
func watch(limit time.Duration) (stop func()) {
	end := make(chan struct{})
	go func() {
		alloc := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for {
			select {
			case <-end:
				return
			case <-time.After(200 * time.Millisecond):
			}
			began := watched.began.Load()
			metrics.Read(alloc)
			took := time.Duration(time.Now().UnixNano() - began)
			if began == 0 || took < limit && alloc[0].Value.Uint64() < 2<<30 {
				continue
			}
			buf := make([]byte, 1<<20)
			panic(fmt.Sprintf("%s: %s: %v, %d bytes in memory: it hangs or uses too much memory\n%s",
				*watched.what.Load(), *watched.phase.Load(),
				took, alloc[0].Value.Uint64(), buf[:runtime.Stack(buf, true)]))
		}
	}()
	return func() { close(end) }
}

// hostileRun uses a store of these files in every way, in memory or in a directory of the operating system.
func hostileRun(kind *hostileKind, files map[string][]byte, readOnly bool, system bool, seed uint64) hostileResult {
	c := &hostileCase{
		kind: kind, fs: &countedFS{FS: vfstest.NewMem()}, dir: "db", rng: rand.New(rand.NewPCG(seed, 1)),
		alloc: []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}},
	}
	if system {
		c.fs.FS, c.dir = vfs.OS, systemDir()
		defer func() { c.removeAll() }()
	}
	if err := writeFiles(c.fs, c.dir, files); err != nil {
		c.bad("%w", err)
		return c.hostileResult
	}
	c.bare = true
	for name, b := range files {
		c.size += dense(b)
		c.bare = c.bare && !strings.HasSuffix(name, ".sst") && !strings.HasSuffix(name, ".log")
	}
	c.most = int(c.size) + 64
	opts := kind.options(c.fs)
	opts.ReadOnly = readOnly
	goroutines := runtime.NumGoroutine()
	c.do("Check", 1, func() {
		_, err := bloomkv.Check(context.Background(), c.dir, bloomkv.CheckOptions{FS: opts.FS})
		c.sound = !c.refused(err)
	})
	saved := c.salvage(opts)
	var db *bloomkv.DB
	c.do("Open", 1, func() {
		var err error
		db, err = bloomkv.Open(c.dir, opts)
		if c.refused(err) && c.sound && !strings.Contains(err.Error(), "exhausted") {
			c.bad("Check found no damage, but: %v", err)
		}
	})
	if db != nil {
		c.use(db, readOnly)
		c.do("Close", 1, func() {
			c.refused(db.Close())
		})
		_ = db.Close() // after a violation too
	}
	if c.sound && saved != nil && db != nil && !maps.Equal(saved, c.first) {
		c.bad("Check found no damage, but what was salvaged differs: %s", storetest.Diff(saved, c.first))
	}
	if n := c.fs.open.Load(); n != 0 {
		c.bad("%d files stay open", n)
	}
	for i := 0; runtime.NumGoroutine() > goroutines && c.err == nil; i++ {
		if i > 1000 {
			c.bad("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
			break
		}
		if i > 100 {
			time.Sleep(10 * time.Millisecond)
		}
		runtime.Gosched()
	}
	return c.hostileResult
}

// dense returns the bytes of a file that are not holes: that of its pages which are not all zero.
func dense(b []byte) (n uint64) {
	zero := make([]byte, 4096)
	for page := range slices.Chunk(b, len(zero)) {
		if !bytes.Equal(page, zero[:len(page)]) {
			n += uint64(len(page))
		}
	}
	return n
}

// salvage makes a new store of the old one, which opens and is sound whatever the files hold. It returns its contents,
// or nil if it has none that Open must have too.
func (c *hostileCase) salvage(opts *bloomkv.Options) (saved map[string]string) {
	o := *opts
	o.ReadOnly = false
	if c.rng.IntN(8) == 0 {
		o.FilterFPR, o.FilterMemory = 0, 64<<10
	}
	dir := c.dir + "-saved"
	made, guess := false, false
	c.do("Salvage", 4, func() {
		report, err := salvage.Run(context.Background(), c.dir, dir, salvage.Options{Store: &o})
		made = err == nil
		unknown := strings.Join(report.Unknown, " ")
		guess = !report.Whole() || strings.Contains(unknown, "does not name") ||
			strings.Contains(unknown, "No manifest")
		if err != nil && !errors.Is(err, bloomkv.ErrUnsupportedVersion) && !(c.bare && errors.Is(err, fs.ErrNotExist)) {
			c.bad("%w", err)
		}
	})
	if !made {
		return nil
	}
	c.do("what was salvaged", 8, func() {
		_, err := bloomkv.Check(context.Background(), dir, bloomkv.CheckOptions{FS: o.FS})
		db, openErr := bloomkv.Open(dir, &o)
		if err = errors.Join(err, openErr); err == nil {
			saved, err = storetest.Contents(db)
			err = errors.Join(err, db.Put([]byte("ab"), []byte("new")), db.Close())
		}
		if err != nil {
			c.bad("%w", err)
		}
	})
	if guess { // more was read than Open reads: tables that the manifest does not name, records behind a gap
		return nil
	}
	return saved
}

func (c *hostileCase) use(db *bloomkv.DB, readOnly bool) {
	keys := c.kind.keys
	c.do("scan forward", 1, func() {
		c.scan(db.Iter(bloomkv.IterOptions{}), (*bloomkv.Iterator).First, (*bloomkv.Iterator).Next, 1)
	})
	c.do("scan backward", 1, func() {
		c.scan(db.Iter(bloomkv.IterOptions{}), (*bloomkv.Iterator).Last, (*bloomkv.Iterator).Prev, -1)
	})
	c.do("scan of a prefix", 2, func() {
		opts := bloomkv.IterOptions{Prefix: keys[0][:2], KeysOnly: true}
		c.scan(db.Iter(opts), (*bloomkv.Iterator).First, (*bloomkv.Iterator).Next, 1)
		c.scan(db.Iter(opts), (*bloomkv.Iterator).Last, (*bloomkv.Iterator).Prev, -1)
	})
	c.do("walk", 24, func() { c.walk(db) })
	c.do("Get", len(keys), func() {
		for _, k := range keys {
			v, err := db.Get(k)
			if err == bloomkv.ErrNotFound { //nolint:errorlint // documented as returned unwrapped
				c.agrees(k, nil, false)
			} else if !c.refused(err) {
				c.agrees(k, v, true)
			}
		}
	})
	c.do("GetMany", len(keys), func() {
		c.refused(db.GetMany(keys, func(i int, v []byte, found bool) error {
			c.agrees(keys[i], v, found)
			return nil
		}))
	})
	c.pages = db.Metrics().Lookups.FilterParts > 0
	c.do("DB.Check", 1, func() {
		_, err := db.Check(context.Background(), bloomkv.CheckOptions{})
		c.refused(err)
	})
	if readOnly {
		return
	}
	c.do("Put", 3, func() {
		if !c.refused(db.Put([]byte("ab"), []byte("new"))) {
			c.holds["ab"] = "new"
			if got, err := db.Get([]byte("ab")); err != nil || string(got) != "new" {
				c.bad("what was put: %q, %w", got, err)
			}
		}
	})
	c.do("Flush", 3, func() {
		if c.damage || c.full { // then a call was refused
			_ = db.Flush(context.Background())
		} else if !c.refused(db.Flush(context.Background())) {
			if got, err := db.Get([]byte("ab")); err != nil || string(got) != "new" {
				c.bad("what was put and flushed: %q, %w", got, err)
			}
		}
	})
	c.do("Compact", 3, func() { c.refused(db.Compact(context.Background(), bloomkv.CompactOptions{})) })
	c.do("scan of what is compacted", 2, func() {
		c.scan(db.Iter(bloomkv.IterOptions{}), (*bloomkv.Iterator).First, (*bloomkv.Iterator).Next, 1)
		c.scan(db.Iter(bloomkv.IterOptions{}), (*bloomkv.Iterator).Last, (*bloomkv.Iterator).Prev, -1)
	})
}

// scan iterates over all keys in one direction; they must be strictly ordered and end.
func (c *hostileCase) scan(it *bloomkv.Iterator, begin, step func(*bloomkv.Iterator) bool, order int) {
	var last []byte
	n := 0
	seen := map[string]string{}
	for ok := begin(it); ok; ok = step(it) {
		seen[string(it.Key())] = string(it.Value())
		if k := it.Key(); n > 0 && bytes.Compare(k, last) != order {
			c.bad("%.40q after %.40q", k, last)
			break
		}
		last = append(last[:0], it.Key()...)
		if n++; n > c.most {
			c.bad("more than %d keys", n)
			break
		}
	}
	c.refused(it.Err())
	_ = it.Close()
	switch {
	case c.holds == nil:
		c.holds, c.first = seen, maps.Clone(seen)
	case c.sound && strings.Contains(c.phase, "prefix"):
	case c.sound && !maps.Equal(seen, c.holds):
		c.bad("Check found no damage, but a scan differs from the first one: %s", storetest.Diff(seen, c.holds))
	}
}

// agrees compares the answer for a key with that of the scan.
func (c *hostileCase) agrees(key, value []byte, found bool) {
	want, there := c.holds[string(key)]
	if c.sound && (found != there || found && string(value) != want) {
		c.bad("Check found no damage, but %.40q is %.40q (there: %v), by a scan %.40q (%v)", key, value, found, want,
			there)
	}
}

// walk makes moves of all kinds and checks where each one lands.
func (c *hostileCase) walk(db *bloomkv.DB) {
	it := db.Iter(bloomkv.IterOptions{})
	var last []byte
	at := false
	for range 24 {
		k := c.kind.keys[c.rng.IntN(len(c.kind.keys))]
		want := 0 // the expected order of the position and k
		var ok bool
		switch move := c.rng.IntN(8); {
		case move == 0:
			if ok = it.SeekGE(k); ok && bytes.Compare(it.Key(), k) < 0 {
				c.bad("SeekGE of %.40q: %.40q", k, it.Key())
			}
		case move == 1:
			if ok = it.SeekLT(k); ok && bytes.Compare(it.Key(), k) >= 0 {
				c.bad("SeekLT of %.40q: %.40q", k, it.Key())
			}
		case move < 5:
			ok, want = it.Next(), 1
		default:
			ok, want = it.Prev(), -1
		}
		if ok && at && want != 0 && bytes.Compare(it.Key(), last) != want {
			c.bad("%.40q after %.40q, want it on the other side", it.Key(), last)
		}
		if at = ok; ok {
			last = append(last[:0], it.Key()...)
		}
	}
	c.refused(it.Err())
	_ = it.Close()
}
