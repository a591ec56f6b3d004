package main

import (
	"bytes"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/workload"
)

func TestScaleMeasuresEachPoint(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	threeProcessors(t)
	var r scaleReport
	runJSON(t, &r, "scale", "--json", "--keys=5000", "--ops=1000", "--rounds=3", "--workers=1,2,3", "--memory=64")
	if r.Keys != 5000 || r.Rounds != 3 || r.Tables != 1 || len(r.Checks) != 2 || r.LeastScaling != leastScaling {
		t.Errorf("%+v", r)
	}
	if r.Checks[0].Ops != 4999 || r.Checks[1].Ops != 5000 {
		t.Errorf("%d absent and %d present keys checked", r.Checks[0].Ops, r.Checks[1].Ops)
	}
	var got []string
	for _, p := range r.Points {
		got = append(got, p.Lookup+" "+p.Chain+" "+string(rune('0'+p.Goroutines)))
		if p.StoreNs <= 0 || p.PrivateNs <= 0 || p.Ratio < p.Least || p.Ratio > p.Most || p.Wrong != 0 {
			t.Errorf("%+v", p)
		}
		if p.Goroutines == 1 && (p.StoreScaling != 1 || p.PrivateScaling != 1 || p.Ratio != 1) {
			t.Errorf("on one goroutine: %+v", p)
		}
		if judged := p.Goroutines > 1 && p.Undisturbed >= leastUndisturbed; judged != (p.Met != nil) || judged &&
			*p.Met != (p.Ratio >= leastScaling) {
			t.Errorf("judged: %+v", p)
		}
		if least, reads := int64(5000*100), 1+presentLines; p.Lookup == "present" &&
			(p.PrivateBytes < least || p.PrivateReads != reads) {
			t.Errorf("private work for present keys: %d bytes, %d reads; want at least %d, and %d",
				p.PrivateBytes, p.PrivateReads, least, reads)
		}
		if p.Lookup == "absent" && (p.PrivateBytes < 5000 || p.PrivateBytes > 10_000 || p.PrivateReads != 1) {
			t.Errorf("private work for absent keys: %d bytes, %d reads", p.PrivateBytes, p.PrivateReads)
		}
	}
	want := strings.Fields("" +
		"absent,chained,1 absent,chained,2 absent,chained,3 absent,free,1 absent,free,2 absent,free,3 " +
		"present,chained,1 present,chained,2 present,chained,3 present,free,1 present,free,2 present,free,3")
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], ",", " ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("points %q, want %q", got, want)
	}
	leftNothing(t, os.Getenv("TMPDIR"))
}

