package tests

import (
	"context"
	"flag"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var scope = flag.Int("scope", 2, "operations of a program: all programs run, with a crash at each file operation")

// A scopeRun is a run of a program of few operations.
type scopeRun struct {
	fs    vfs.FS
	db    *bloomkv.DB
	model map[string]string
	done  atomic.Int64 // operations that have returned

	mu      sync.Mutex
	crashes []scopeCrash
}

// A scopeCrash is what a loss of power leaves, and the number of operations that had returned.
type scopeCrash struct {
	mem  *vfstest.Mem
	done int
	op   string
}

// scopeOps are the operations of the programs. Each changes the model as the store.
var scopeOps = []struct {
	name string
	f    func(r *scopeRun) error
}{
	{"put a", func(r *scopeRun) error { return r.put("a") }},
	{"put b", func(r *scopeRun) error { return r.put("b") }},
	{"delete a", func(r *scopeRun) error {
		delete(r.model, "a")
		return r.db.Delete([]byte("a"))
	}},
	{"delete a to b", func(r *scopeRun) error {
		delete(r.model, "a")
		delete(r.model, "b")
		return r.db.DeleteRange(bloomkv.KeyRange{Lower: []byte("a"), Upper: []byte("c")})
	}},
	{"ingest a", func(r *scopeRun) error {
		r.model["a"] = "ingested"
		return r.db.Ingest(context.Background(), func(yield func(bloomkv.KV, error) bool) {
			yield(bloomkv.KV{Key: []byte("a"), Value: []byte("ingested")}, nil)
		}, bloomkv.IngestOptions{})
	}},
	{"flush", func(r *scopeRun) error { return r.db.Flush(context.Background()) }},
	{"compact", func(r *scopeRun) error {
		return r.db.Compact(context.Background(), bloomkv.CompactOptions{Rewrite: true})
	}},
	{"reopen", func(r *scopeRun) (err error) {
		if err = r.db.Close(); err == nil {
			r.db, err = bloomkv.Open("db", storetest.Tiny(r.fs))
		}
		return err
	}},
}

func (r *scopeRun) put(key string) error {
	r.model[key] = strings.Repeat("x", int(r.done.Load())+1)
	return r.db.Put([]byte(key), []byte(r.model[key]))
}

// TestEveryShortProgramSurvivesEveryCrash runs all programs of up to a few operations. At each file operation since a
// program's last operation began, power fails, in a copy: the copy has what was there after the operations that had
// returned, or after one more. Crashes before that are those of shorter programs.
func TestEveryShortProgramSurvivesEveryCrash(t *testing.T) {
	testkit.Long(t)
	for first := range scopeOps {
		t.Run(scopeOps[first].name, func(t *testing.T) {
			t.Parallel()
			programs, crashes := 0, 0
			for n := range *scope {
				program := make([]int, n+1)
				program[0] = first
				for more := true; more && !t.Failed(); {
					programs++
					crashes += runScope(t, program)
					storetest.Progress.Add(1)
					more = false
					for i := 1; i < len(program) && !more; i++ { // the next program
						program[i] = (program[i] + 1) % len(scopeOps)
						more = program[i] > 0
					}
				}
			}
			t.Logf("%d programs, %d crashes", programs, crashes)
		})
	}
}

// runScope runs a program and judges what its crashes left. It returns their number.
func runScope(t *testing.T, program []int) int {
	t.Helper()
	mem := vfstest.NewMem()
	r := &scopeRun{model: map[string]string{}}
	crash := func(op vfstest.Op) error {
		if done := int(r.done.Load()); done >= len(program)-1 && op.Kind.Changes() {
			some := vfstest.KeepSome(uint64(done), 50)
			for _, keep := range []vfstest.Keep{vfstest.KeepNothing, vfstest.KeepAll, some} {
				copied := mem.Crash(keep)
				r.mu.Lock()
				r.crashes = append(r.crashes, scopeCrash{copied, done, op.String()})
				r.mu.Unlock()
			}
		}
		return nil
	}
	db, err := bloomkv.Open("db", storetest.Tiny(mem))
	must(t, err)
	must(t, db.Close())
	r.fs = vfstest.NewHook(mem, crash)
	r.db, err = bloomkv.Open("db", storetest.Tiny(r.fs))
	must(t, err)
	states := []map[string]string{{}} // by the number of operations before
	var names []string
	for _, i := range program {
		names = append(names, scopeOps[i].name)
		must(t, scopeOps[i].f(r))
		states = append(states, maps.Clone(r.model))
		r.done.Add(1)
	}
	must(t, r.db.Close())
	for _, c := range r.crashes {
		db, err := bloomkv.Open("db", storetest.Tiny(c.mem))
		if err != nil {
			t.Errorf("%q, power fails before %s: %v", names, c.op, err)
			return 0
		}
		got, err := storetest.Contents(db)
		must(t, err)
		if !maps.Equal(got, states[c.done]) && !(c.done < len(program) && maps.Equal(got, states[c.done+1])) {
			t.Errorf("%q, power fails before %s, after %d operations: %q, want %q or what the next one leaves", names,
				c.op, c.done, got, states[c.done])
		}
		must(t, db.Close())
	}
	return len(r.crashes)
}
