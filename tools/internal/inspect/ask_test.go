package inspect_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// askedStore returns a store with 20,000 keys in one run, and newer versions and a delete in another.
func askedStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := bloomkv.Open(dir, &bloomkv.Options{
		FilterFPR: 0.05, FilterSeed: 1, TableSize: 64 << 10, Durability: bloomkv.DurabilityNoSync,
	})
	must(t, err)
	value, random := make([]byte, 20), rand.NewChaCha8([32]byte{1})
	for i := range 20_000 {
		_, _ = random.Read(value) // does not fail
		must(t, db.Put(fmt.Appendf(nil, "key/%06d", i), value))
	}
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	for i := range 500 {
		must(t, db.Put(fmt.Appendf(nil, "key/%06d", 40*i), nil))
	}
	must(t, db.Delete([]byte("key/000041")))
	must(t, db.Flush(t.Context()))
	must(t, db.Close())
	return dir
}

func TestAskFollowsAKeyThroughTheRuns(t *testing.T) {
	dir := askedStore(t)
	for key, want := range map[string][]string{ // what the tables of both runs have
		"key/000040": {"value", "value"}, "key/000041": {"delete", "value"}, "key/000042": {"nothing", "value"},
		"key/000042x": {"nothing", "nothing"}, "z": {"", ""},
	} {
		k, err := inspect.Ask(t.Context(), dir, []byte(key))
		must(t, err)
		var got []string
		for _, x := range k.Tables {
			got = append(got, x.Found)
		}
		if !slices.Equal(got, want) || k.Key != key {
			t.Errorf("key %q: %q, want %q", k.Key, got, want)
		}
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	must(t, err)
	must(t, os.Remove(slices.Max(tables))) // the newest
	k, err := inspect.Ask(t.Context(), dir, []byte("key/000040"))
	if !errors.Is(err, fs.ErrNotExist) || k == nil || len(k.Tables) != 2 || k.Tables[1].Found != "value" {
		t.Errorf("without a table: %+v, %v, want the error and what the other table has", k, err)
	}
	if _, err := inspect.Ask(t.Context(), t.TempDir(), []byte("a")); err == nil {
		t.Error("a directory without a store has no error")
	}
}

// TestARainFindsWhatTheBitsPredict compares the rain with the rate that is computed from the bits in memory.
func TestARainFindsWhatTheBitsPredict(t *testing.T) {
	s, err := inspect.ReadStore(t.Context(), askedStore(t), inspect.Options{Full: true})
	must(t, err)
	first, err := s.Rain().Fall(t.Context(), 7)
	must(t, err)
	again, err := s.Rain().Fall(t.Context(), 7)
	must(t, err)
	want := first.Predicted * float64(first.Drops)
	if len(s.Tables) < 5 {
		t.Fatalf("%d tables, want some beside each other", len(s.Tables))
	}
	if off := math.Abs(float64(first.Passed) - want); off > 5*math.Sqrt(want) || want < 100 || first.Unread > 0 {
		t.Errorf("%+v: %d passed, want about %.0f", first, first.Passed, want)
	}
	if first.Promised != 0.05 || first.Predicted != s.Tree.Predicted || first.Passed != again.Passed ||
		!slices.Equal(first.Through, again.Through) {
		t.Errorf("got %+v, and %+v from the same seed", first, again)
	}
	places := map[string]*inspect.Place{}
	for i := range s.Tables {
		places[s.Tables[i].File] = s.Tables[i].Place
	}
	for _, x := range first.Through {
		if p := places[x.File]; p == nil || x.At < p.From || x.At >= p.To {
			t.Errorf("%+v is let through by a table at %+v", x, p)
		}
	}
}
