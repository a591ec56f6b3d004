package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/vfs"
)

// treeOf returns the names of everything below a directory.
func treeOf(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if name != dir {
			names = append(names, filepath.ToSlash(strings.TrimPrefix(name, dir)))
		}
		return err
	})
	must(t, err)
	return names
}

func TestAFailureLeavesNothingOfANewStore(t *testing.T) {
	testkit.Long(t)
	manyAndABadOne := manyLines(200_000) + "bad\n" // flushes before the bad line
	for _, c := range []struct {
		name, in, err string
		args          []string
	}{
		{
			"load of a bad first line", "bad\n", "line 1: no TAB, want key TAB value (the new store was removed)",
			[]string{"load"},
		},
		{"load of a bad line", "a\t1\nb\t2\nbad\n", "line 3: no TAB", []string{"load"}},
		{"load of a bad line behind many", manyAndABadOne, "line 200001: no TAB", []string{"load"}},
		{"ingest of a bad line behind many", manyAndABadOne, "line 200001: no TAB", []string{"ingest"}},
		{"ingest out of order", "b\t1\na\t2\n", "line 2: key a after b", []string{"ingest"}},
		{
			"ingest of no lines to replace by", "", "the input is empty, want at least one line",
			[]string{"ingest", "--replace"},
		},
		{"a filter rate out of reach", "a\t1\n", "out of r", []string{"load", "--fpr", "1e-12"}},
	} {
		for _, before := range [][]string{{}, {"a/"}, {"a/b/"}, {"a/b/lost+found/"}, {"a/b/LOCK"}} {
			t.Run(c.name+" "+strings.Join(before, " "), func(t *testing.T) {
				root := t.TempDir()
				for _, name := range before {
					path := filepath.Join(root, filepath.FromSlash(name))
					err := os.MkdirAll(filepath.Dir(path), 0o700)
					if strings.HasSuffix(name, "/") {
						err = os.MkdirAll(path, 0o700)
					} else if err == nil {
						err = os.WriteFile(path, nil, 0o600)
					}
					must(t, err)
				}
				want := treeOf(t, root)
				r := tool{in: c.in}.run(t, append([]string{c.args[0], filepath.Join(root, "a", "b")}, c.args[1:]...)...)
				if r.code != cli.ExitTrouble || !strings.Contains(r.err, c.err) || strings.Count(r.err, "\n") != 1 {
					t.Errorf("exit %d, %q; want 2 and %q", r.code, r.err, c.err)
				}
				if got := treeOf(t, root); !slices.Equal(got, want) {
					t.Errorf("left %q, want %q", got, want)
				}
			})
		}
	}
}

func TestAnInterruptLeavesNothingOfANewStoreWithoutLines(t *testing.T) {
	for _, c := range []struct {
		command, in string
		stays       bool
	}{{"load", "a", false}, {"ingest", "a\t1\nb\t2\nc", false}, {"load", "a\t1\nb", true}} {
		root := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		in := &stuckReader{lines: strings.NewReader(c.in), stuck: cancel, end: make(chan struct{})}
		var out, errs bytes.Buffer
		a := &app{Streams: cli.Streams{In: in, Out: &out, Err: &errs}}
		if code := a.run(ctx, []string{c.command, filepath.Join(root, "new")}); code != cli.ExitInterrupted {
			t.Errorf("%s: exit %d: %s", c.command, code, &errs)
		}
		close(in.end)
		if got := treeOf(t, root); (len(got) > 0) != c.stays {
			t.Errorf("%s of %q left %q", c.command, c.in, got)
		}
		if got := errs.String(); !strings.HasPrefix(got, "bloomkv: interrupted: ") || strings.Contains(got, "context") {
			t.Errorf("%s: %q", c.command, got)
		}
	}
}

func TestAFailureLeavesAStoreThatWasThere(t *testing.T) {
	for _, lines := range []string{"a\t1\n", ""} {
		dir := newStore(t, lines)
		for _, command := range []string{"load", "ingest"} {
			if r := (tool{in: "bad\n"}).run(t, command, dir); r.code != cli.ExitTrouble {
				t.Errorf("%s: exit %d", command, r.code)
			}
			if got := (tool{}).must(t, "dump", dir); got != lines {
				t.Errorf("%s: the store has %q, want %q", command, got, lines)
			}
		}
	}
}

// TestDataOfADamagedStoreIsNotRemoved checks a store without CURRENT, which must not be mistaken for a new one.
func TestDataOfADamagedStoreIsNotRemoved(t *testing.T) {
	dir := newStore(t, "a\t1\n")
	if err := errors.Join(os.Remove(filepath.Join(dir, "CURRENT")),
		os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	before := readDir(t, dir)
	for _, command := range []string{"load", "ingest", "put"} {
		args := []string{command, dir}
		if command == "put" {
			args = append(args, "k", "v")
		}
		if r := (tool{in: "bad\n"}).run(t, args...); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, "CURRENT: offset 0: missing, but there is data") {
			t.Errorf("%s: exit %d, %q", command, r.code, r.err)
		}
		if after := readDir(t, dir); !maps.Equal(after, before) {
			t.Errorf("%s left %q, want %q", command, slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
		}
	}
}

func TestAStoreThatAnotherProcessMakesIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	lock, err := vfs.OS.Lock(filepath.Join(dir, "LOCK"))
	must(t, err)
	defer lock.Close()
	writeFile(t, filepath.Join(dir, "MANIFEST-000001"), nil)
	s := site{dir: dir, isNew: true} // as it was before the other came
	if err := s.remove(); err != nil {
		t.Error(err)
	}
	if r := (tool{}).run(t, "put", dir, "a", "1"); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, "already open") {
		t.Errorf("exit %d, %q", r.code, r.err)
	}
	if got, want := treeOf(t, dir), []string{"/LOCK", "/MANIFEST-000001"}; !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
}

