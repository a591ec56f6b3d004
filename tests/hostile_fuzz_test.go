package tests

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/storetest"
)

var (
	hostileCases = flag.Int("cases", 1200, "number of stores with changed files to try")
	hostileSeed  = flag.Uint64("seed", 0, "seed of the first store; a store depends only on its seed")
)

// TestChangedFilesHarmNobody changes fields of small stores, corrects all checksums and uses the stores in every way.
// To reproduce a failure: go test -run TestChangedFilesHarmNobody -seed N -cases 1 .
func TestChangedFilesHarmNobody(t *testing.T) {
	defer watch(timeLimit)()
	defer watched.end()
	began, damaged := time.Now(), 0
	finds := 0
	n := *hostileCases
	if f := flag.Lookup("cases"); f.Value.String() == f.DefValue {
		n = storetest.AtStride(n)
	}
	for i := range uint64(n) {
		seed := *hostileSeed + i
		hostile := hostileSeeded
		if seed%4 == 3 {
			hostile = hostileStreamSeeded
		}
		did, r := hostile(t, seed)
		storetest.Progress.Add(1)
		if r.damage {
			damaged++
		}
		if r.err != nil {
			t.Errorf("seed %d: %s\n%v", seed, did, r.err)
			if finds++; finds == 20 {
				t.Fatal("stopped after 20 failures")
			}
		}
		if done := i + 1; done%20000 == 0 || done == uint64(n) {
			t.Logf("seeds %d to %d: %d of %d stores are refused at some point; %v",
				*hostileSeed, seed, damaged, done, time.Since(began).Round(time.Millisecond))
		}
	}
}

// hostileSeeded builds the case of a seed and runs it.
func hostileSeeded(t *testing.T, seed uint64) (string, hostileResult) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	kind := hostileKinds[rng.IntN(len(hostileKinds))]
	v := &vandal{rng: rng, s: kind.store(t)}
	readOnly, system := rng.IntN(8) == 0, rng.IntN(64) == 0
	for range 1 + rng.IntN(3) {
		v.change()
	}
	files := v.s.join()
	for _, f := range v.late {
		f(files)
	}
	did := fmt.Sprintf("%v; read-only %v, system %v: %s", kind, readOnly, system, strings.Join(v.did, "; "))
	watched.begin(did)
	return did, hostileRun(kind, files, readOnly, system, seed)
}

func systemDir() string {
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		panic(err) // a failure of the test itself
	}
	return dir + "/db"
}

func (c *hostileCase) removeAll() {
	if err := os.RemoveAll(strings.TrimSuffix(c.dir, "/db")); err != nil {
		c.bad("%w", err)
	}
}
