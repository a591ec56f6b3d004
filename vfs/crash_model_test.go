package vfs_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// TestCrashOfContentByTheModel writes and syncs a file in random pieces, some of them into reserved space, and checks
// every sector of what is left.
func TestCrashOfContentByTheModel(t *testing.T) {
	testkit.Long(t)
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := vfstest.NewMem()
		f, err := m.Create("a")
		must(t, err)
		must(t, m.SyncDir(""))
		var all []byte
		synced := 0
		size, durable := 0, 0
		for range 1 + rng.IntN(12) {
			most := []int{3, 40, 700, 9000, 90_000}[rng.IntN(5)]
			piece := make([]byte, rng.IntN(most))
			for i := range piece {
				piece[i] = byte('a' + rng.IntN(26))
			}
			write(t, f, string(piece))
			all = append(all, piece...)
			size = max(size, len(all))
			if n := rng.IntN(most); rng.IntN(4) == 0 && n > 0 {
				must(t, reserve(f, int64(n)))
				size = max(size, len(all)+n)
			}
			if rng.IntN(4) == 0 {
				must(t, f.Sync())
				synced, durable = len(all), size
			}
		}
		if got := get(t, m, "a"); got != string(all)+strings.Repeat("\x00", size-len(all)) {
			t.Fatalf("seed %d: %d bytes before the crash, want %d", seed, len(got), size)
		}
		sizes := map[int]bool{}
		for crash := range uint64(20) {
			got := get(t, m.Crash(vfstest.KeepSome(crash, []int{0, 10, 50, 90, 100}[crash%5])), "a")
			sizes[len(got)] = true
			if crash%5 == 0 && got != string(all[:synced])+strings.Repeat("\x00", durable-synced) {
				t.Fatalf("seed %d: with nothing kept got %d bytes, want %d", seed, len(got), durable)
			}
			if crash%5 == 4 && got != get(t, m, "a") {
				t.Fatalf("seed %d: with all kept got %d bytes, want %d", seed, len(got), size)
			}
			if len(got) < durable || len(got) > size || got[:synced] != string(all[:synced]) {
				t.Fatalf("seed %d: %d of %d bytes, %d of them synced", seed, len(got), size, synced)
			}
			written := all[:min(len(all), len(got))]
			if strings.Trim(got[len(written):], "\x00") != "" {
				t.Fatalf("seed %d: what was only reserved is not zero", seed)
			}
			got = got[:len(written)]
			for start := synced / 512 * 512; start < len(got); start += 512 {
				sector, want := got[start:min(start+512, len(got))], all[start:]
				held := strings.TrimRight(sector, "\x00")
				if held != string(want[:len(held)]) {
					t.Fatalf("seed %d: the sector at %d holds %q, want a prefix of %q and zeros",
						seed, start, sector, want)
				}
			}
		}
		if size-durable > 2000 && len(all) > durable+2000 && len(sizes) < 4 {
			t.Errorf("seed %d: only %d sizes seen", seed, len(sizes))
		}
	}
}

// TestCrashOfNamesByTheModel does random operations on few names in three directories, and checks what holds for every
// file system with atomic renames: a name means what it meant when it was synced, or later; with nothing or everything
// kept it is exactly that; and a file that was synced and then only moved is found, once.
func TestCrashOfNamesByTheModel(t *testing.T) {
	testkit.Long(t)
	dirs := []string{"p", "q", "r"}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := vfstest.NewMem()
		for _, d := range dirs {
			must(t, m.Mkdir(d))
		}
		must(t, m.SyncDir(""))
		now := map[string]string{}            // name → content; no two files have the same content
		since := map[string]map[string]bool{} // name → its meanings since it was last surely durable
		anchored := map[string]bool{}         // content of files with a durable name that were only moved since
		pick := func() string { return filepath.Join(dirs[rng.IntN(3)], string(rune('a'+rng.IntN(3)))) }
		set := func(name, content string) {
			if since[name] == nil {
				since[name] = map[string]bool{"-": true}
			}
			since[name][content] = true
			now[name] = content
			if content == "-" {
				delete(now, name)
			}
		}
		settle := func(dir string) {
			must(t, m.SyncDir(dir))
			for _, n := range []string{"a", "b", "c"} {
				name := filepath.Join(dir, n)
				content, ok := now[name]
				if !ok {
					content = "-"
				} else {
					anchored[content] = true
				}
				since[name] = map[string]bool{content: true}
			}
		}
		for i := range 1 + rng.IntN(25) {
			name := pick()
			switch rng.IntN(5) {
			case 0, 1:
				if _, ok := now[name]; !ok {
					content := fmt.Sprintf("<%d>", i)
					puts(t, m, name, content)
					set(name, content)
				}
			case 2:
				if content, ok := now[name]; ok && rng.IntN(2) == 0 {
					must(t, m.Remove(name))
					set(name, "-")
					delete(anchored, content)
				}
			case 3:
				to := pick()
				if content, ok := now[name]; ok && to != name {
					delete(anchored, now[to])
					must(t, m.Rename(name, to))
					set(name, "-")
					set(to, content)
				}
			case 4:
				settle(dirs[rng.IntN(3)])
			}
		}
		check := func(c *vfstest.Mem, what string) {
			found := map[string]int{}
			for _, d := range dirs {
				for _, n := range []string{"a", "b", "c"} {
					name := filepath.Join(d, n)
					content := get(t, c, name)
					found[content]++
					if s := since[name]; s != nil && !s[content] || s == nil && content != "-" {
						t.Errorf("seed %d, %s: %s holds %s, want one of %v", seed, what, name, content, s)
					}
				}
			}
			for content := range anchored {
				if found[content] != 1 {
					t.Errorf("seed %d, %s: %s is found %d times, want once", seed, what, content, found[content])
				}
			}
			for content, n := range found {
				if content != "-" && n > 1 {
					t.Errorf("seed %d, %s: %s has %d names, want one", seed, what, content, n)
				}
			}
		}
		for i := range uint64(30) {
			check(m.Crash(vfstest.KeepSome(i, 50)), fmt.Sprint("crash ", i))
		}
		check(m.Crash(vfstest.KeepNothing), "nothing kept")
		for _, d := range dirs {
			settle(d)
		}
		if got, want := state(t, m.Crash(vfstest.KeepNothing)), state(t, m); got != want {
			t.Errorf("seed %d: after a sync of all got %q, want %q", seed, got, want)
		}
		check(m.Crash(vfstest.KeepNothing), "all synced")
	}
}
