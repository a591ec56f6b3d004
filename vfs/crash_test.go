package vfs_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
)

// state is all of a file system on one line: names in order, content of files after "=", zeros as dots, runs as counts.
func state(t *testing.T, fsys vfs.FS) string {
	t.Helper()
	var parts []string
	var walk func(dir string)
	walk = func(dir string) {
		names, err := fsys.List(dir)
		must(t, err)
		for _, name := range names {
			path := filepath.Join(dir, name)
			info, err := fsys.Stat(path)
			must(t, err)
			if info.IsDir() {
				parts = append(parts, path+"/")
				walk(path)
			} else {
				parts = append(parts, path+"="+runs(get(t, fsys, path)))
			}
		}
	}
	walk("")
	return strings.Join(parts, " ")
}

// runs shortens content: "aaab" is "a3b".
func runs(content string) string {
	var b strings.Builder
	for i := 0; i < len(content); {
		n := 1
		for i+n < len(content) && content[i+n] == content[i] {
			n++
		}
		b.WriteByte(max(content[i], '.'))
		if n > 1 {
			fmt.Fprint(&b, n)
		}
		i += n
	}
	return b.String()
}

// outcomes is every state that a crash may leave, each once, in order.
func outcomes(t *testing.T, m *vfs.Mem) []string {
	t.Helper()
	var all []string
	for c := range m.Crashes() {
		all = append(all, state(t, c))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func syncFile(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	f, err := fsys.Open(name)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func puts(t *testing.T, fsys vfs.FS, name, content string) {
	t.Helper()
	put(t, fsys, name, content)
	syncFile(t, fsys, name)
}

func write(t *testing.T, f vfs.File, content string) {
	t.Helper()
	_, err := f.Write([]byte(content))
	must(t, err)
}

func TestCrashLeavesExactlyThese(t *testing.T) {
	x := func(n int, c string) string { return strings.Repeat(c, n) }
	tests := []struct {
		name string
		do   func(t *testing.T, m *vfs.Mem)
		want []string
	}{
		{
			"nothing of nothing",
			func(*testing.T, *vfs.Mem) {},
			[]string{""},
		},
		{
			"a synced file whose name is not synced may vanish, and never holds less",
			func(t *testing.T, m *vfs.Mem) { puts(t, m, "a", "x") },
			[]string{"", "a=x"},
		},
		{
			"a name that is synced stays, and its unsynced file may be empty, zero or whole",
			func(t *testing.T, m *vfs.Mem) {
				put(t, m, "a", "xx")
				must(t, m.SyncDir(""))
			},
			[]string{"a=", "a=.2", "a=x2"},
		},
		{
			"all that is synced stays",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "a", "xx")
				must(t, m.SyncDir(""))
			},
			[]string{"a=x2"},
		},
		{
			"the second file without the first",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "a", "x")
				puts(t, m, "b", "y")
			},
			[]string{"", "a=x", "a=x b=y", "b=y"},
		},
		{
			"a removed name may come back",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "a", "x")
				must(t, m.SyncDir(""))
				must(t, m.Remove("a"))
			},
			[]string{"", "a=x"},
		},
		{
			"a removed name stays away once its directory is synced",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "a", "x")
				must(t, m.SyncDir(""))
				must(t, m.Remove("a"))
				must(t, m.SyncDir(""))
			},
			[]string{""},
		},
		{
			"what was made and removed meanwhile may be there",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "a", "x")
				must(t, m.Remove("a"))
			},
			[]string{"", "a=x"},
		},
		{
			"a name is only ever what it was, in order",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "a", "x")
				must(t, m.SyncDir(""))
				must(t, m.Remove("a"))
				puts(t, m, "a", "y")
				must(t, m.Remove("a"))
				puts(t, m, "a", "z")
			},
			[]string{"", "a=x", "a=y", "a=z"},
		},
		{
			"a rename in place of another file happened or did not",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "CURRENT", "x")
				puts(t, m, "tmp", "y")
				must(t, m.SyncDir(""))
				must(t, m.Rename("tmp", "CURRENT"))
			},
			[]string{"CURRENT=x tmp=y", "CURRENT=y"},
		},
		{
			"a rename may survive the loss of the content it should have followed",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "CURRENT", "x")
				must(t, m.SyncDir(""))
				put(t, m, "tmp", "y")
				must(t, m.Rename("tmp", "CURRENT"))
			},
			[]string{"CURRENT=", "CURRENT=.", "CURRENT=x", "CURRENT=x tmp=", "CURRENT=x tmp=.", "CURRENT=x tmp=y", "CURRENT=y"},
		},
		{
			"a rename that is synced cannot be lost",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "CURRENT", "x")
				puts(t, m, "tmp", "y")
				must(t, m.Rename("tmp", "CURRENT"))
				must(t, m.SyncDir(""))
			},
			[]string{"CURRENT=y"},
		},
		{
			"a new file at the old name of a rename survives only with the rename",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "a", "x")
				must(t, m.SyncDir(""))
				must(t, m.Rename("a", "b"))
				puts(t, m, "a", "y")
			},
			[]string{"a=x", "a=y b=x", "b=x"},
		},
		{
			"two renames in a row happen in their order",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "a", "x")
				must(t, m.SyncDir(""))
				must(t, m.Rename("a", "b"))
				must(t, m.Rename("b", "c"))
			},
			[]string{"a=x", "b=x", "c=x"},
		},
		{
			"an exchange by three renames never loses a file",
			func(t *testing.T, m *vfs.Mem) {
				puts(t, m, "a", "x")
				puts(t, m, "b", "y")
				must(t, m.SyncDir(""))
				must(t, m.Rename("a", "c"))
				must(t, m.Rename("b", "a"))
				must(t, m.Rename("c", "b"))
			},
			[]string{"a=x b=y", "a=y b=x", "a=y c=x", "b=y c=x"},
		},
		{
			"a sync of one directory is none of another",
			func(t *testing.T, m *vfs.Mem) {
				must(t, m.Mkdir("p"))
				must(t, m.Mkdir("q"))
				must(t, m.SyncDir(""))
				puts(t, m, "p/a", "x")
				puts(t, m, "q/b", "y")
				must(t, m.SyncDir("p"))
			},
			[]string{"p/ p/a=x q/", "p/ p/a=x q/ q/b=y"},
		},
		{
			"a directory whose name is not synced vanishes with all that is synced in it",
			func(t *testing.T, m *vfs.Mem) {
				must(t, m.Mkdir("p"))
				puts(t, m, "p/a", "x")
				must(t, m.SyncDir("p"))
			},
			[]string{"", "p/ p/a=x"},
		},
		{
			"a synced name of a directory is no sync of the names in it",
			func(t *testing.T, m *vfs.Mem) {
				must(t, m.Mkdir("p"))
				puts(t, m, "p/a", "x")
				must(t, m.SyncDir(""))
			},
			[]string{"p/", "p/ p/a=x"},
		},
		{
			"a rename across directories happened in both or in neither",
			func(t *testing.T, m *vfs.Mem) {
				must(t, m.Mkdir("p"))
				must(t, m.Mkdir("q"))
				must(t, m.SyncDir(""))
				puts(t, m, "p/a", "x")
				must(t, m.SyncDir("p"))
				must(t, m.Rename("p/a", "q/b"))
			},
			[]string{"p/ p/a=x q/", "p/ q/ q/b=x"},
		},
		{
			"a rename across directories is durable by a sync of the new one",
			func(t *testing.T, m *vfs.Mem) {
				must(t, m.Mkdir("p"))
				must(t, m.Mkdir("q"))
				must(t, m.SyncDir(""))
				puts(t, m, "p/a", "x")
				puts(t, m, "p/other", "y")
				must(t, m.Rename("p/a", "q/b"))
				must(t, m.SyncDir("q"))
			},
			[]string{"p/ p/other=y q/ q/b=x", "p/ q/ q/b=x"},
		},
		{
			"a rename across directories is durable by a sync of the old one",
			func(t *testing.T, m *vfs.Mem) {
				must(t, m.Mkdir("p"))
				must(t, m.Mkdir("q"))
				must(t, m.SyncDir(""))
				puts(t, m, "p/a", "x")
				puts(t, m, "q/other", "y")
				must(t, m.Rename("p/a", "q/b"))
				must(t, m.SyncDir("p"))
			},
			[]string{"p/ q/ q/b=x", "p/ q/ q/b=x q/other=y"},
		},
		{
			"a sync takes along what the renames that it makes durable stand upon, and no more",
			func(t *testing.T, m *vfs.Mem) {
				for _, d := range []string{"p", "q", "r"} {
					must(t, m.Mkdir(d))
				}
				must(t, m.SyncDir(""))
				puts(t, m, "p/a", "x")
				must(t, m.SyncDir("p"))
				must(t, m.Rename("p/a", "q/a"))
				must(t, m.Rename("q/a", "r/a"))
				puts(t, m, "p/b", "y")
				must(t, m.SyncDir("r"))
			},
			[]string{"p/ p/b=y q/ r/ r/a=x", "p/ q/ r/ r/a=x"},
		},
		{
			"a renamed directory keeps what is in it",
			func(t *testing.T, m *vfs.Mem) {
				must(t, m.Mkdir("p"))
				puts(t, m, "p/a", "x")
				must(t, m.SyncDir("p"))
				must(t, m.SyncDir(""))
				must(t, m.Rename("p", "q"))
				puts(t, m, "q/b", "y")
				must(t, m.SyncDir("q"))
			},
			[]string{"p/ p/a=x p/b=y", "q/ q/a=x q/b=y"},
		},
		{
			"both names of a file hold the same, and a link may be lost",
			func(t *testing.T, m *vfs.Mem) {
				put(t, m, "a", "x")
				must(t, m.SyncDir(""))
				must(t, m.Link("a", "b"))
			},
			[]string{"a=", "a= b=", "a=.", "a=. b=.", "a=x", "a=x b=x"},
		},
		{
			"the file of a lock is a file",
			func(t *testing.T, m *vfs.Mem) {
				_, err := m.Lock("LOCK")
				must(t, err)
			},
			[]string{"", "LOCK="},
		},
		{
			"a write may grow the file by sectors, and each may be zero",
			func(t *testing.T, m *vfs.Mem) {
				put(t, m, "a", x(600, "x"))
				must(t, m.SyncDir(""))
			},
			[]string{"a=", "a=.512", "a=.512x88", "a=.600", "a=x512", "a=x512.88", "a=x600"},
		},
		{
			"a crash may fall between two writes of a sector",
			func(t *testing.T, m *vfs.Mem) {
				f, err := m.Create("a")
				must(t, err)
				must(t, m.SyncDir(""))
				write(t, f, "xx")
				write(t, f, "")
				write(t, f, "yy")
			},
			[]string{"a=", "a=.2", "a=.4", "a=x2", "a=x2.2", "a=x2y2"},
		},
		{
			"what a sector held when it was synced stays, whatever becomes of what was added",
			func(t *testing.T, m *vfs.Mem) {
				f, err := m.Create("a")
				must(t, err)
				must(t, m.SyncDir(""))
				write(t, f, x(500, "x"))
				must(t, f.Sync())
				write(t, f, x(20, "y"))
			},
			[]string{"a=x500", "a=x500.12", "a=x500.12y8", "a=x500.20", "a=x500y12", "a=x500y12.8", "a=x500y20"},
		},
		{
			"a write that ends with a sector leaves the next one alone",
			func(t *testing.T, m *vfs.Mem) {
				f, err := m.Create("a")
				must(t, err)
				must(t, m.SyncDir(""))
				write(t, f, x(512, "x"))
				must(t, f.Sync())
				write(t, f, x(512, "y"))
				write(t, f, "z")
			},
			[]string{"a=x512", "a=x512.512", "a=x512.512z", "a=x512.513", "a=x512y512", "a=x512y512.", "a=x512y512z"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := vfs.NewMem()
			test.do(t, m)
			before := state(t, m)
			got := outcomes(t, m)
			for i := range test.want {
				test.want[i] = filepath.FromSlash(test.want[i])
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if got := state(t, m); got != before {
				t.Errorf("the crashed one was changed from %q to %q", before, got)
			}
			if got := state(t, m.Crash(vfs.KeepAll)); got != before {
				t.Errorf("with all kept got %q, want %q", got, before)
			}
			nothing := m.Crash(vfs.KeepNothing)
			if got := outcomes(t, nothing); !slices.Equal(got, []string{state(t, nothing)}) {
				t.Errorf("what a crash left is not durable: a second one leaves %q", got)
			}
			killed := m.Kill()
			if got := state(t, killed); got != before {
				t.Errorf("after a kill got %q, want %q", got, before)
			}
			if got := outcomes(t, killed); !slices.Equal(got, test.want) {
				t.Errorf("a crash after a kill leaves %q, want %q", got, test.want)
			}
			for seed := range uint64(50) {
				if got := state(t, m.Crash(vfs.KeepSome(seed, 50))); !slices.Contains(test.want, got) {
					t.Errorf("seed %d leaves %q, want one of %q", seed, got, test.want)
				}
			}
		})
	}
}

