package vfs_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// state returns a whole file system on one line: names in order, content of files after "=", zeros as dots, runs as
// counts.
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

// outcomes returns every state that a crash may leave, each once, in order.
func outcomes(t *testing.T, m *vfstest.Mem) []string {
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

// run executes the steps of a script, separated by commas. Content is in the notation of runs.
func run(t *testing.T, m *vfstest.Mem, script string) {
	t.Helper()
	open := map[string]vfs.File{}
	for step := range strings.SplitSeq(script, ", ") {
		args := append(strings.Fields(step), "", "", "")
		name, other := filepath.FromSlash(args[1]), filepath.FromSlash(args[2])
		var err error
		switch args[0] {
		case "put":
			if open[name], err = m.Create(name); err == nil && other != "" {
				write(t, open[name], expand(t, other))
			}
		case "write":
			write(t, open[name], expand(t, other))
		case "reserve":
			var n int
			n, err = strconv.Atoi(other)
			must(t, err)
			err = reserve(open[name], int64(n))
		case "sync":
			err = open[name].Sync()
		case "syncdir":
			err = m.SyncDir(name)
		case "mkdir":
			err = m.Mkdir(name)
		case "remove":
			err = m.Remove(name)
		case "rename":
			err = m.Rename(name, other)
		case "link":
			err = m.Link(name, other)
		case "lock":
			_, err = m.Lock(name)
		case "":
		default:
			t.Fatalf("unknown step %q", step)
		}
		must(t, err)
	}
}

// expand returns the content for a letter and a count.
func expand(t *testing.T, run string) string {
	t.Helper()
	if len(run) < 2 {
		return run
	}
	n, err := strconv.Atoi(run[1:])
	must(t, err)
	return strings.Repeat(run[:1], n)
}

func TestCrashLeavesExactlyThese(t *testing.T) {
	tests := []struct {
		name string
		do   string
		want []string
	}{
		{
			"nothing of nothing",
			"",
			[]string{""},
		},
		{
			"a synced file whose name is not synced may vanish, and never holds less",
			"put a x, sync a",
			[]string{"", "a=x"},
		},
		{
			"a name that is synced stays, and its unsynced file may be empty, zero or whole",
			"put a x2, syncdir .",
			[]string{"a=", "a=.2", "a=x2"},
		},
		{
			"all that is synced stays",
			"put a x2, sync a, syncdir .",
			[]string{"a=x2"},
		},
		{
			"the second file without the first",
			"put a x, sync a, put b y, sync b",
			[]string{"", "a=x", "a=x b=y", "b=y"},
		},
		{
			"a removed name may come back",
			"put a x, sync a, syncdir ., remove a",
			[]string{"", "a=x"},
		},
		{
			"a removed name stays away once its directory is synced",
			"put a x, sync a, syncdir ., remove a, syncdir .",
			[]string{""},
		},
		{
			"a file made and removed since the last sync may exist",
			"put a x, sync a, remove a",
			[]string{"", "a=x"},
		},
		{
			"a name is only ever what it was, in order",
			"put a x, sync a, syncdir ., remove a, put a y, sync a, remove a, put a z, sync a",
			[]string{"", "a=x", "a=y", "a=z"},
		},
		{
			"a rename that replaces a file happened or did not",
			"put CURRENT x, sync CURRENT, put tmp y, sync tmp, syncdir ., rename tmp CURRENT",
			[]string{"CURRENT=x tmp=y", "CURRENT=y"},
		},
		{
			"a rename may survive the loss of the content it should have followed",
			"put CURRENT x, sync CURRENT, syncdir ., put tmp y, rename tmp CURRENT",
			[]string{
				"CURRENT=", "CURRENT=.", "CURRENT=x", "CURRENT=x tmp=", "CURRENT=x tmp=.", "CURRENT=x tmp=y",
				"CURRENT=y",
			},
		},
		{
			"a rename that is synced cannot be lost",
			"put CURRENT x, sync CURRENT, put tmp y, sync tmp, rename tmp CURRENT, syncdir .",
			[]string{"CURRENT=y"},
		},
		{
			"a new file at the old name of a rename survives only with the rename",
			"put a x, sync a, syncdir ., rename a b, put a y, sync a",
			[]string{"a=x", "a=y b=x", "b=x"},
		},
		{
			"two renames in a row happen in their order",
			"put a x, sync a, syncdir ., rename a b, rename b c",
			[]string{"a=x", "b=x", "c=x"},
		},
		{
			"an exchange by three renames never loses a file",
			"put a x, sync a, put b y, sync b, syncdir ., rename a c, rename b a, rename c b",
			[]string{"a=x b=y", "a=y b=x", "a=y c=x", "b=y c=x"},
		},
		{
			"a sync of one directory does not sync another",
			"mkdir p, mkdir q, syncdir ., put p/a x, sync p/a, put q/b y, sync q/b, syncdir p",
			[]string{"p/ p/a=x q/", "p/ p/a=x q/ q/b=y"},
		},
		{
			"a directory whose name is not synced vanishes with all that is synced in it",
			"mkdir p, put p/a x, sync p/a, syncdir p",
			[]string{"", "p/ p/a=x"},
		},
		{
			"a synced name of a directory is no sync of the names in it",
			"mkdir p, put p/a x, sync p/a, syncdir .",
			[]string{"p/", "p/ p/a=x"},
		},
		{
			"a rename across directories happened in both or in neither",
			"mkdir p, mkdir q, syncdir ., put p/a x, sync p/a, syncdir p, rename p/a q/b",
			[]string{"p/ p/a=x q/", "p/ q/ q/b=x"},
		},
		{
			"a rename across directories is durable by a sync of the new one",
			"mkdir p, mkdir q, syncdir ., put p/a x, sync p/a, put p/other y, sync p/other, rename p/a q/b, syncdir q",
			[]string{"p/ p/other=y q/ q/b=x", "p/ q/ q/b=x"},
		},
		{
			"a rename across directories is durable by a sync of the old one",
			"mkdir p, mkdir q, syncdir ., put p/a x, sync p/a, put q/other y, sync q/other, rename p/a q/b, syncdir p",
			[]string{"p/ q/ q/b=x", "p/ q/ q/b=x q/other=y"},
		},
		{
			"a sync makes durable what its renames depend on, and no more",
			"mkdir p, mkdir q, mkdir r, syncdir ., put p/a x, sync p/a, syncdir p, " +
				"rename p/a q/a, rename q/a r/a, put p/b y, sync p/b, syncdir r",
			[]string{"p/ p/b=y q/ r/ r/a=x", "p/ q/ r/ r/a=x"},
		},
		{
			"a renamed directory keeps what is in it",
			"mkdir p, put p/a x, sync p/a, syncdir p, syncdir ., rename p q, put q/b y, sync q/b, syncdir q",
			[]string{"p/ p/a=x p/b=y", "q/ q/a=x q/b=y"},
		},
		{
			"both names of a file hold the same, and a link may be lost",
			"put a x, syncdir ., link a b",
			[]string{"a=", "a= b=", "a=.", "a=. b=.", "a=x", "a=x b=x"},
		},
		{
			"the file of a lock is a file",
			"lock LOCK",
			[]string{"", "LOCK="},
		},
		{
			"a write may grow the file by sectors, and each may be zero",
			"put a x600, syncdir .",
			[]string{"a=", "a=.512", "a=.512x88", "a=.600", "a=x512", "a=x512.88", "a=x600"},
		},
		{
			"a crash may fall between two writes of a sector",
			"put a, syncdir ., write a x2, write a, write a y2",
			[]string{"a=", "a=.2", "a=.4", "a=x2", "a=x2.2", "a=x2y2"},
		},
		{
			"what a sector held when it was synced stays, whatever becomes of what was added",
			"put a, syncdir ., write a x500, sync a, write a y20",
			[]string{"a=x500", "a=x500.12", "a=x500.12y8", "a=x500.20", "a=x500y12", "a=x500y12.8", "a=x500y20"},
		},
		{
			"a write that ends with a sector leaves the next one alone",
			"put a, syncdir ., write a x512, sync a, write a y512, write a z",
			[]string{"a=x512", "a=x512.512", "a=x512.512z", "a=x512.513", "a=x512y512", "a=x512y512.", "a=x512y512z"},
		},
		{
			"what was reserved may be lost, and what was written into it, or only that",
			"put a, syncdir ., reserve a 5, write a x2",
			[]string{"a=", "a=.2", "a=.5", "a=x2", "a=x2.3"},
		},
		{
			"what was reserved and synced stays, and writes into it move no size",
			"put a, syncdir ., reserve a 600, sync a, write a x2, write a y",
			[]string{"a=.600", "a=x2.598", "a=x2y.597"},
		},
		{
			"sectors of what was reserved survive each for itself",
			"put a, syncdir ., reserve a 1500, sync a, write a x1024",
			[]string{"a=.1500", "a=.512x512.476", "a=x1024.476", "a=x512.988"},
		},
		{
			"a write that continues behind the reserved space grows the file",
			"put a, syncdir ., reserve a 3, sync a, write a x5",
			[]string{"a=.3", "a=.5", "a=x3", "a=x5"},
		},
		{
			"a sync makes what was written into what was reserved durable, and what comes later not",
			"put a, syncdir ., reserve a 9, write a x3, sync a, reserve a 10, write a y2",
			[]string{"a=x3.10", "a=x3.6", "a=x3y2.4", "a=x3y2.8"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := vfstest.NewMem()
			run(t, m, test.do)
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
			if got := state(t, m.Crash(vfstest.KeepAll)); got != before {
				t.Errorf("with all kept got %q, want %q", got, before)
			}
			nothing := m.Crash(vfstest.KeepNothing)
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
				if got := state(t, m.Crash(vfstest.KeepSome(seed, 50))); !slices.Contains(test.want, got) {
					t.Errorf("seed %d leaves %q, want one of %q", seed, got, test.want)
				}
			}
		})
	}
}