// threeProcessors lets three goroutines run at the same time, or at least take turns.
func threeProcessors(t *testing.T) {
	t.Helper()
	before := runtime.GOMAXPROCS(3)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func TestScalePrintsAPage(t *testing.T) {
	var out bytes.Buffer
	args := []string{"scale", "--keys=2000", "--ops=1000", "--rounds=1", "--workers=1", "--memory=64"}
	must(t, execute(t.Context(), args, &cli.Streams{Out: &out, Err: &out}))
	for _, want := range []string{
		"2000 random keys, values of 100 bytes, in 1 tables", "absent, chained", "present, free",
		"\nBenchmarkabsent/chained/goroutines=1 1 ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestScalingIsComputedWithinRounds(t *testing.T) {
	p := scalePoint{Goroutines: 2}
	one := [2][]float64{{100, 200, 100}, {50, 100, 50}}
	two := [2][]float64{{50, 100, 100}, {25, 100, 25}}
	p.fill(one, two)
	if p.StoreScaling != 1 || p.PrivateScaling != 1 || p.Ratio != 1 || p.Least != 0.5 || p.Most != 2 ||
		p.StoreNs != 100 || p.PrivateNs != 25 {
		t.Errorf("%+v", p)
	}
}

func TestABusyMachineIsNotJudged(t *testing.T) {
	one, two := [2][]float64{{100}, {50}}, [2][]float64{{50}, {25}}
	r := scaleReport{LeastScaling: leastScaling}
	for _, undisturbed := range []float64{0.99, 0.5} {
		p := scalePoint{Goroutines: 2, Undisturbed: undisturbed}
		p.fill(one, two)
		r.Points = append(r.Points, p)
	}
	slow := scalePoint{Goroutines: 2, Undisturbed: 0.99}
	slow.fill(one, [2][]float64{{55}, {25}})
	r.Points = append(r.Points, slow)
	var got []string
	for _, row := range r.points().rows {
		got = append(got, row[len(row)-2])
	}
	if want := []string{"≥ 0.95: met", "machine busy", "≥ 0.95: not met"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEachWorkerOfATeamAsksForOtherKeys(t *testing.T) {
	set := testSet(t, workload.Random, 3000)
	store := testStore(t, set)
	w := scale{terms: newTerms(&cli.Streams{}), goroutines: counts{1, 3}}
	all := w.newTeam(store.DB, set, series{bytes: 64 * 100, reads: 2, chain: chain{want: true}})
	gets := store.Metrics().Lookups.Gets
	got, err := all.together(0, 1000, func(h *worker) question { return h.store.ask })
	if err != nil || got.others != 0 || got.ns <= 0 || got.undisturbed <= 0 || got.undisturbed > 1.01 {
		t.Errorf("%+v, %v", got, err)
	}
	if n := store.Metrics().Lookups.Gets - gets; n != 3000 {
		t.Errorf("%d lookups, want 3000", n)
	}
	for i, h := range all {
		if h.store.length != 1000*20 {
			t.Errorf("worker %d read values of %d bytes, want %d", i, h.store.length, 1000*20)
		}
		if i > 0 && bytes.Equal(h.keys.bytes, all[i-1].keys.bytes) {
			t.Errorf("workers %d and %d ask for the same keys", i-1, i)
		}
	}
	if got, err = all.together(0, 1000, func(h *worker) question { return h.private.ask }); err != nil ||
		got.others != 0 {
		t.Errorf("private work: %+v, %v", got, err)
	}
	got, err = all.together(0, 1000, func(*worker) question { return chain{}.asking })
	if err != nil || got.others != 3*500 {
		t.Errorf("where nothing is there: %+v, %v, want 1500 other answers", got, err)
	}
}

func TestTimeOnSeveralGoroutinesIsThatOfAllTheirLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that the time is that of the naps alone
		set := testSet(t, workload.Random, 3000)
		w := scale{terms: newTerms(&cli.Streams{}), goroutines: counts{1, 3}}
		all := w.newTeam(nil, set, series{chain: chain{free: true, want: true}})
		const nap, ops = 50 * time.Millisecond, 1000
		got, err := all.together(0, ops, func(*worker) question {
			asked := 0
			return func([]byte) bool {
				if asked++; asked == 1 {
					time.Sleep(nap)
				}
				return true
			}
		})
		if least := float64(nap) / ops / 3; err != nil || got.ns != least || got.undisturbed < 0.3 {
			t.Errorf("%+v, %v; want %v ns", got, err, least)
		}
		got, err = all.together(0, 4*chunkKeys, func(h *worker) question {
			asked := 0
			return func([]byte) bool {
				if asked++; asked == 1 && h == all[0] {
					time.Sleep(nap)
				}
				return true
			}
		})
		if err != nil || got.undisturbed > 0.5 {
			t.Errorf("with one worker asleep in one chunk: %+v, %v", got, err)
		}
	})
}

func TestAWrongAnswerOfAPointIsSeen(t *testing.T) {
	set := testSet(t, workload.Random, 3000)
	store := testStore(t, set)
	must(t, store.Put(set.AppendAbsent(nil, 17), []byte("here")))
	w := scale{terms: newTerms(&cli.Streams{}), goroutines: counts{1, 2}, ops: set.Absents()}
	w.rounds = 2
	points, err := w.measureSeries(t.Context(), store.DB, set, series{absent: true, bytes: 6400, reads: 1})
	must(t, err)
	for i, want := range []int{2, 4} {
		if points[i].Wrong != want {
			t.Errorf("%d goroutines: %d wrong answers in two rounds, want %d",
				points[i].Goroutines, points[i].Wrong, want)
		}
	}
}

func TestPrivateWorkReadsAllOfItsMemory(t *testing.T) {
	const lines, reads = 50, 3
	p := newPrivate(series{bytes: lines * 64, reads: reads})
	if len(p.memory) != lines*64 || p.ask([]byte("key")) {
		t.Errorf("%d bytes", len(p.memory))
	}
	// A zero on a line is read by about reads/lines of the keys, and changes the position of the next read.
	touched := make(map[uint64]bool)
	for line := range uint64(lines) {
		clear(p.memory[line*64 : line*64+64])
		p.want = true
		for i := range 2000 {
			q := p
			q.reads = 1
			if !q.ask([]byte{byte(i), byte(i >> 8)}) {
				touched[line] = true
			}
		}
		for i := range p.memory {
			p.memory[i] = 1
		}
	}
	if len(touched) != lines {
		t.Errorf("%d of %d lines are read", len(touched), lines)
	}
	if small := newPrivate(series{bytes: 3, reads: 1}); len(small.memory) != 64 {
		t.Errorf("%d bytes, want one line", len(small.memory))
	}
}

func TestGoroutinesDoubleUpToTheProcessors(t *testing.T) {
	for n, want := range map[int]string{1: "1", 2: "1,2", 3: "1,2,3", 8: "1,2,4,8", 12: "1,2,4,8,12"} {
		c := oneTwoFour(n)
		if got := c.String(); got != want {
			t.Errorf("%d processors: %s, want %s", n, got, want)
		}
	}
	if math.MaxInt32 < mostPairs {
		t.Error("counts do not fit where int has 32 bits")
	}
}
