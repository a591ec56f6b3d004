//go:build schedule

package schedules

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var (
	count  = flag.Uint64("schedules", 300, "how many schedules")
	first  = flag.Uint64("seed", 1, "the seed of the first schedule")
	kind   = flag.Uint("kind", 0, "0: mixed schedules, 1: by random priorities, 2: uniformly at random")
	within = flag.Duration("within", 0, "run schedules for that long, whatever their number")
	canary = flag.Bool("canary", false, "put a mistake of depth two into the programs, which must be found")
	log    = flag.Bool("moments", false, "print each moment of a schedule with an error, or else their numbers by name")
)

func TestMain(m *testing.M) { storetest.Main(m) }

// schedule runs the program and the schedule of a seed.
func schedule(seed uint64, log bool) (*program, step.Trace) {
	p := newProgram(seed)
	p.canary = *canary
	return p, step.Run(step.Schedule{Seed: seed, Kind: step.Kind(*kind), Log: log}, p.run)
}

func TestProgramsSeeWhatAStoreShows(t *testing.T) {
	counts, began := map[string]int{}, time.Now()
	done, all := uint64(0), 0
	for more := true; more; done++ {
		seed := *first + done
		p, trace := schedule(seed, *log)
		if err := errors.Join(append(p.errs, trace.Err)...); err != nil {
			if *canary {
				t.Logf("found by schedule %d after %.1f s", done+1, time.Since(began).Seconds())
				return
			}
			t.Fatalf("-seed %d: %v\n%s\n%s", seed, err, list(p.calls), strings.Join(trace.Lines, "\n"))
		}
		for name, n := range trace.Counts {
			counts[name] += n
		}
		all += trace.Moments
		more = done+1 < *count
		if *within > 0 {
			more = time.Since(began) < *within
		}
	}
	if *canary {
		t.Fatalf("the canary was not found in %d schedules", done)
	}
	t.Logf("%d schedules, %d moments each, %.0f schedules a second", done, all/int(done),
		float64(done)/time.Since(began).Seconds())
	if *log {
		fmt.Fprintln(os.Stderr, counts)
	}
	if done >= 300 {
		for _, name := range moments(t) {
			if counts[name] == 0 {
				t.Errorf("no schedule of %d has passed %q", done, name)
			}
		}
	}
}

// moments returns the names of all moments of the store.
func moments(t *testing.T) (names []string) {
	t.Helper()
	at := regexp.MustCompile(`step\.At\("([^"]+)"\)`)
	testkit.Must(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		others := []string{".git", "tests", "tools", "bench", "replica"}
		if err == nil && d.IsDir() && slices.Contains(others, d.Name()) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range at.FindAllSubmatch(source, -1) {
			names = append(names, string(m[1]))
		}
		return err
	}))
	if len(names) < 30 {
		t.Fatalf("the sources name only %d moments", len(names))
	}
	return names
}

func TestSchedulesOfStoresAreEqualForEqualSeeds(t *testing.T) {
	for seed := *first; seed < *first+300; seed++ {
		_, a := schedule(seed, true)
		_, b := schedule(seed, true)
		if a.Sum != b.Sum {
			i := 0
			for i < min(len(a.Lines), len(b.Lines))-1 && a.Lines[i] == b.Lines[i] {
				i++
			}
			t.Errorf("seed %d: moment %d is %q and %q", seed, i, a.Lines[i], b.Lines[i])
		}
	}
}
