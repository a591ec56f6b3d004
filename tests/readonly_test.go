package tests

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// openToRead opens db read-only on a file system that allows no change.
func openToRead(t *testing.T, fsys vfs.FS) (*bloomkv.DB, error) {
	t.Helper()
	o := storetest.Tiny(refuseChanges(t, fsys))
	o.ReadOnly = true
	return bloomkv.Open("db", o)
}

func TestI32ReadOnlyChangesNothingAndShowsTheRecoveredState(t *testing.T) {
	for _, closed := range []bool{true, false} {
		d := newDamageStore(t, closed)
		before := filesIn(t, d.fs)
		var dbs []*bloomkv.DB
		for range 3 { // at the same time
			db, err := openToRead(t, d.fs)
			if err != nil {
				t.Fatalf("closed %v: %v", closed, err)
			}
			dbs = append(dbs, db)
		}
		if _, err := bloomkv.Open("db", storetest.Tiny(d.fs)); !errors.Is(err, bloomkv.ErrLocked) {
			t.Errorf("closed %v: a writer while readers are open: %v, want ErrLocked", closed, err)
		}
		for i, db := range dbs {
			got, err := storetest.Contents(db)
			if err != nil || storetest.Diff(got, d.want) != "" {
				t.Errorf("closed %v, reader %d: %v, %s", closed, i, err, storetest.Diff(got, d.want))
			}
			if err := lookupsAgree(db, d.want); err != nil {
				t.Errorf("closed %v, reader %d: %v", closed, i, err)
			}
			testkit.Soon(t, "it is warm", func() bool { return db.Metrics().Warm })
			m := db.Metrics()
			replayed := m.Lookups.MemtableHits > 0
			if !m.Settled || m.Memory.Filters == 0 || replayed == closed {
				t.Errorf("closed %v, reader %d: settled %v, memory %+v, logs in memory: %v", closed, i, m.Settled,
					m.Memory, replayed)
			}
			for what, err := range allCalls(t.Context(), db) { // including Close
				var want error
				switch what {
				case "get", "appendget":
					want = bloomkv.ErrNotFound
				case "has", "scan", "close":
				case "apply of too much":
					want = bloomkv.ErrTooLarge
				case "apply with an odd durability", "put with an odd durability":
					continue
				default:
					want = bloomkv.ErrReadOnly
				}
				if !errors.Is(err, want) || errors.Is(want, bloomkv.ErrReadOnly) &&
					!strings.HasPrefix(err.Error(), "bloomkv: db: read-only: ") {
					t.Errorf("closed %v, %s: got %v, want %v", closed, what, err, want)
				}
			}
			for what, err := range allCalls(t.Context(), db) {
				if !errors.Is(err, bloomkv.ErrClosed) {
					t.Errorf("closed %v, %s after Close: got %v, want ErrClosed", closed, what, err)
				}
			}
		}
		if after := filesIn(t, d.fs); !maps.Equal(after, before) {
			t.Errorf("closed %v: the store was changed: %s", closed, storetest.Diff(after, before))
		}
		db, err := bloomkv.Open("db", d.options(d.fs)) // the store can be opened for writing again
		if err != nil {
			t.Fatalf("closed %v: %v", closed, err)
		}
		must(t, db.Close())
	}
}

