//go:build schedule

package schedules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A fault is something that goes wrong for a while and then ends.
type fault struct {
	name string
	// strikes reports the error of a file operation, or nil.
	strikes func(op vfstest.Op) error
	struck  int
}

func isTable(op vfstest.Op) bool {
	kind, _ := filename.Parse(filepath.Base(op.Name))
	return kind == filename.Table
}

// faults returns what may go wrong. In each case a store goes on by itself once it has ended.
func faults() []*fault {
	full := fmt.Errorf("a full disk: %w", syscall.ENOSPC)
	return []*fault{
		{name: "no space for tables", strikes: func(op vfstest.Op) error {
			if isTable(op) && (op.Kind == vfstest.OpCreate || op.Kind == vfstest.OpWrite) {
				return full
			}
			return nil
		}},
		{name: "no table can be synced", strikes: func(op vfstest.Op) error {
			if isTable(op) && op.Kind == vfstest.OpSync {
				return syscall.EIO
			}
			return nil
		}},
		{name: "no file can be removed", strikes: func(op vfstest.Op) error {
			if op.Kind == vfstest.OpRemove {
				return syscall.EBUSY
			}
			return nil
		}},
		{name: "slow files", strikes: func(vfstest.Op) error {
			step.Poll(0)
			return nil
		}},
		{name: "a reader that holds everything", strikes: nil},
	}
}

// TestStoresRecoverOnceFaultsEnd lets goroutines write while something is wrong. Once it has ended, a bounded number of
// calls must do: writes are taken, nothing is left to flush or compact, and files that no state needs are gone.
func TestStoresRecoverOnceFaultsEnd(t *testing.T) {
	all := faults()
	for seed := *first; seed < *first+*count/3; seed++ {
		f := all[seed%uint64(len(all))]
		var errs []error
		trace := step.Run(step.Schedule{Seed: seed, Kind: step.Kind(*kind), Log: *log}, func() {
			errs = recovers(f, rand.New(rand.NewPCG(seed, 3)))
		})
		if err := errors.Join(append(errs, trace.Err)...); err != nil {
			t.Fatalf("-seed %d: %s: %v\n%s", seed, f.name, err, strings.Join(trace.Lines, "\n"))
		}
	}
	for _, f := range all {
		t.Logf("%s: struck %d times", f.name, f.struck)
		if f.struck == 0 && *count >= 300 {
			t.Errorf("%s has never struck", f.name)
		}
	}
}

// recovers runs a store with a fault, as the first goroutine of a schedule.
func recovers(f *fault, rng *rand.Rand) (errs []error) {
	ctx := context.Background()
	must := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	mem, on, left := vfstest.NewMem(), false, 1+rng.IntN(4)
	o := (&program{rng: rng}).options()
	o.FS = vfstest.NewHook(mem, func(op vfstest.Op) error {
		if !on || f.strikes == nil {
			return nil
		}
		err := f.strikes(op)
		if err != nil {
			f.struck++
			left-- // a store gives up after the fifth failure of one job
			on = left > 0
		}
		return err
	})
	db, err := bloomkv.Open("db", o)
	if err != nil {
		return []error{err}
	}
	step.Meet()
	on = true
	var g step.WaitGroup
	for a := range 2 {
		g.Go(func() {
			for i := range 3 {
				err := db.Put(key((a+i)%keys), value(100+10*a+i))
				if err != nil && !errors.Is(err, bloomkv.ErrNoSpace) {
					must("put beside the fault", err)
				}
			}
		})
	}
	if f.strikes == nil {
		g.Go(func() {
			s, err := db.Snapshot()
			must("snapshot", err)
			it := db.Iter(bloomkv.IterOptions{})
			it.First()
			for range 20 {
				step.Poll(0)
			}
			f.struck++
			must("close iterator", it.Close())
			must("close snapshot", s.Close())
		})
	}
	if f.name == "slow files" {
		f.struck++
	}
	g.Wait()
	on = false

	flush := func() error { return db.Flush(ctx) }
	compact := func() error { return db.Compact(ctx, bloomkv.CompactOptions{}) }
	for _, call := range []struct {
		what string
		f    func() error
	}{
		{"put", func() error { return db.Put(key(0), value(2)) }},
		{"flush", flush},
		{"compact", compact},
		{"delete", func() error { return db.DeleteRange(bloomkv.KeyRange{}) }},
		{"flush", flush},
		{"compact", compact},
	} {
		err := call.f()
		for i := 0; i < 10 && errors.Is(err, bloomkv.ErrNoSpace); i++ { // a flush is tried again after a second
			step.Poll(time.Second)
			err = call.f()
		}
		must(call.what, err)
	}
	for i := 0; !storetest.Rests(db, mem, "db"); i++ {
		if i == 200 {
			names, _ := mem.List("db")
			return append(errs, fmt.Errorf("does not come to rest: %v\n%v", names, db.Metrics()))
		}
		step.Poll(0)
	}
	if m := db.Metrics(); len(db.Tables()) > 0 || m.Levels[0].Runs > 0 {
		must("rest", fmt.Errorf("%d tables are left of nothing", len(db.Tables())))
	}
	must("close", db.Close())
	return errs
}
