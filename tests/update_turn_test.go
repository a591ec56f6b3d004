package tests

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// openSlow opens a store in memory whose syncs take a while, in which others read and queue.
func openSlow(t *testing.T) *bloomkv.DB {
	t.Helper()
	o := storetest.Tiny(vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync {
			time.Sleep(100 * time.Microsecond)
		}
		return nil
	}))
	o.MemtableSize = 1 << 20
	db, err := bloomkv.Open("db", o)
	must(t, err)
	return db
}

// increment adds one to a counter in a transaction and returns how often its function ran.
func increment(t *testing.T, db *bloomkv.DB, key string) (attempts int, err error) {
	t.Helper()
	err = db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		attempts++
		n, err := number(tx.Get, key)
		if err != nil {
			return err
		}
		return tx.Put([]byte(key), []byte(strconv.Itoa(n+1)))
	})
	return attempts, err
}

// TestManySyncedUpdatesOfOneKeyTakeTurns counts the attempts of each update, and the others that it sees pass.
func TestManySyncedUpdatesOfOneKeyTakeTurns(t *testing.T) {
	const writers, each, maxTries, maxPassed = 128, 10, 32, 4 * 128
	db := openSlow(t)
	var done, failed atomic.Int64
	var tries [65]atomic.Int64
	var passed [writers]int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				before := done.Load()
				attempts, err := increment(t, db, "key")
				passed[w] = max(passed[w], done.Add(1)-before)
				tries[attempts].Add(1)
				if err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	most := 0
	for attempts := range tries {
		if n := tries[attempts].Load(); n > 0 {
			t.Logf("%d attempts: %d updates", attempts, n)
			most = attempts
		}
	}
	n, err := number(db.Get, "key")
	if err != nil || n != writers*each || failed.Load() != 0 || most > maxTries {
		t.Errorf("%d of %d updates failed, after at most %d attempts, want 0 and %d; the counter has %d, %v",
			failed.Load(), writers*each, most, maxTries, n, err)
	}
	if got := slices.Max(passed[:]); got > maxPassed {
		t.Errorf("%d others passed an update, want at most %d", got, maxPassed)
	}
	must(t, db.Close())
}

// TestAnUpdateTakesItsTurnAmongOtherWrites lets one goroutine update a key that eight others put all the time.
func TestAnUpdateTakesItsTurnAmongOtherWrites(t *testing.T) {
	db := openSlow(t)
	var stop atomic.Bool
	var puts atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				must(t, db.Put([]byte("key"), []byte("1")))
				puts.Add(1)
			}
		})
	}
	const updates = 50
	for range updates {
		if attempts, err := increment(t, db, "key"); err != nil || attempts > 32 {
			t.Errorf("an update: %v after %d attempts, want at most 32", err, attempts)
		}
	}
	stop.Store(true)
	wg.Wait()
	if puts.Load() < 8*updates {
		t.Errorf("%d puts during %d updates, want at least %d", puts.Load(), updates, 8*updates)
	}
	must(t, db.Close())
}

// atTurn runs an update whose first attempts conflict, and whose attempt with a turn is f.
func atTurn(t *testing.T, db *bloomkv.DB, f func(tx *bloomkv.Tx) error) error {
	t.Helper()
	attempts := 0
	return db.Update(t.Context(), func(tx *bloomkv.Tx) error {
		attempts++
		n, err := number(tx.Get, "contended")
		must(t, err)
		switch {
		case attempts <= 3:
			must(t, db.Put([]byte("contended"), []byte(strconv.Itoa(n+1))))
		case attempts == 4:
			if err := f(tx); err != nil {
				return err
			}
		}
		return tx.Put([]byte("contended"), []byte("0"))
	})
}

var errOfItsOwn = errors.New("an error of its own")

// TestATurnIsBounded lets the function of a transaction block, fail, panic, write to the store, and begin
// transactions that need turns too, all in its turn.
func TestATurnIsBounded(t *testing.T) {
	key := []byte("key")
	for _, tt := range []struct {
		name string
		f    func(db *bloomkv.DB, nested func() error) error
		wait time.Duration // how long a put from another goroutine takes, which begins in the turn
	}{
		{"that blocks", func(*bloomkv.DB, func() error) error { time.Sleep(time.Hour); return nil }, time.Millisecond},
		{"that returns", func(*bloomkv.DB, func() error) error { return nil }, 0},
		{"that fails", func(*bloomkv.DB, func() error) error { return errOfItsOwn }, 0},
		{"that panics", func(*bloomkv.DB, func() error) error { panic("in a turn") }, 0},
		{"that writes", func(db *bloomkv.DB, _ func() error) error { return db.Put(key, key) }, time.Millisecond},
		{"that updates", func(_ *bloomkv.DB, nested func() error) error { return nested() }, time.Millisecond},
	} {
		t.Run("a function "+tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := storetest.OpenTiny(t)
				var wg sync.WaitGroup
				func() {
					defer func() { _ = recover() }()
					err := atTurn(t, db, func(*bloomkv.Tx) error {
						began := time.Now()
						wg.Go(func() {
							must(t, db.Put(key, key))
							if took := time.Since(began); took != tt.wait {
								t.Errorf("a put during a turn took %v, want %v", took, tt.wait)
							}
						})
						synctest.Wait()
						return tt.f(db, func() error {
							return atTurn(t, db, func(*bloomkv.Tx) error {
								return atTurn(t, db, func(*bloomkv.Tx) error { return nil })
							})
						})
					})
					if err != nil && !errors.Is(err, errOfItsOwn) {
						t.Error(err)
					}
				}()
				wg.Wait()
				must(t, db.Close())
			})
		})
	}
}
