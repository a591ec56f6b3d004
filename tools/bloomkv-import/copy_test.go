package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
)

var errBroken = errors.New("broken")

// A fakeSource has numbered pairs. At pair 1000 it calls halfway.
type fakeSource struct {
	halfway          func() error
	broken, unclosed error // after the last pair, and of close
}

func (f fakeSource) each(_ *losses, add func(bloomkv.KV) error) error {
	for i := range 2000 {
		var err error
		if i == 1000 && f.halfway != nil {
			err = f.halfway()
		}
		if err == nil {
			err = add(bloomkv.KV{Key: fmt.Appendf(nil, "%04d", i), Value: make([]byte, 1000)})
		}
		if err != nil {
			return err
		}
	}
	return f.broken
}

func (f fakeSource) Close() error { return f.unclosed }

// fakes are stores with one source each. The process that reads knows them by their names.
var fakes = []store{
	fake("fine", fakeSource{}),
	fake("an error", fakeSource{halfway: func() error { return errBroken }}),
	fake("a panic", fakeSource{halfway: func() error { panic("oh") }}),
	fake("a panic elsewhere", fakeSource{halfway: func() error { go panic("oh"); select {} }}),
	fake("an exit", fakeSource{halfway: func() error { os.Exit(0); return nil }}),
	fake("an error at the end", fakeSource{broken: errBroken}),
	fake("a close that fails", fakeSource{unclosed: errBroken}),
	fake("a wait", fakeSource{halfway: func() error { time.Sleep(time.Hour); return nil }}),
}

func fake(name string, f fakeSource) store {
	return store{name: name, open: func(string) (source, error) { return f, nil }}
}

func TestACopyThatFailsLeavesNothing(t *testing.T) {
	const gaveUp = "path: damaged, or written by a later version: its library gave up: "
	for _, c := range []struct{ fake, want string }{
		{"an error", "path: broken"},
		{"a panic", gaveUp + "panic: oh"},
		{"a panic elsewhere", gaveUp + "panic: oh"},
		{"an exit", gaveUp + "unexpected EOF"},
		{"an error at the end", "path: broken"},
		{"a close that fails", "path: broken"},
		{"a wait", context.Canceled.Error()},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		parent := t.TempDir()
		a := &app{cli.Streams{Err: &bytes.Buffer{}}}
		if c.fake == "a wait" {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
		_, err := a.copyStore(ctx, store{name: c.fake}, "path", filepath.Join(parent, "new"))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.fake, err, c.want)
		}
		checkNothingLeft(t, parent)
		cancel()
	}
}

func TestTwoCopiesToOneNameLeaveOne(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "new")
	results := make(chan error)
	for range 2 {
		go func() {
			a := &app{cli.Streams{Err: &bytes.Buffer{}}}
			_, err := a.copyStore(t.Context(), store{name: "fine"}, "path", dir)
			results <- err
		}()
	}
	first, second := <-results, <-results
	if failed := cmp.Or(first, second); (first == nil) == (second == nil) ||
		!strings.Contains(failed.Error(), "exists") {
		t.Errorf("got %v and %v, want one success", first, second)
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 1 || len(stored(t, dir)) != 2000 {
		t.Errorf("%v, %v; want one store", entries, err)
	}
}