func TestKeepCanLoseOnePartAlone(t *testing.T) {
	m := vfs.NewMem()
	puts(t, m, "CURRENT", "x")
	must(t, m.SyncDir(""))
	put(t, m, "tmp", strings.Repeat("y", 600))
	must(t, m.Rename("tmp", "CURRENT"))
	must(t, m.Link("CURRENT", "link"))
	tests := []struct {
		name string
		keep vfs.Keep
		want string
	}{
		{"renames, and what came after them", func(u vfs.Unsynced) bool { return u.Op != vfs.OpRename }, "CURRENT=x link=y600 tmp=y600"},
		{"links", func(u vfs.Unsynced) bool { return u.Op != vfs.OpLink || u.Name != "CURRENT" || u.To != "link" }, "CURRENT=y600"},
		{"content", func(u vfs.Unsynced) bool { return u.What != vfs.UnsyncedSector }, "CURRENT=.600 link=.600"},
		{"the first sector", func(u vfs.Unsynced) bool { return u.What != vfs.UnsyncedSector || u.Offset != 0 }, "CURRENT=.512y88 link=.512y88"},
		{"growth", func(u vfs.Unsynced) bool { return u.What != vfs.UnsyncedSize }, "CURRENT= link="},
		{"growth beyond a size", func(u vfs.Unsynced) bool { return u.What != vfs.UnsyncedSize || u.End <= 550 }, "CURRENT=y512 link=y512"},
		{"names", func(u vfs.Unsynced) bool { return u.What != vfs.UnsyncedName }, "CURRENT=x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := state(t, m.Crash(test.keep)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhatWasNotSyncedBeforeAKillMustBeSyncedAfterIt(t *testing.T) {
	m := vfs.NewMem()
	put(t, m, "a", "x")
	lock, err := m.Lock("LOCK")
	must(t, err)
	killed := m.Kill()
	lock2, err := killed.Lock("LOCK")
	must(t, err)
	must(t, lock2.Close())
	must(t, lock.Close())
	if got := state(t, killed.Crash(vfs.KeepNothing)); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
	syncFile(t, killed, "a")
	must(t, killed.SyncDir(""))
	if got, want := state(t, killed.Crash(vfs.KeepNothing)), "LOCK= a=x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := state(t, m.Crash(vfs.KeepNothing)); got != "" {
		t.Errorf("a sync after the kill made %q durable before it", got)
	}
}

func TestACrashedMemLivesOnApart(t *testing.T) {
	m := vfs.NewMem()
	f, err := m.Create("a")
	must(t, err)
	must(t, m.SyncDir(""))
	write(t, f, "xx")
	c := m.Crash(vfs.KeepAll)
	write(t, f, "yy")
	puts(t, c, "b", "z")
	must(t, c.Remove("a"))
	if got, want := state(t, m)+"; "+state(t, c), "a=x2y2; b=z"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCrashOfContentByTheModel writes and syncs a file in random pieces, and checks every sector of what is left.
func TestCrashOfContentByTheModel(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := vfs.NewMem()
		f, err := m.Create("a")
		must(t, err)
		must(t, m.SyncDir(""))
		var all []byte
		synced := 0
		for range 1 + rng.IntN(12) {
			most := []int{3, 40, 700, 9000, 90_000}[rng.IntN(5)]
			piece := make([]byte, rng.IntN(most))
			for i := range piece {
				piece[i] = byte('a' + rng.IntN(26))
			}
			write(t, f, string(piece))
			all = append(all, piece...)
			if rng.IntN(4) == 0 {
				must(t, f.Sync())
				synced = len(all)
			}
		}
		sizes := map[int]bool{}
		for crash := range uint64(20) {
			got := get(t, m.Crash(vfs.KeepSome(crash, []int{0, 10, 50, 90, 100}[crash%5])), "a")
			sizes[len(got)] = true
			if crash%5 == 0 && got != string(all[:synced]) {
				t.Fatalf("seed %d: with nothing kept got %d bytes, want %d", seed, len(got), synced)
			}
			if crash%5 == 4 && got != string(all) {
				t.Fatalf("seed %d: with all kept got %d bytes, want %d", seed, len(got), len(all))
			}
			if len(got) < synced || len(got) > len(all) || got[:synced] != string(all[:synced]) {
				t.Fatalf("seed %d: %d of %d bytes, of which %d synced", seed, len(got), len(all), synced)
			}
			for start := synced / 512 * 512; start < len(got); start += 512 {
				sector, want := got[start:min(start+512, len(got))], all[start:]
				held := strings.TrimRight(sector, "\x00")
				if held != string(want[:len(held)]) {
					t.Fatalf("seed %d: the sector at %d holds %q, want a prefix of %q and zeros", seed, start, sector, want)
				}
			}
		}
		if len(all)-synced > 2000 && len(sizes) < 4 {
			t.Errorf("seed %d: only %d sizes seen", seed, len(sizes))
		}
	}
}

// TestCrashOfNamesByTheModel does random operations on few names in three directories, and checks what every file system
// with atomic renames has in common: a name means what it meant when it was synced or later; with nothing or all kept it is
// exactly that; and a file that was synced and then only moved is found, once.
func TestCrashOfNamesByTheModel(t *testing.T) {
	dirs := []string{"p", "q", "r"}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := vfs.NewMem()
		for _, d := range dirs {
			must(t, m.Mkdir(d))
		}
		must(t, m.SyncDir(""))
		now := map[string]string{}            // name → content, which is different for each file
		since := map[string]map[string]bool{} // name → what it meant when it was last surely durable, and since
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
		check := func(c *vfs.Mem, what string) {
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
			check(m.Crash(vfs.KeepSome(i, 50)), fmt.Sprint("crash ", i))
		}
		check(m.Crash(vfs.KeepNothing), "nothing kept")
		for _, d := range dirs {
			settle(d)
		}
		if got, want := state(t, m.Crash(vfs.KeepNothing)), state(t, m); got != want {
			t.Errorf("seed %d: after a sync of all got %q, want %q", seed, got, want)
		}
		check(m.Crash(vfs.KeepNothing), "all synced")
	}
}

