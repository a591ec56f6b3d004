package deadkeys

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// report reports [lo, hi) as of seq.
func report(d *Ranges, lo, hi string, seq ikey.Seq) {
	d.Report([]byte(lo), []byte(hi), Reader{Seq: seq}, func() bool { return false })
}

func text(d *Ranges) string {
	var words []string
	if s := d.now.Load(); s != nil {
		for _, r := range s.ranges {
			hi := string(r.Hi)
			if bytes.Equal(r.Hi, Beyond) {
				hi = "∞"
			}
			words = append(words, fmt.Sprintf("%s-%s@%d", r.Lo, strings.ReplaceAll(hi, "\x00", "⁺"), r.since))
		}
	}
	return strings.ReplaceAll(strings.Join(words, " "), "\x00", "⁺")
}

func TestReportsJoinRangesAndPutsCutThem(t *testing.T) {
	for _, test := range []struct{ name, do, want string }{
		{"one", "b-d@5", "b-d@5"},
		{"an empty one and an inverted one", "b-b@5 d-c@5", ""},
		{"two that do not touch", "m-n@6 b-d@5", "b-d@5 m-n@6"},
		{"what touches is one from the later on", "b-d@5 f-h@7 d-f@6", "b-h@7"},
		{"what is known already changes nothing", "b-h@5 c-d@6", "b-h@5"},
		{"what reaches further is new", "b-h@5 c-k@6", "b-k@6"},
		{"a put cuts a range in two", "b-h@5 +d", "b-d@5 d⁺-h@5"},
		{"a put into a later range", "b-d@5 f-h@5 +g", "b-d@5 f-g@5 g⁺-h@5"},
		{"a put at the start", "b-h@5 +b", "b⁺-h@5"},
		{"a put at the end is outside", "b-h@5 +h", "b-h@5"},
		{"a range of one key", "b-b\x00@5 +b", ""},
		{"a gap is closed", "b-h@5 +d d-d\x00@9", "b-h@9"},
		{"without an end", "b-∞@5 +d", "b-d@5 d⁺-∞@5"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d Ranges
			for word := range strings.FieldsSeq(test.do) {
				switch word[0] {
				case '+':
					d.Put([]byte(word[1:]))
				default:
					lo, rest, _ := strings.Cut(word, "-")
					hi, number, _ := strings.Cut(rest, "@")
					if hi == "∞" {
						hi = string(Beyond) + "and longer"
					}
					report(&d, lo, hi, ikey.Seq(number[0]-'0'))
				}
			}
			if got := text(&d); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestAReportCountsOnlyIfNothingWasPutIntoItsRange(t *testing.T) {
	for _, test := range []struct {
		put   string
		found bool
		want  string
	}{
		{"", false, "b-d@5"},
		{"", true, ""},
		{"a", false, "b-d@5"},
		{"b", false, ""},
		{"c", false, ""},
		{"d", false, "b-d@5"},
	} {
		var d Ranges
		d.Report([]byte("x"), []byte("z"), Reader{Seq: 5}, func() bool {
			d.Report([]byte("b"), []byte("d"), Reader{Seq: 5}, func() bool {
				if got := text(&d); got != "" {
					t.Errorf("open reports are believed: %s", got)
				}
				if test.put != "" {
					d.Put([]byte(test.put))
				}
				return test.found
			})
			return true
		})
		if d.Len() == 0 && d.now.Load() != nil {
			t.Errorf("after a put of %q: nothing is left, and costs each put more than a load", test.put)
		}
		if got := text(&d); got != test.want {
			t.Errorf("after a put of %q, found %v: got %q, want %q", test.put, test.found, got, test.want)
		}
	}
}

func TestARangeIsForReadersOfItsMomentAndLater(t *testing.T) {
	var d Ranges
	report(&d, "b", "d", 5)
	d.Report([]byte("b"), []byte("d"), Reader{Seq: 6}, func() bool {
		t.Error("a range that is known is reported again")
		return false
	})
	for _, test := range []struct {
		by   Reader
		want bool
	}{{Reader{Seq: 4}, false}, {Reader{Seq: 5}, true}, {Reader{Seq: 6}, true}, {Reader{Seq: 6, Ingests: 1}, false}} {
		at, _ := d.At([]byte("b"), test.by)
		below, _ := d.Below([]byte("d"), test.by)
		if (at != nil) != test.want || (below != nil) != test.want {
			t.Errorf("%+v: at %v, below %v, want %v", test.by, at != nil, below != nil, test.want)
		}
	}
	if at, next := d.At([]byte("d"), Reader{Seq: 6}); at != nil || !bytes.Equal(next, Beyond) {
		t.Errorf("the end of a range is in %v, next is %q", at, next)
	}
	d.Report([]byte("k"), []byte("m"), Reader{Seq: 9, Ingests: 1}, func() bool { return false })
	report(&d, "x", "z", 9)
	if got, want := text(&d), "k-m@9"; got != want {
		t.Errorf("after an ingest: got %s, want %s", got, want)
	}
}

// TestRangesAgreeWithAModel compares with a set of dead keys, from one cursor's moment on.
func TestRangesAgreeWithAModel(t *testing.T) {
	testkit.Long(t)
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var d Ranges
		var since [256]ikey.Seq // of dead keys; 0 if not known to be dead
		key := func(i int) []byte { return []byte{byte(i)} }
		for seq := ikey.Seq(1); seq < 200; seq++ {
			lo, hi := rng.IntN(256), rng.IntN(256)
			if rng.IntN(2) == 0 {
				d.Put(key(lo))
				since[lo] = 0
			} else {
				report(&d, string(key(lo)), string(key(hi)), seq)
				for i := lo; i < hi; i++ {
					since[i] = seq // at the latest: a range that is known from before may stay as it is
				}
			}
			for i := range since {
				at, next := d.At(key(i), Reader{Seq: ikey.MaxSeq})
				below, before := d.Below(append(key(i), 0), Reader{Seq: ikey.MaxSeq})
				if (at != nil) != (since[i] > 0) || below != at {
					t.Fatalf("seed %d, seq %d: key %d in %v and %v, dead since %d", seed, seq, i, at, below, since[i])
				}
				if at == nil && i < 255 && bytes.Compare(next, key(i+1)) > 0 && since[i+1] > 0 {
					t.Fatalf("seed %d: no range from %d to %q, but key %d is dead", seed, i, next, i+1)
				}
				if at == nil && i > 0 && bytes.Compare(before, key(i)) < 0 && since[i-1] > 0 {
					t.Fatalf("seed %d: no range from %d down to %q, but key %d is dead", seed, i, before, i-1)
				}
			}
		}
	}
}

func TestTheMemoryOfRangesIsBoundedAndMoreAreForgottenGradually(t *testing.T) {
	var d Ranges
	key := func(i int) string { return fmt.Sprintf("%016d", i) }
	added := 0
	for ; added < 8000; added++ {
		report(&d, key(2*added), key(2*added+1), 5)
		if d.Bytes() > maxBytes {
			t.Fatalf("%d ranges take %d bytes, want at most %d", d.Len(), d.Bytes(), maxBytes)
		}
	}
	n := d.Len()
	if n < 2000 {
		t.Errorf("%d ranges are remembered, want at least 2000", n)
	}
	older := 0
	for i := range added - n {
		if at, _ := d.At([]byte(key(2*i)), Reader{Seq: 5}); at != nil {
			older++
		}
	}
	if older < n/4 || older > 3*n/4 {
		t.Errorf("%d of %d ranges are older than the last %d reports, want about half", older, n, n)
	}
}

func TestTheLongestKeysAreRemembered(t *testing.T) {
	var d Ranges
	lo, hi := strings.Repeat("x", batch.MaxKey), strings.Repeat("y", batch.MaxKey)
	for range 3 {
		report(&d, lo, hi, 5)
	}
	if d.Len() != 1 || d.Bytes() < 2*batch.MaxKey || d.Bytes() > 2*batch.MaxKey+100 {
		t.Errorf("%d ranges of %d bytes, want 1 of the bytes of two keys", d.Len(), d.Bytes())
	}
	for _, lo := range []string{"a", "c"} { // two more that are a little shorter: one is forgotten
		report(&d, strings.Repeat(lo, batch.MaxKey-100), strings.Repeat(lo+"z", batch.MaxKey/2-50), 5)
	}
	if d.Len() != 2 {
		t.Errorf("%d ranges of nearly the longest keys are remembered, want 2", d.Len())
	}
	if grown, more := d.Grown(), d.Grown(); grown != d.Bytes() || more != 0 {
		t.Errorf("the ranges have grown by %d bytes, and then by %d, to %d", grown, more, d.Bytes())
	}
	d = Ranges{}
	d.put([]byte("a")) // as if another put had taken the last range meanwhile
	if d.Step(2); d.Len() != 0 || d.Bytes() != 0 || d.Stepped() != 2 {
		t.Errorf("%d ranges of %d bytes, %d steps; want none, and 2", d.Len(), d.Bytes(), d.Stepped())
	}
	report(&d, "a", string(Beyond), 5)
	if d.Bytes() > 100 {
		t.Errorf("a range without an end takes %d bytes", d.Bytes())
	}
}