// A lockWatch is a file system that calls before before a lock is taken, and after after one was
// released or refused.
type lockWatch struct {
	vfs.FS
	before, after func()
}

func (w *lockWatch) Lock(name string) (vfs.Lock, error) {
	w.before()
	lock, err := w.FS.Lock(name)
	if err != nil {
		w.after()
		return nil, err
	}
	return watchedLock{lock, w}, nil
}

type watchedLock struct {
	vfs.Lock
	watch *lockWatch
}

func (w watchedLock) Close() error {
	err := w.Lock.Close()
	w.watch.after()
	return err
}

// TestAStoreOfAnotherProcessIsNotRemoved has another process store a key in the same new store at each moment at which
// it can, while a command fails.
func TestAStoreOfAnotherProcessIsNotRemoved(t *testing.T) {
	bad := errors.New("bad line")
	for moment, want := range map[string]error{
		"before the lock is taken": bad, "with the lock": bloomkv.ErrLocked, "after the lock was released": bad,
	} {
		dir := filepath.Join(t.TempDir(), "new")
		other := func() *bloomkv.DB {
			db, err := bloomkv.Open(dir, nil)
			must(t, err)
			must(t, db.Put([]byte("a"), []byte("1")))
			return db
		}
		watch := &lockWatch{vfs.OS, func() {}, func() {}}
		switch moment {
		case "before the lock is taken":
			watch.before = func() { must(t, other().Close()) }
		case "with the lock":
			var db *bloomkv.DB
			watch.before, watch.after = func() { db = other() }, func() { must(t, db.Close()) }
		default:
			watch.after = func() { must(t, other().Close()) }
		}
		o := bloomkv.Options{FS: watch}
		err := new(writeFlags).create(t.Context(), dir, o, func(*bloomkv.DB, bool) (bool, error) { return false, bad })
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", moment, err, want)
		}
		if r := (tool{}).run(t, "get", dir, "a"); r.out != "1" {
			t.Errorf("%s: the key is gone: %s", moment, r.err)
		}
	}
}

func TestNoStoreIsMadeAmongOtherFiles(t *testing.T) {
	commands := [][]string{{"put", "DIR", "k", "v"}, {"load", "DIR"}, {"ingest", "DIR"}}
	for _, name := range []string{"notes.txt", ".hidden", "sub/", "000001.sst.bak", "evil\x1b[2J"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		err := os.MkdirAll(path, 0o700)
		if !strings.HasSuffix(name, "/") {
			err = errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600))
		}
		if err != nil {
			t.Skip(err) // a name that the system does not take
		}
		before := treeOf(t, dir)
		for _, args := range commands {
			args = slices.Clone(args)
			args[1] = dir
			r := tool{in: "a\t1\n"}.run(t, args...)
			if r.code != cli.ExitTrouble ||
				!strings.Contains(r.err, "is not a store and holds other files, such as ") ||
				strings.Contains(r.err, "\x1b") {
				t.Errorf("%s beside %q: exit %d, %q", args[0], name, r.code, r.err)
			}
			if after := treeOf(t, dir); !slices.Equal(after, before) {
				t.Errorf("%s beside %q left %q", args[0], name, after)
			}
		}
	}
	for _, name := range []string{"lost+found", ""} { // what a new file system has, and nothing
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
		tool{}.must(t, "put", dir, "k", "v")
		if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil { // later it is a store
			t.Fatal(err)
		}
		tool{}.must(t, "put", dir, "k", "v")
	}
}

func TestWhatIsNoDirectoryIsNoStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, []byte("x\n"))
	for _, args := range [][]string{
		{"get", "", "a"},
		{"scan", ""},
		{"dump", ""},
		{"count", ""},
		{"size", ""},
		{"stats", ""},
		{"check", ""},
		{"compact", ""},
		{"del", "", "a"},
		{"put", "", "a", "b"},
		{"load", ""},
		{"ingest", ""},
		{"checkpoint", "", "copy"},
	} {
		args[1] = file
		if r := (tool{}).run(t, args...); r.code != cli.ExitTrouble || r.err != "bloomkv: "+file+
			" is a file, not a store\n" {
			t.Errorf("%s: exit %d, %q", args[0], r.code, r.err)
		}
		args[1] = filepath.Join(file, "store")
		if r := (tool{}).run(t, args...); r.code != cli.ExitTrouble || strings.Contains(r.err, "CURRENT") ||
			!strings.Contains(r.err, args[1]) {
			t.Errorf("%s below a file: exit %d, %q", args[0], r.code, r.err)
		}
	}
}
