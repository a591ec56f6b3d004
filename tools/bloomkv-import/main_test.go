package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/syndtr/goleveldb/leveldb"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// A result is the outcome of a run.
type result struct {
	code     int
	out, err string
}

// run runs the program in this process.
func run(ctx context.Context, terminal bool, args ...string) result {
	var out, errs bytes.Buffer
	a := &app{cli.Streams{Out: &out, Err: &errs, OutTerminal: terminal, ErrTerminal: terminal}}
	code := a.run(ctx, args)
	return result{code, out.String(), errs.String()}
}

// stored returns the pairs of a bloomkv store.
func stored(t *testing.T, dir string) map[string]string {
	t.Helper()
	db, err := bloomkv.Open(dir, &bloomkv.Options{ReadOnly: true})
	must(t, err)
	defer db.Close()
	if first := db.Metrics().Levels[0]; first.Tables > 0 {
		t.Errorf("%d tables in level 0, want all in the last level", first.Tables)
	}
	pairs := make(map[string]string)
	for kv, err := range db.Scan(bloomkv.IterOptions{}) {
		must(t, err)
		pairs[string(kv.Key)] = string(kv.Value)
	}
	return pairs
}

// checkNothingLeft fails if the directory in which a copy failed has any file.
func checkNothingLeft(t *testing.T, parent string) {
	t.Helper()
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestACopyHoldsWhatTheStoreHolds(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			f := write(t, s.name)
			before := contents(t, f.path)
			parent := t.TempDir()
			dir := filepath.Join(parent, "new")
			r := run(t.Context(), false, "--from", s.name, f.path, dir, "--json")
			if r.code != 0 || r.err != "" {
				t.Fatalf("exit %d: %q", r.code, r.err)
			}
			if !maps.Equal(contents(t, f.path), before) {
				t.Error("the source was changed")
			}
			got := stored(t, dir)
			if !maps.Equal(got, f.pairs) {
				t.Errorf("%d pairs, want %d, or some differ", len(got), len(f.pairs))
			}
			var told report
			must(t, json.Unmarshal([]byte(r.out), &told))
			if told.Pairs != uint64(len(f.pairs)) || told.Lost != f.lost || told.From != s.name || told.Dir != dir {
				t.Errorf("reported %+v, want %d pairs, and %+v not kept", told, len(f.pairs), f.lost)
			}
			_, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{})
			must(t, err)
			if r := run(t.Context(), false, "--from", s.name, f.path, dir); r.code != 2 ||
				!strings.Contains(r.err, "exists already") {
				t.Errorf("into the same directory: exit %d, %q", r.code, r.err)
			}
			if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
				t.Errorf("beside the store: %v, %v", entries, err)
			}
		})
	}
}

// TestAStoreThatWasNotClosed copies the files of a store while it is open, as a killed process leaves them.
func TestAStoreThatWasNotClosed(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			f := writers[s.name](t, filepath.Join(t.TempDir(), "source"), true)
			dir := filepath.Join(t.TempDir(), "new")
			r := run(t.Context(), false, "--from", s.name, clone(t, f.path), dir)
			if s.name == "badger" { // whose library does not open it for reading
				if r.code != 2 || !strings.Contains(r.err, "open and close it once") {
					t.Errorf("exit %d: %q", r.code, r.err)
				}
				return
			}
			if r.code != 0 {
				t.Fatalf("exit %d: %q", r.code, r.err)
			}
			if got := stored(t, dir); !maps.Equal(got, f.pairs) {
				t.Errorf("%d pairs, want %d, or some differ", len(got), len(f.pairs))
			}
		})
	}
}

// TestAStoreInUseIsRefused lets another process, this test, have the store open.
func TestAStoreInUseIsRefused(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			f := writers[s.name](t, filepath.Join(t.TempDir(), "source"), true)
			parent := t.TempDir()
			c := exec.Command(os.Args[0], "--from", s.name, f.path, filepath.Join(parent, "new"))
			c.Env = append(os.Environ(), runVariable+"=1")
			out, err := c.CombinedOutput()
			if c.ProcessState.ExitCode() != 2 || !strings.HasSuffix(string(out), f.path+": "+errInUse.Error()+"\n") {
				t.Errorf("%v: %s", err, out)
			}
			checkNothingLeft(t, parent)
		})
	}
}

// runVariable is set in the environment of a process of this test that is the program.
const runVariable = "BLOOMKV_IMPORT_RUN"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(runVariable) != "":
		main()
		os.Exit(0)
	case len(os.Args) > 1 && os.Args[1] == readerArg:
		stores = append(stores, fakes...)
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestWhatIsNoStoreIsRefusedAndLeftAlone(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	must(t, os.Mkdir(empty, 0o700))
	text := filepath.Join(t.TempDir(), "text")
	must(t, os.WriteFile(text, bytes.Repeat([]byte("no store\n"), 2000), 0o600))
	none := filepath.Join(t.TempDir(), "none")
	nothing := filepath.Join(t.TempDir(), "nothing")
	must(t, os.WriteFile(nothing, nil, 0o600))
	paths := map[string]string{
		"an empty directory": empty, "a text": text, "an absent path": none, "an empty file": nothing,
	}
	for _, s := range stores {
		paths["a store of "+s.name] = write(t, s.name).path
	}
	ours := filepath.Join(t.TempDir(), "ours")
	db, err := bloomkv.Open(ours, nil)
	must(t, err)
	must(t, db.Put([]byte("key"), nil))
	must(t, db.Close())
	paths["a store of bloomkv"] = ours
	for _, s := range stores {
		for name, path := range paths {
			if name == "a store of "+s.name {
				continue
			}
			t.Run(name+" as "+s.name, func(t *testing.T) {
				path, before := path, map[string]string(nil)
				if path != none {
					path = clone(t, path)
					before = contents(t, path)
				}
				parent := t.TempDir()
				r := run(t.Context(), false, "--from", s.name, path, filepath.Join(parent, "new"))
				if r.code != 2 || !strings.HasPrefix(r.err, "bloomkv-import: "+path+": ") || r.out != "" {
					t.Errorf("exit %d: %q", r.code, r.err)
				}
				t.Log(r.err)
				checkNothingLeft(t, parent)
				if path != none && !maps.Equal(contents(t, path), before) {
					t.Error("the source was changed")
				}
			})
		}
	}
}