// TestCrashSeesOneMoment crashes while two files are written in turn: whatever is in the second must be in the first.
func TestCrashSeesOneMoment(t *testing.T) {
	m := vfs.NewMem()
	var crashes []*vfs.Mem
	hooked := vfs.NewHook(m, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			crashes = append(crashes, m.Crash(vfs.KeepNothing)) // from within a hook; the writer is alone in calling it
		}
		return nil
	})
	a, err := hooked.Create("a")
	must(t, err)
	b, err := hooked.Create("b")
	must(t, err)
	must(t, m.SyncDir(""))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var beside []*vfs.Mem
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				beside = append(beside, m.Crash(vfs.KeepNothing))
			}
		}
	})
	wg.Go(func() { // churn of names beside them
		for range 200 {
			put(t, m, "c", "x")
			if err := m.Remove("c"); err != nil {
				t.Error(err)
			}
		}
	})
	for range 200 {
		for _, f := range []vfs.File{a, b} {
			write(t, f, "x")
			must(t, f.Sync())
		}
	}
	close(stop)
	wg.Wait()
	if len(crashes) != 400 {
		t.Errorf("the hook crashed %d times, want 400", len(crashes))
	}
	for _, c := range slices.Concat(crashes, beside) {
		if a, b := len(get(t, c, "a")), len(get(t, c, "b")); a < b || a > b+1 {
			t.Fatalf("a holds %d bytes and b %d", a, b)
		}
	}
}

