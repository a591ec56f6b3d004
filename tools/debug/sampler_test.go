package debug

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestTheHistoryHasTheNewestSamples(t *testing.T) {
	s := newSampler(nil, time.Second)
	for i := range mostSamples + 100 {
		_, news := s.state()
		for range 2 { // the second time nothing is new
			s.publish(&Sample{FPRAsked: float64(i)}, new(bloomkv.Metrics))
		}
		if latest, _ := s.state(); latest.number != uint64(i+1) {
			t.Fatalf("sample %d is event %d", i+1, latest.number)
		}
		select {
		case <-news:
		default:
			t.Fatalf("sample %d woke no viewer", i+1)
		}
	}
	all := s.history()
	if n := len(all); n != mostSamples || all[0].FPRAsked != 100 || all[n-1].FPRAsked != mostSamples+99 {
		t.Errorf("%d samples, want the newest %d", n, mostSamples)
	}
	all[0].FPRAsked = -1
	if again := s.history(); again[0].FPRAsked != 100 {
		t.Error("the history that was returned is that of the sampler")
	}
}

// TestTheLastMinuteBeginsWithTheOldestLookInIt samples a store by the clock of a synctest bubble.
func TestTheLastMinuteBeginsWithTheOldestLookInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := bloomkv.Open("db", storetest.Small(vfstest.NewMem()))
		testkit.Must(t, err)
		s := newSampler(db, 20*time.Second) // four looks at most are kept
		began := time.Now()
		for i, c := range []struct{ at, now, minute time.Duration }{
			{0, 0, 0},
			{20, 20, 20},
			{29, 20, 20}, // the last look is too young for another one
			{30, 10, 30},
			{50, 20, 50},
			{80, 30, 60},
			{91, 11, 41}, // the looks at 20 and 30 are older than a minute
			{200, 109, 109},
			{210, 10, 10},
			{220, 10, 20},
			{230, 10, 30},
			{240, 10, 40},
			{250, 10, 40},
			{260, 10, 40},
		} {
			time.Sleep(time.Until(began.Add(c.at * time.Second)))
			s.sample(10 * time.Second)
			all := s.history()
			got := all[len(all)-1]
			if got.Now.Span != c.now*time.Second || got.LastMinute.Span != c.minute*time.Second {
				t.Errorf("after %d s: since %v and %v, want %d s and %d s", c.at, got.Now.Span, got.LastMinute.Span,
					c.now, c.minute)
			}
			for range i + 1 { // so that the next look has something new
				testkit.Must(t, db.Put([]byte("k"), nil))
			}
		}
		testkit.Must(t, db.Close())
	})
}

// TestSamplesAreKeptWithoutViewers uses the clock of a synctest bubble, which ends only if the goroutine does.
func TestSamplesAreKeptWithoutViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := bloomkv.Open("db", storetest.Small(vfstest.NewMem()))
		testkit.Must(t, err)
		s := newSampler(db, time.Second)
		go s.run()
		for i := range 10 {
			synctest.Wait()
			for range i + 1 { // so that each sample has something new
				testkit.Must(t, db.Put([]byte("k"), nil))
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := len(s.history()); n < 10 || n > 11 {
			t.Errorf("%d samples in ten seconds, want one in each", n)
		}
		testkit.Must(t, db.Close())
		time.Sleep(time.Second)
		synctest.Wait()
		if latest, _ := s.state(); !latest.closed {
			t.Error("the sampler goes on after Close")
		}
	})
}

func TestAnImportIsAnotherTree(t *testing.T) {
	written := func(keys int) *bloomkv.DB {
		db, err := bloomkv.Open("db", storetest.Small(vfstest.NewMem()))
		testkit.Must(t, err)
		t.Cleanup(func() { testkit.Must(t, db.Close()) })
		for i := range keys {
			testkit.Must(t, db.Put(fmt.Appendf(nil, "%03d", i), nil))
		}
		testkit.Must(t, db.Flush(t.Context()))
		return db
	}
	db := written(1)
	x, err := written(100).Export(t.Context(), bloomkv.ExportOptions{})
	testkit.Must(t, err)
	var sent bytes.Buffer
	_, err = x.WriteTo(&sent)
	testkit.Must(t, errors.Join(err, x.Close()))

	s := newSampler(db, time.Second)
	s.sample(0)
	before, _ := s.state()
	testkit.Must(t, db.Import(t.Context(), &sent, bloomkv.ImportOptions{Replace: true}))
	s.sample(0)
	if after, _ := s.state(); after.trees == before.trees {
		t.Errorf("after an import it is still tree %d", after.trees)
	}
}
