package tests

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// The memory of a memtable is given back after its flush. In these tests, as in all tests of stores, a read that comes
// later crashes the process, or is reported by the race detector.

// TestAValueOfAMemtableOutlivesTheMemtable flushes or closes the store while a reader has a value of the memtable.
func TestAValueOfAMemtableOutlivesTheMemtable(t *testing.T) {
	key, value := []byte("key"), strings.Repeat("value", 10)
	for way, end := range map[string]func(db *bloomkv.DB) error{
		"flush": func(db *bloomkv.DB) error { return db.Flush(t.Context()) },
		"close": func(db *bloomkv.DB) error { return db.Close() },
	} {
		for name, read := range map[string]func(db *bloomkv.DB, check func(k, v []byte) error) error{
			"View": func(db *bloomkv.DB, check func(k, v []byte) error) error {
				return db.View(key, func(v []byte) error { return check(key, v) })
			},
			"GetMany": func(db *bloomkv.DB, check func(k, v []byte) error) error {
				return db.GetMany([][]byte{key}, func(_ int, v []byte, _ bool) error { return check(key, v) })
			},
			"Iter": func(db *bloomkv.DB, check func(k, v []byte) error) error {
				it := db.Iter(bloomkv.IterOptions{})
				it.SeekGE([]byte("k"))
				return errors.Join(check(it.Key(), it.Value()), it.Close())
			},
			"an iterator that goes back": func(db *bloomkv.DB, check func(k, v []byte) error) error {
				it := db.Iter(bloomkv.IterOptions{})
				it.Last()
				return errors.Join(check(it.Key(), it.Value()), it.Close())
			},
			"Snapshot": func(db *bloomkv.DB, check func(k, v []byte) error) error {
				s, err := db.Snapshot()
				if err != nil {
					return err
				}
				return errors.Join(s.View(key, func(v []byte) error { return check(key, v) }), s.Close())
			},
		} {
			db := storetest.OpenTiny(t)
			must(t, db.Put(key, []byte(value)))
			err := read(db, func(k, v []byte) error {
				if err := end(db); err != nil {
					return err
				}
				if string(k) != string(key) || string(v) != value {
					return fmt.Errorf("%q = %q", k, v)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s, %s: %v", name, way, err)
			}
			if way == "flush" {
				must(t, db.Close())
			}
		}
	}
}

// TestReadersOfMemtablesThatComeAndGo reads in every way while small memtables are frozen and flushed all the time.
func TestReadersOfMemtablesThatComeAndGo(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	db, err := bloomkv.Open("db", o)
	must(t, err)
	const keys = 100
	name := func(i int) []byte { return fmt.Appendf(nil, "key%03d", i%keys) }
	value := func(i int) string { return strings.Repeat(fmt.Sprint(i%keys, ";"), 20) }
	right := func(i int, v []byte) error {
		if string(v) != value(i) {
			return fmt.Errorf("key %d has %q", i%keys, v)
		}
		return nil
	}
	for i := range keys {
		must(t, db.Put(name(i), []byte(value(i))))
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	for _, read := range []func(i int) error{
		func(i int) error {
			v, err := db.Get(name(i))
			return errors.Join(err, right(i, v))
		},
		func(i int) error { return db.View(name(i), func(v []byte) error { return right(i, v) }) },
		func(i int) error {
			if ok, err := db.Has(name(i)); err != nil || !ok || !db.MayContain(name(i)) {
				return fmt.Errorf("key %d is not there: %w", i%keys, err)
			}
			return nil
		},
		func(i int) error {
			return db.GetMany([][]byte{name(i), name(i + 1), name(i + 2)}, func(j int, v []byte, _ bool) error {
				return right(i+j, v)
			})
		},
		func(i int) error {
			n := 0
			for kv, err := range db.Scan(bloomkv.IterOptions{Lower: name(i % 50)}) {
				if err == nil {
					err = right(i%50+n, kv.Value)
				}
				if n++; err != nil || n == 20 {
					return err
				}
			}
			return nil
		},
		func(i int) error {
			_, err := db.CompareAndSwap(name(i), []byte(value(i)), []byte(value(i)))
			return err
		},
	} {
		all.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if err := read(i * 31); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	flushed := func() uint64 { return db.Metrics().Writes.Flushes }
	for i, begin := 0, time.Now(); !t.Failed() && (time.Since(begin) < time.Second || flushed() < 20); i++ {
		must(t, db.Put(name(i*7), []byte(value(i*7))))
	}
	stop.Store(true)
	all.Wait()
	must(t, db.Close())
}