func TestFiguresDifferWhereSequencesDo(t *testing.T) {
	of := func(words ...string) figures {
		c := newCounter(io.Discard)
		for i := 0; i < len(words); i += 2 {
			_ = c.add(bloomkv.KV{Key: []byte(words[i]), Value: []byte(words[i+1])})
		}
		return c.figures()
	}
	large := strings.Repeat("large", 50000)
	sequences := [][]string{
		{},
		{"", ""},
		{"a", ""},
		{"", "a"},
		{"a", "b"},
		{"a", "", "b", ""},
		{"b", "", "a", ""},
		{"ab", ""},
		{"a", large},
		{"a", large[1:]},
		{"a", large, "b", ""},
	}
	seen := make(map[string]int)
	for i, words := range sequences {
		f := of(words...)
		if other, ok := seen[f.SHA256]; ok {
			t.Errorf("%d and %d have the same hash", i, other)
		}
		seen[f.SHA256] = i
		if f != of(words...) {
			t.Errorf("%d: two figures of the same sequence differ", i)
		}
	}
	const want = "fa4a350f5906021e27b2caf19409319e1606cf68ca77624c56ea19168e156b25" // of 01 61 01 62
	if got := of("a", "b").SHA256; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A sourceOf has these keys, in this order.
type sourceOf []string

func (s sourceOf) each(_ *losses, add func(bloomkv.KV) error) error {
	for _, key := range s {
		if err := add(bloomkv.KV{Key: []byte(key)}); err != nil {
			return err
		}
	}
	return nil
}

func (sourceOf) Close() error { return nil }

func TestKeysOutOfOrderAreDamageOfTheSource(t *testing.T) {
	for _, c := range []struct {
		keys sourceOf
		want string
	}{
		{sourceOf{}, ""},
		{sourceOf{"", "a", "ab", "b"}, ""},
		{sourceOf{"", ""}, `damaged: key "" comes after key ""`},
		{sourceOf{"a", "a"}, `damaged: key "a" comes after key "a"`},
		{sourceOf{"a", "b\x00", "b"}, `damaged: key "b" comes after key "b\x00"`},
		{sourceOf{"a", ""}, `damaged: key "" comes after key "a"`},
	} {
		s := store{open: func(string) (source, error) { return c.keys, nil }}
		got := ""
		if err := s.serve("", newCounter(io.Discard), &losses{}); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.keys, got, c.want)
		}
	}
}

// TestADamagedStoreIsRefusedOrCopiedWhole flips bits of each kind of store, and cuts files short. bbolt has no
// checksums of keys and values. Pebble takes a damaged record of its newest log for the end of the log.
func TestADamagedStoreIsRefusedOrCopiedWhole(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			f := write(t, s.name)
			rnd := rand.New(rand.NewPCG(3, 4))
			refused, whole := 0, 0
			files := contents(t, f.path)
			for _, name := range slices.Sorted(maps.Keys(files)) {
				if len(files[name]) == 0 || name == "LOG" {
					continue
				}
				for i := range 3 {
					damaged := []byte(files[name])
					if i == 0 {
						damaged = damaged[:len(damaged)/2]
					} else {
						damaged[rnd.IntN(len(damaged))] ^= 1 << rnd.IntN(8)
					}
					path := clone(t, f.path)
					must(t, os.WriteFile(filepath.Join(path, name), damaged, 0o600))
					parent := t.TempDir()
					dir := filepath.Join(parent, "new")
					r := run(t.Context(), false, "--from", s.name, path, dir)
					if r.code == 0 {
						whole++
						trusted := s.name != "bbolt" && (s.name != "pebble" || filepath.Ext(name) != ".log")
						if got := stored(t, dir); trusted && !maps.Equal(got, f.pairs) {
							t.Errorf("%s: copied, but not what was there", name)
						}
						continue
					}
					refused++
					if r.code != 2 || !strings.HasPrefix(r.err, "bloomkv-import: "+path+": ") {
						t.Errorf("%s: exit %d, %q", name, r.code, r.err)
					}
					checkNothingLeft(t, parent)
				}
			}
			t.Logf("%d refused, %d copied whole", refused, whole)
			if refused == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

func TestABranchThatNamesItselfIsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "source")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, PageSize: 4096})
	must(t, err)
	must(t, db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("bucket"))
		for i := range 5000 {
			err = errors.Join(err, b.Put(fmt.Appendf(nil, "%04d", i), nil))
		}
		return err
	}))
	must(t, db.Close())
	file, err := os.ReadFile(path)
	must(t, err)
	branches := 0
	// A page begins with its number, u64, flags, u16, of which 1 is a branch, count, u16, and overflow, u32. An element
	// of a branch has a position and a size, u32, and the number of a page, u64.
	for page := range slices.Chunk(file, 4096) {
		if binary.LittleEndian.Uint16(page[8:]) == 1 {
			copy(page[24:32], page[:8])
			branches++
		}
	}
	must(t, os.WriteFile(path, file, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := run(ctx, false, "--from", "bbolt", path, filepath.Join(t.TempDir(), "new"))
	if branches == 0 || r.code != 2 || !strings.Contains(r.err, "damaged: page ") {
		t.Errorf("%d branches: exit %d, %q; want damage", branches, r.code, r.err)
	}
}