// TestReadOnlyShowsWhatRecoveryFinds opens the store after every kind of crash, first read-only and then for writing.
func TestReadOnlyShowsWhatRecoveryFinds(t *testing.T) {
	h := &history{}
	c := &crasher{mem: vfstest.NewMem(), h: h, seed: 32, random: 1}
	must(t, h.script(vfstest.NewHook(c.mem, c.hook), rand.New(rand.NewPCG(32, 7))))
	states := h.all()
	stride := 3000 / storetest.AtStride(1000)
	for i := 0; i < len(c.found); i += stride {
		s := &c.found[i]
		var got map[string]string
		db, readErr := openToRead(t, s.fs)
		if readErr == nil {
			if got, readErr = storetest.Contents(db); readErr == nil {
				readErr = lookupsAgree(db, got)
			}
			readErr = errors.Join(readErr, db.Close())
		}
		if errors.Is(readErr, fs.ErrNotExist) { // no store yet
			if s.low > 0 {
				t.Fatalf("state %d, %s: %v, want %d commits", i, s.what, readErr, s.low)
			}
			continue
		}
		if readErr == nil {
			_, readErr = prefixOf(got, states, "", s.low, s.high)
		}
		if readErr != nil {
			t.Fatalf("state %d, %s: %v", i, s.what, readErr)
		}
		db, err := bloomkv.Open("db", storetest.Tiny(s.fs))
		if err != nil {
			t.Fatalf("state %d, %s: %v", i, s.what, err)
		}
		want, err := storetest.Contents(db)
		if err = errors.Join(err, db.Close()); err != nil || storetest.Diff(got, want) != "" {
			t.Fatalf("state %d, %s: %v, %s", i, s.what, err, storetest.Diff(got, want))
		}
	}
}

// TestReadOnlyFindsTheDamageThatOpenFinds flips bytes of every file.
func TestReadOnlyFindsTheDamageThatOpenFinds(t *testing.T) {
	d := newDamageStore(t, false)
	rng := rand.New(rand.NewPCG(33, 0))
	damaged := 0
	for _, file := range d.files {
		for range storetest.AtStride(40) {
			broken := d.damaged(t, file, func(b []byte) []byte {
				b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
				return b
			})
			o := d.options(broken.Kill())
			for _, strict := range []bool{false, true} {
				o.StrictWAL = strict
				o.FS = broken.Kill()
				db, want := bloomkv.Open("db", o)
				if want == nil {
					_ = db.Close()
				}
				o.FS, o.ReadOnly = refuseChanges(t, broken), true
				db, err := bloomkv.Open("db", o)
				if err == nil {
					err = db.Close()
				}
				if o.ReadOnly = false; fmt.Sprint(err) != fmt.Sprint(want) {
					t.Errorf("%s, strict %v: got %v, want %v as from Open", file, strict, err, want)
				}
				if err != nil {
					damaged++
				}
			}
		}
	}
	if damaged == 0 {
		t.Error("no damage was found at all")
	}
}

func TestReadOnlyOfNoStoreMakesNone(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(mem *vfstest.Mem) error
		want error
	}{
		{"nothing", func(*vfstest.Mem) error { return nil }, fs.ErrNotExist},
		{"an empty directory", func(mem *vfstest.Mem) error { return mem.Mkdir("db") }, fs.ErrNotExist},
		{"a lock", func(mem *vfstest.Mem) error {
			return errors.Join(mem.Mkdir("db"), replaceNone(mem, "db/LOCK"))
		}, fs.ErrNotExist},
		{"a manifest that is not current yet", func(mem *vfstest.Mem) error {
			return errors.Join(mem.Mkdir("db"), replaceNone(mem, "db/MANIFEST-000001"))
		}, fs.ErrNotExist},
		{"a log", func(mem *vfstest.Mem) error {
			return errors.Join(mem.Mkdir("db"), replaceNone(mem, "db/000001.log"))
		}, bloomkv.ErrCorruption},
		{"a table", func(mem *vfstest.Mem) error {
			return errors.Join(mem.Mkdir("db"), replaceNone(mem, "db/000001.sst"))
		}, bloomkv.ErrCorruption},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfstest.NewMem()
			must(t, c.make(mem))
			if _, err := openToRead(t, mem); !errors.Is(err, c.want) || !strings.Contains(err.Error(), "db") {
				t.Errorf("got %v, want %v and the directory", err, c.want)
			}
		})
	}
	o := storetest.Tiny(vfstest.NewMem())
	o.ReadOnly, o.ErrorIfExists = true, true
	if _, err := bloomkv.Open("db", o); err == nil || !strings.Contains(err.Error(), "ErrorIfExists") {
		t.Errorf("with ErrorIfExists: %v, want an error naming the option", err)
	}
}

// replaceNone replaces a file by an empty one.
func replaceNone(fsys vfs.FS, name string) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	return f.Close()
}