func TestWrongUsage(t *testing.T) {
	f := write(t, "bbolt")
	inside := write(t, "goleveldb").path
	parent := t.TempDir()
	dir := filepath.Join(parent, "new")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{f.path, dir}, "--from is missing"},
		{[]string{"--from", "rocksdb", f.path, dir}, "want one of goleveldb, pebble, badger, bbolt; see"},
		{[]string{"--from", "bbolt", f.path}, "NEW is missing"},
		{[]string{"--from", "bbolt", f.path, dir, dir}, "one argument too many"},
		{[]string{"--form", "bbolt", f.path, dir}, "did you mean --from?"},
		{[]string{"--from", "bbolt", f.path, filepath.Join(dir, "deeper")}, dir + ": no such file or directory"},
		{[]string{"--from", "goleveldb", inside, filepath.Join(inside, "new")}, "lies inside"},
	} {
		r := run(t.Context(), false, c.args...)
		if r.code != 2 || !strings.Contains(r.err, c.want) || r.out != "" {
			t.Errorf("%q: exit %d, %q, want 2, %q", c.args, r.code, r.err, c.want)
		}
	}
	checkNothingLeft(t, parent)
}

func TestTextAndProgress(t *testing.T) {
	f := write(t, "badger")
	for _, terminal := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "new")
		r := run(t.Context(), terminal, "--from", "badger", f.path, dir)
		if r.code != 0 || !strings.Contains(r.out, "pairs from badger") || !strings.Contains(r.out, "SHA-256 ") ||
			!strings.Contains(r.out, "note: left out, because their time to live is over: 1\n") {
			t.Errorf("exit %d: %q", r.code, r.out)
		}
		if bars := strings.Contains(r.err, "copying") && strings.Contains(r.err, "reading again"); bars != terminal {
			t.Errorf("on a terminal %v: %q", terminal, r.err)
		}
	}
	if r := run(t.Context(), false, "--version"); !strings.HasPrefix(r.out, "bloomkv-import ") {
		t.Errorf("version: %q", r.out)
	}
}

// TestTablesWithoutAManifestRecordAreNotLost adds a table that the manifest does not name. Badger would remove it.
func TestTablesWithoutAManifestRecordAreNotLost(t *testing.T) {
	for _, c := range []struct{ from, want string }{
		{"badger", "open and close it once"}, {"pebble", "777777.sst is not in the manifest"},
	} {
		path := clone(t, write(t, c.from).path)
		must(t, os.WriteFile(filepath.Join(path, "777777.sst"), []byte("a table"), 0o600))
		before := contents(t, path)
		parent := t.TempDir()
		r := run(t.Context(), false, "--from", c.from, path, filepath.Join(parent, "new"))
		if r.code != 2 || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: exit %d, %q, want 2, %q", c.from, r.code, r.err, c.want)
		}
		if !maps.Equal(contents(t, path), before) {
			t.Errorf("%s: the source was changed", c.from)
		}
		checkNothingLeft(t, parent)
	}
}

func TestWhatAStoreOfOursCannotHoldIsAnError(t *testing.T) {
	long := filepath.Join(t.TempDir(), "long")
	level, err := leveldb.OpenFile(long, nil)
	must(t, err)
	must(t, level.Put(make([]byte, bloomkv.MaxKeySize+1), nil, nil))
	must(t, level.Close())
	ranges := filepath.Join(t.TempDir(), "ranges")
	db, err := pebble.Open(ranges, &pebble.Options{Logger: silent{}, FormatMajorVersion: pebble.FormatNewest})
	must(t, err)
	must(t, db.RangeKeySet([]byte("a"), []byte("b"), nil, []byte("value"), nil))
	must(t, db.Close())
	for _, c := range []struct{ from, path, want string }{
		{"goleveldb", long, "… (65537 bytes), bloomkv stores keys of at most 65536 bytes"},
		{"pebble", ranges, ranges + ": range keys, the first at a"},
	} {
		parent := t.TempDir()
		r := run(t.Context(), false, "--from", c.from, c.path, filepath.Join(parent, "new"))
		if r.code != 2 || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: exit %d, %q, want 2, %q", c.from, r.code, r.err, c.want)
		}
		checkNothingLeft(t, parent)
	}
}

func TestAnInterruptLeavesNothing(t *testing.T) {
	for _, s := range stores {
		f := write(t, s.name)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		parent := t.TempDir()
		r := run(ctx, false, "--from", s.name, f.path, filepath.Join(parent, "new"))
		if r.code != cli.ExitInterrupted || !strings.HasPrefix(r.err, "bloomkv-import: interrupted") {
			t.Errorf("%s: exit %d, %q", s.name, r.code, r.err)
		}
		checkNothingLeft(t, parent)
	}
}