func TestKeepCanLoseOnePartAlone(t *testing.T) {
	m := vfstest.NewMem()
	puts(t, m, "CURRENT", "x")
	must(t, m.SyncDir(""))
	put(t, m, "tmp", strings.Repeat("y", 600))
	must(t, m.Rename("tmp", "CURRENT"))
	must(t, m.Link("CURRENT", "link"))
	type part = vfstest.Unsynced
	tests := []struct {
		name string
		lose func(part) bool
		want string
	}{
		{
			"renames, and the changes after them",
			func(u part) bool { return u.Op == vfstest.OpRename },
			"CURRENT=x link=y600 tmp=y600",
		},
		{
			"links",
			func(u part) bool { return u.Op == vfstest.OpLink && u.Name == "CURRENT" && u.To == "link" },
			"CURRENT=y600",
		},
		{"content", func(u part) bool { return u.What == vfstest.UnsyncedSector }, "CURRENT=.600 link=.600"},
		{
			"the first sector",
			func(u part) bool { return u.What == vfstest.UnsyncedSector && u.Offset == 0 },
			"CURRENT=.512y88 link=.512y88",
		},
		{"growth", func(u part) bool { return u.What == vfstest.UnsyncedSize }, "CURRENT= link="},
		{
			"growth beyond a size",
			func(u part) bool { return u.What == vfstest.UnsyncedSize && u.End > 550 },
			"CURRENT=y512 link=y512",
		},
		{"names", func(u part) bool { return u.What == vfstest.UnsyncedName }, "CURRENT=x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := state(t, m.Crash(func(u part) bool { return !test.lose(u) })); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhatWasNotSyncedBeforeAKillMustBeSyncedAfterIt(t *testing.T) {
	m := vfstest.NewMem()
	put(t, m, "a", "x")
	lock, err := m.Lock("LOCK")
	must(t, err)
	killed := m.Kill()
	lock2, err := killed.Lock("LOCK")
	must(t, err)
	must(t, lock2.Close())
	must(t, lock.Close())
	if got := state(t, killed.Crash(vfstest.KeepNothing)); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
	syncFile(t, killed, "a")
	must(t, killed.SyncDir(""))
	if got, want := state(t, killed.Crash(vfstest.KeepNothing)), "LOCK= a=x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := state(t, m.Crash(vfstest.KeepNothing)); got != "" {
		t.Errorf("a sync after the kill made %q durable before it", got)
	}
}

func TestACrashedMemLivesOnApart(t *testing.T) {
	m := vfstest.NewMem()
	f, err := m.Create("a")
	must(t, err)
	must(t, m.SyncDir(""))
	write(t, f, "xx")
	c := m.Crash(vfstest.KeepAll)
	write(t, f, "yy")
	puts(t, c, "b", "z")
	must(t, c.Remove("a"))
	if got, want := state(t, m)+"; "+state(t, c), "a=x2y2; b=z"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCrashSeesOneMoment crashes while two files are written in turn: everything in the second must also be in the
// first.
func TestCrashSeesOneMoment(t *testing.T) {
	m := vfstest.NewMem()
	var crashes []*vfstest.Mem
	hooked := vfstest.NewHook(m, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync {
			crashes = append(crashes, m.Crash(vfstest.KeepNothing)) // from within a hook, which only the writer calls
		}
		return nil
	})
	a, err := hooked.Create("a")
	must(t, err)
	b, err := hooked.Create("b")
	must(t, err)
	must(t, m.SyncDir(""))
	var wg sync.WaitGroup
	var beside []*vfstest.Mem
	wg.Go(func() {
		for range 300 {
			beside = append(beside, m.Crash(vfstest.KeepNothing))
		}
	})
	wg.Go(func() { // meanwhile, another name comes and goes
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

func TestOfManyUnsyncedWritesTheNewestAreCutExactly(t *testing.T) {
	m := vfstest.NewMem()
	f, err := m.Create("a")
	must(t, err)
	must(t, m.SyncDir(""))
	const writes = 5000
	for range writes {
		write(t, f, "xxx")
	}
	for most, want := range map[int64]int{
		3 * (writes - 1):       3 * (writes - 1),
		3*(writes-1000) - 1:    3 * (writes - 1001),
		3 * 1000:               3000 / 512 * 512, // too old: at the end of a sector
		3*writes - 1:           3 * (writes - 1),
		511:                    0,
		3*writes + 1_000_000:   3 * writes,
		512 * (3 * 2500 / 512): 512 * (3 * 2500 / 512),
	} {
		keep := func(u vfstest.Unsynced) bool { return u.What != vfstest.UnsyncedSize || u.End <= most }
		got := get(t, m.Crash(keep), "a")
		if got != strings.Repeat("x", want) {
			t.Errorf("at most %d: got %s, want x%d", most, runs(got), want)
		}
	}
}

func TestCrashesCanBeStopped(t *testing.T) {
	m := vfstest.NewMem()
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

// BenchmarkCrash crashes a small store: 16 files, 200 KiB in total; the last 8 KiB of one file are not synced.
func BenchmarkCrash(b *testing.B) {
	m := vfstest.NewMem()
	must(b, m.Mkdir("db"))
	for i := range 16 {
		f, err := m.Create(filepath.Join("db", fmt.Sprintf("%06d.sst", i)))
		must(b, err)
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
	must(b, errors.Join(m.SyncDir("db"), m.SyncDir("")))
	for _, test := range []struct {
		name string
		keep vfstest.Keep
	}{{"nothing", vfstest.KeepNothing}, {"all", vfstest.KeepAll}, {"some", vfstest.KeepSome(1, 50)}} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Crash(test.keep)
			}
		})
	}
}

// TestANameThatWasMadeAgainMayBeThere: a rename to another directory makes the changes of its old name durable, but not
// the later ones, which a crash may still keep in part.
func TestANameThatWasMadeAgainMayBeThere(t *testing.T) {
	m := vfstest.NewMem()
	must(t, m.Mkdir("p"))
	must(t, m.Mkdir("q"))
	must(t, m.SyncDir(""))
	from, to := filepath.Join("p", "a"), filepath.Join("q", "b")
	puts(t, m, from, "old")
	must(t, m.Rename(from, to))
	puts(t, m, from, "new")
	must(t, m.Remove(from))
	must(t, m.SyncDir("q"))
	c := m.Crash(func(u vfstest.Unsynced) bool { return u.Op != vfstest.OpRemove })
	if got := get(t, c, from); got != "new" {
		t.Errorf("the name holds %s, want new", got)
	}
	var found []string
	for c := range m.Crashes() {
		found = append(found, get(t, c, from))
	}
	slices.Sort(found)
	if found = slices.Compact(found); !slices.Equal(found, []string{"-", "new"}) {
		t.Errorf("after crashes the name holds %q, want nothing or new", found)
	}
}
