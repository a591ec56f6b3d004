package sstable

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// TestFiltersAreAskedInTheirFiles asks filters of all kinds of which nothing is in memory: no key of the table is
// denied, absent keys pass at the promised rate, and each answer takes as many pages as the filter has steps.
func TestFiltersAreAskedInTheirFiles(t *testing.T) {
	testkit.Long(t)
	ribbon, err := bloomblock.ParamsRibbon(0.01)
	must(t, err)
	split, err := bloomblock.ParamsSplit(3, 0.01)
	must(t, err)
	for _, c := range []struct {
		name   string
		params bloomblock.Params
		keys   int
		steps  int
	}{
		{"one unit of many pages", filterParams(t, 0.01), 20_000, 1},
		{"one page", filterParams(t, 0.01), 500, 1},
		{"three units side by side", split.SideBySide(), 40_000, 1},
		{"three units one behind the other", split, 20_000, 3},
		{"a Ribbon", ribbon, 20_000, 1},
	} {
		var kvs []kv
		for i := range c.keys {
			kvs = append(kvs, set(fmt.Sprintf("key%06d", i), 0, "v"))
		}
		file, info := build(t, WriterOptions{ID: 1, Filter: c.params}, kvs)
		r := newReader(file, info, 1<<20)
		must(t, r.LoadTail())
		ask := func(key string) (bool, Stats) {
			t.Helper()
			var st Stats
			maybe, asked, err := r.AskFile(bloomblock.HashKey([]byte(key)), &st)
			if err != nil || !asked {
				t.Fatalf("%s: asked %v, %v", c.name, asked, err)
			}
			return maybe, st
		}
		if _, asked, err := r.AskFile(1, new(Stats)); asked || err != nil {
			t.Fatalf("%s: asked before AskInFile: %v", c.name, err)
		}
		r.AskInFile(true)
		for _, v := range kvs {
			maybe, st := ask(v.key)
			if !maybe || st.FilterParts != uint64(c.steps) {
				t.Fatalf("%s: %v for %q in %d pages, want maybe in %d", c.name, maybe, v.key, st.FilterParts, c.steps)
			}
		}
		wrong, pages := 0, uint64(0)
		const absent = 20_000
		for i := range absent {
			maybe, st := ask(fmt.Sprintf("absent%06d", i))
			if maybe {
				wrong++
			}
			pages += st.FilterParts
		}
		if wrong > absent*13/1000 || pages < absent || pages > absent*13/10 { // a unit lets 0.21 through, two 0.05
			t.Errorf("%s: %d of %d absent keys pass, in %d pages", c.name, wrong, absent, pages)
		}
		if n := testing.AllocsPerRun(100, func() {
			_, _, _ = r.AskFile(12345, new(Stats))
		}); n > 0 && !testkit.RaceEnabled {
			t.Errorf("%s: %v allocations for an answer", c.name, n)
		}
		r.AskInFile(false)
		if _, asked, _ := r.AskFile(1, new(Stats)); asked {
			t.Errorf("%s: asked after AskInFile(false)", c.name)
		}
	}
}

// TestUnitsInMemoryAreNotAskedInTheFile has each form of filters in memory, and counts the pages that are asked for the
// keys that it lets through: as many as the form says. A key of the table is asked in each unit that is not whole.
func TestUnitsInMemoryAreNotAskedInTheFile(t *testing.T) {
	testkit.Long(t)
	split, err := bloomblock.ParamsSplit(3, 0.01)
	must(t, err)
	kvs := numbers(0, 20_000)
	for name, p := range map[string]bloomblock.Params{"in a row": split, "side by side": split.SideBySide()} {
		file, info := build(t, WriterOptions{ID: 1, Filter: p}, kvs)
		r := newReader(file, info, 1<<20)
		must(t, r.LoadTail())
		forms := r.Keys.Forms(0)
		for _, form := range forms[:len(forms)-1] { // the last one is all of the filter
			_, err := r.Keys.Set(form)
			must(t, err)
			r.AskInFile(true)
			ask := func(h bloomblock.Hash) (maybe bool, pages uint64) {
				var st Stats
				maybe, _, err := r.AskFile(h, &st)
				must(t, err)
				return maybe, st.FilterParts
			}
			want := uint64(1)
			if name == "in a row" {
				want = 3
				for i := range 3 {
					if form.HasWhole(i) {
						want--
					}
				}
			}
			for _, v := range kvs[:100] {
				if maybe, pages := ask(bloomblock.HashKey([]byte(v.key))); !maybe || pages != want {
					t.Fatalf("%s, %+v: %v for %q in %d pages, want maybe in %d", name, form, maybe, v.key, pages, want)
				}
			}
			passed, asked := 0, uint64(0)
			for i := range uint64(100_000) {
				h := bloomblock.Hash(i * 0x9e3779b97f4a7c15)
				if maybe, _ := r.Keys.MayContain(h); maybe {
					_, pages := ask(h)
					passed, asked = passed+1, asked+pages
				}
			}
			if got := float64(asked) / float64(passed); math.Abs(got-1-form.MorePages) > 0.02 {
				t.Errorf("%s, %+v: %.3f pages for a key that passes, want %.3f", name, form, got, 1+form.MorePages)
			}
		}
	}
}