func TestCrashesCanBeStopped(t *testing.T) {
	m := vfs.NewMem()
	put(t, m, "a", strings.Repeat("x", 1<<20)) // 2^2049 outcomes
	n := 0
	for range m.Crashes() {
		if n++; n == 10 {
			break
		}
	}
	if n != 10 {
		t.Errorf("got %d, want 10", n)
	}
}

// BenchmarkCrash crashes a small store: 16 files of together 200 KiB, of which one is not synced in its last 8 KiB.
func BenchmarkCrash(b *testing.B) {
	m := vfs.NewMem()
	if err := m.Mkdir("db"); err != nil {
		b.Fatal(err)
	}
	for i := range 16 {
		f, err := m.Create(filepath.Join("db", fmt.Sprintf("%06d.sst", i)))
		if err != nil {
			b.Fatal(err)
		}
		for range 120 {
			_, _ = f.Write(make([]byte, 100))
		}
		_ = f.Sync()
		if i == 15 {
			for range 80 {
				_, _ = f.Write(make([]byte, 100))
			}
		}
	}
	for _, test := range []struct {
		name string
		keep vfs.Keep
	}{{"nothing", vfs.KeepNothing}, {"all", vfs.KeepAll}, {"some", vfs.KeepSome(1, 50)}} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Crash(test.keep)
			}
		})
	}
}
