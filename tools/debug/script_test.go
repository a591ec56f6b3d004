package debug

import (
	"bytes"
	_ "embed" // the document for the script
	"encoding/json"
	"math"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

//go:embed testdata/page.js
var scriptPage string

// shown is the text of the page after the script has run.
type shown struct {
	State     string
	Memory    string
	Work, Log []string
	Rows      []struct {
		Now, Minute string
		Lines       []string
	}
}

// TestTheScriptShowsWhatThePageShows gives samples with random figures to the script, if there is a node to run it, and
// compares what it shows with the page that the handler makes of the same samples.
func TestTheScriptShowsWhatThePageShows(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node to run the script")
	}
	var samples []Sample
	var events []string
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range mostSamples + 20 { // more than are kept
		s := randomSample(rng)
		s.Time = time.Date(2026, 1, 2, 3, 4, 5+i, 678, time.UTC)
		if i == mostSamples+19 { // the last one
			s.FPRAsked, s.FPRPromised, s.Reads = 0.01, 0.01, 0.5678
			s.BudgetNeeded, s.Memory.Budget = 1500<<20, 64<<20
		}
		data, err := json.Marshal(s)
		testkit.Must(t, err)
		samples, events = append(samples, s), append(events, string(data))
	}
	type dataset struct {
		Path   string `json:"path"`
		Minute string `json:"minute"`
		Kind   string `json:"kind"`
		Lines  []int  `json:"lines"`
	}
	var input struct {
		Rows    []dataset `json:"rows"`
		Script  string    `json:"script"`
		Samples []string  `json:"samples"`
	}
	for i, r := range rows {
		d := dataset{r.Path, r.Minute, r.Kind, []int{}}
		if r.Drawn {
			d.Lines = append(d.Lines, 0)
		}
		if i == promiseRow {
			d.Lines = append(d.Lines, 1)
		}
		input.Rows = append(input.Rows, d)
	}
	input.Script, input.Samples = liveScript, events
	b, err := json.Marshal(input)
	testkit.Must(t, err)
	command := exec.CommandContext(t.Context(), node, "-e", scriptPage)
	var errs bytes.Buffer
	command.Stdin, command.Stderr = bytes.NewReader(b), &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	var got struct {
		Lost         string
		Last, Closed shown
	}
	testkit.Must(t, json.Unmarshal(out, &got))

	samples = samples[len(samples)-mostSamples:]
	latest := &samples[mostSamples-1]
	m := bloomkv.Metrics{Levels: []bloomkv.LevelMetrics{}, Settled: latest.Settled, Warm: latest.Warm}
	if want := stateOf(&m); got.Last.State != want || got.Lost == want {
		t.Errorf("the state is %q, and %q without a connection; want %q", got.Last.State, got.Lost, want)
	}
	if want := stateOf(new(bloomkv.Metrics)); got.Closed.State != want || len(got.Closed.Work) > 0 {
		t.Errorf("of a closed store: %q, work %q; want %q", got.Closed.State, got.Closed.Work, want)
	}
	if want := shortage(latest); got.Last.Memory != want || want == "" {
		t.Errorf("memory %q, want %q", got.Last.Memory, want)
	}
	if want := inProgress(&latest.Work); !slices.Equal(got.Last.Work, want) {
		t.Errorf("work  %q\nwant %q", got.Last.Work, want)
	}
	if want := logOf(samples); !slices.Equal(got.Last.Log, want) {
		t.Errorf("log  %q\nwant %q", got.Last.Log, want)
	}
	for i := range rows {
		v, row := viewOf(i, samples), got.Last.Rows[i]
		if v.LastMinute == "–" {
			v.LastMinute = "" // the script leaves the cell as it is
		}
		if row.Now != v.Now || row.Minute != v.LastMinute {
			t.Errorf("%s: %q and %q, want %q and %q", v.Name, row.Now, row.Minute, v.Now, v.LastMinute)
		}
		want := []string{}
		for _, line := range []string{v.Line, v.Promise} {
			if line != "" {
				want = append(want, line)
			}
		}
		if !slices.Equal(row.Lines, want) {
			t.Errorf("%s: lines %q\nwant %q", v.Name, row.Lines, want)
		}
	}
}

// randomSample returns a sample whose figures are of all magnitudes, and some of them 0.
func randomSample(rng *rand.Rand) (s Sample) {
	figure := func(least, most float64) float64 {
		if rng.IntN(5) == 0 {
			return 0
		}
		return math.Pow(10, least+rng.Float64()*(most-least))
	}
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				return
			}
			for _, field := range v.Fields() {
				fill(field)
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), rng.IntN(3), 3))
			for i := range v.Len() {
				fill(v.Index(i))
			}
		case reflect.Float64:
			v.SetFloat(figure(-8, 8))
		case reflect.Uint64:
			v.SetUint(uint64(figure(0, 12)))
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(figure(0, 4)))
		case reflect.Bool:
			v.SetBool(rng.IntN(2) == 0)
		default:
		}
	}
	fill(reflect.ValueOf(&s).Elem())
	return s
}