// TestACopyOfAFilterHasTheUnitsItNeeds copies filters whose units stand one behind the other, and side by side.
func TestACopyOfAFilterHasTheUnitsItNeeds(t *testing.T) {
	split, err := bloomblock.ParamsSplit(3, 0.01)
	must(t, err)
	kvs := numbers(0, 20_000)
	for name, p := range map[string]bloomblock.Params{"in a row": split, "side by side": split.SideBySide()} {
		file, info := build(t, WriterOptions{ID: 1, Filter: p}, kvs)
		c, err := newReader(file, info, 0).CopyFilter(0)
		must(t, errors.Join(err, c.Damage))
		if want := bloomblock.HeaderSize + c.Header.UnitsSize(); len(c.Units) != 3 || c.Read != want {
			t.Errorf("%s: %d units in %d bytes, want 3 in %d", name, len(c.Units), c.Read, want)
		}
		f, err := c.Header.Filter(c.Units)
		must(t, err)
		for _, v := range kvs {
			if !f.MayContain(bloomblock.HashKey([]byte(v.key))) {
				t.Fatalf("%s: the copy denies %s", name, v.key)
			}
		}
		if f.MayContain(1) && f.MayContain(2) && f.MayContain(3) && f.MayContain(4) {
			t.Errorf("%s: the copy denies nothing", name)
		}
	}
}

// TestADamagedPageOfAFilterDeniesNoKey flips bytes of a filter that is asked in its file.
func TestADamagedPageOfAFilterDeniesNoKey(t *testing.T) {
	split, err := bloomblock.ParamsSplit(3, 0.01)
	must(t, err)
	var kvs []kv
	for i := range 20_000 {
		kvs = append(kvs, set(fmt.Sprintf("key%06d", i), 0, "v"))
	}
	file, info := build(t, WriterOptions{ID: 1, Filter: split.SideBySide()}, kvs)
	for at := info.filterOff(); at < info.filterOff()+info.FilterLen; at += info.FilterLen/97 + 1 {
		file[at] ^= 0x5a
		r := newReader(file, info, 1<<20)
		must(t, r.LoadTail())
		r.AskInFile(true)
		want, damaged := 1, 0
		if r.Keys.State().Damage != nil {
			want = 0 // of the header, which is not asked
		}
		for _, v := range kvs {
			maybe, asked, err := r.AskFile(bloomblock.HashKey([]byte(v.key)), new(Stats))
			if errors.Is(err, corrupt.Err) && !asked {
				damaged++
			} else if err != nil {
				t.Fatalf("byte %d: asked %v, %v for %q", at, asked, err, v.key)
			}
			if !maybe {
				t.Fatalf("byte %d: %q is denied", at, v.key)
			}
		}
		if damage := r.Keys.State().Damage; !errors.Is(damage, corrupt.Err) || damaged != want {
			t.Errorf("byte %d: damage %v, returned %d times, want %d", at, damage, damaged, want)
		}
		file[at] ^= 0x5a
	}
}

// TestAFilterInAFileThatCannotBeReadIsAnError checks that the next lookup tries again.
func TestAFilterInAFileThatCannotBeReadIsAnError(t *testing.T) {
	var kvs []kv
	for i := range 20_000 {
		kvs = append(kvs, set(fmt.Sprintf("key%06d", i), 0, "v"))
	}
	file, info := build(t, WriterOptions{ID: 1, Filter: filterParams(t, 0.01)}, kvs)
	r := newReader(file, info, 1<<20)
	must(t, r.LoadTail())
	r.AskInFile(true)
	f := &failing{ReaderAt: bytes.NewReader(file), on: true}
	r.file, r.mapped = f, nil
	if maybe, _, err := r.AskFile(7, new(Stats)); !maybe || !errors.Is(err, errDisk) {
		t.Errorf("%v, %v; want maybe and the error of the file", maybe, err)
	}
	f.on = false
	h := bloomblock.HashKey([]byte(kvs[3].key))
	if maybe, asked, err := r.AskFile(h, new(Stats)); !maybe || !asked || err != nil {
		t.Errorf("tried again: %v, asked %v, %v", maybe, asked, err)
	}
}