func TestReadOnlyNeedsNoLockFile(t *testing.T) {
	d := newDamageStore(t, false)
	must(t, d.fs.Remove(filepath.Join("db", filename.LockName)))
	before := filesIn(t, d.fs)
	if _, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: refuseChanges(t, d.fs)}); err != nil {
		t.Errorf("check: %v", err)
	}
	db, err := openToRead(t, d.fs)
	must(t, err)
	got, err := storetest.Contents(db)
	if err = errors.Join(err, db.Close()); err != nil || storetest.Diff(got, d.want) != "" {
		t.Errorf("%v, %s", err, storetest.Diff(got, d.want))
	}
	if after := filesIn(t, d.fs); !maps.Equal(after, before) {
		t.Error("the store was changed")
	}
}

// TestAReaderNeverRunsBesideAWriter has a writer make the store and keep it open, before each operation of a reader.
func TestAReaderNeverRunsBesideAWriter(t *testing.T) {
	for at := 0; ; at++ {
		mem := vfstest.NewMem()
		var writer *bloomkv.DB
		op := 0
		o := storetest.Tiny(vfstest.NewHook(mem, func(vfstest.Op) (err error) {
			if op++; op == at+1 {
				writer, err = bloomkv.Open("db", storetest.Tiny(mem))
			}
			return err
		}))
		o.ReadOnly = true
		_, err := bloomkv.Open("db", o)
		if writer == nil {
			if at < 2 {
				t.Errorf("a reader made only %d operations", at)
			}
			return
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bloomkv.ErrLocked) {
			t.Errorf("writer before operation %d: got %v, want no store or ErrLocked", at, err)
		}
		must(t, writer.Close())
	}
}

// TestLogsLargerThanTheMemtablesStayInMemory reads logs with much smaller memtables than they were written with.
func TestLogsLargerThanTheMemtablesStayInMemory(t *testing.T) {
	mem := vfstest.NewMem()
	o := storetest.Tiny(mem)
	o.MemtableSize, o.Durability = 2<<20, bloomkv.DurabilityNoSync
	db, err := bloomkv.Open("db", o)
	must(t, err)
	defer db.Close()
	rng := rand.New(rand.NewPCG(34, 0))
	want := map[string]string{}
	for i := range 3000 {
		k, v := fmt.Sprintf("k%03d", rng.IntN(500)), strings.Repeat(fmt.Sprint(i, "."), 30)
		if i%5 == 0 {
			delete(want, k)
			err = db.Delete([]byte(k))
		} else {
			want[k] = v
			err = db.Put([]byte(k), []byte(v))
		}
		must(t, err)
	}
	reader, err := openToRead(t, mem.Kill())
	must(t, err)
	defer reader.Close()
	if n := reader.Metrics().Memory.Memtables; n < 10*storetest.Tiny(mem).MemtableSize {
		t.Errorf("%d bytes of logs in memory, want many memtables of %d bytes", n, storetest.Tiny(mem).MemtableSize)
	}
	got, err := storetest.Contents(reader)
	if err == nil {
		err = lookupsAgree(reader, want)
	}
	if err != nil || storetest.Diff(got, want) != "" {
		t.Errorf("%v, %s", err, storetest.Diff(got, want))
	}
}

// TestAScanOfAReaderThatCloseOvertakesRemovesNothing releases the last reference to the tables after Close.
func TestAScanOfAReaderThatCloseOvertakesRemovesNothing(t *testing.T) {
	d := newDamageStore(t, true)
	db, err := openToRead(t, d.fs)
	must(t, err)
	var last error
	for _, err := range db.Scan(bloomkv.IterOptions{}) {
		if last = err; err == nil {
			testkit.Within(t, "Close inside a scan", func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if !errors.Is(last, bloomkv.ErrClosed) {
		t.Errorf("the scan ended with %v, want ErrClosed", last)
	}
	names, err := d.fs.List("db")
	if err != nil || !slices.Equal(slices.DeleteFunc(names, func(n string) bool { return n == filename.LockName }),
		d.files) {
		t.Errorf("left: %q, %v, want %q", names, err, d.files)
	}
}
