package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

func readStore(t *testing.T, dir string, args ...string) (r result, s inspect.Store) {
	t.Helper()
	args = append([]string{"inspect", dir}, args...)
	r = tool{}.run(t, append(args, "--json")...)
	if r.out != "" {
		must(t, json.Unmarshal([]byte(r.out), &s))
	}
	text := tool{}.run(t, args...)
	if text.code != r.code || text.err != r.err {
		t.Errorf("text: exit %d, %q; JSON: exit %d, %q", text.code, text.err, r.code, r.err)
	}
	r.out = oneLine(text.out)
	return r, s
}

func write(t *testing.T, dir, base, content string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, base), []byte(content))
}

// TestOpeningDoesWithFilesWhatInspectSays opens the store and checks what has become of the files.
func TestOpeningDoesWithFilesWhatInspectSays(t *testing.T) {
	dir := newStore(t, manyLines(300))
	evil := "a\x1b[2J\nb"
	for _, base := range []string{
		"000050.sst", "000001.log", "000007.tmp", "MANIFEST-000001", "notes.txt", "1.sst",
		evil,
	} {
		write(t, dir, base, "left")
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "000051.sst"), 0o700),
		os.Symlink("000051.sst", filepath.Join(dir, "000052.sst"))); err != nil {
		t.Fatal(err)
	}
	r, s := readStore(t, dir)
	if r.code != cli.ExitOK || len(s.Others) != 9 || s.Opening.Refused != nil || s.Opening.Records != 0 {
		t.Fatalf("exit %d, %q, %+v, %+v", r.code, r.err, s.Others, s.Opening)
	}
	for _, want := range []string{
		"000050.sst: kind: table; bytes: 4; when opened: removed; details: no level has it",
		"notes.txt: kind: unknown; bytes: 4; when opened: kept; details: not the name",
		"000051.sst: kind: drwx------; bytes: 0; when opened: removed",
		`a\x1b[2J\nb: kind: unknown; bytes: 4; when opened: kept`,
		"opening the store replays nothing: all data is in tables",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("lacks %q:\n%s", want, r.out)
		}
	}
	db, err := bloomkv.Open(dir, nil)
	must(t, errors.Join(err, db.Close()))
	for _, f := range s.Others {
		name, err := inspect.ParseKey(f.File)
		must(t, err)
		_, err = os.Lstat(filepath.Join(dir, string(name)))
		if gone := errors.Is(err, fs.ErrNotExist); gone != (f.Fate == "removed") {
			t.Errorf("%+v: gone %v", f, gone)
		}
	}
}

// inspectOneByOne ends the error of a store whose manifest cannot be read.
const inspectOneByOne = "; tables and logs can be inspected one by one"

// TestOpeningIsRefusedWhereInspectSaysSo damages stores, inspects them, and opens them.
func TestOpeningIsRefusedWhereInspectSaysSo(t *testing.T) {
	to := func(content string) func([]byte) []byte {
		return func([]byte) []byte { return []byte(content) }
	}
	remove := func([]byte) []byte { return nil }
	for _, c := range []struct {
		name    string
		files   []string // patterns; what matches none is a new file
		change  func(b []byte) []byte
		refused string // in the reason; "" is not refused
		want    string // in the text
	}{
		{"nothing is", nil, nil, "", "opening the store replays 2 records of logs"},
		{"a table is missing", []string{"*.sst"}, remove, "missing, the manifest names it", "! missing: "},
		{
			"a table is cut short",
			[]string{"*.sst"},
			func(b []byte) []byte { return b[:100] },
			"100 bytes, the manifest wants ", "! opening the store is refused: ",
		},
		{
			"a table that the manifest cannot know",
			[]string{"099999.sst"},
			to(""), "the manifest is older than the data",
			"099999.sst: kind: table; bytes: 0; when opened: kept; details: no level has it, and opening is refused",
		},
		{
			"the log is missing",
			[]string{"*.log"},
			remove, "missing, the manifest names it",
			".log, which the manifest names",
		},
		{"the log's last record is torn", []string{"*.log"}, func(b []byte) []byte {
			b = bytes.TrimRight(b, "\x00")
			return b[:len(b)-1]
		}, "", "replays 1 record of logs, and discards what follows them"},
		{
			"the log's first record is damaged",
			[]string{"*.log"},
			func(b []byte) []byte { b[60] ^= 1; return b },
			"payload checksum", ": At offset 32: ",
		},
		{"CURRENT is missing", []string{"CURRENT"}, remove, "missing, but there is data (", inspectOneByOne},
		{"CURRENT is empty", []string{"CURRENT"}, to(""), `"", want the name of a manifest`, inspectOneByOne},
		{
			"CURRENT is LevelDB's",
			[]string{"CURRENT"},
			func(b []byte) []byte { return append(bytes.Fields(b)[0], '\n') },
			"want the name of a manifest and its checksum", inspectOneByOne,
		},
		{
			"CURRENT has a foreign name",
			[]string{"CURRENT"},
			to("../../etc/passwd 00000000\n"),
			"want the name of a manifest", inspectOneByOne,
		},
		{
			"CURRENT is huge",
			[]string{"CURRENT"},
			to(strings.Repeat("\x1b[2J", 1<<20)), "CURRENT: offset 0",
			inspectOneByOne,
		},
		{"CURRENT names what is not there", []string{"MANIFEST-*"}, remove, "which is not there", inspectOneByOne},
		{
			"the manifest is damaged",
			[]string{"MANIFEST-*"},
			func(b []byte) []byte { b[70] ^= 1; return b },
			"payload checksum", inspectOneByOne,
		},
		{"the manifest is empty", []string{"MANIFEST-*"}, to(""), "file header", inspectOneByOne},
		{
			"the manifest is foreign, and so is the table",
			[]string{"MANIFEST-*", "*.sst"},
			to(strings.Repeat("\x1b[2J", 1000)), "file header", inspectOneByOne,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newStore(t, manyLines(300))
			db, err := bloomkv.Open(dir, nil)
			must(t, err)
			must(t, errors.Join(db.Put([]byte("k"), nil), db.Put([]byte("l"), nil)))
			left := filepath.Join(t.TempDir(), "left") // as a kill would leave it
			must(t, os.CopyFS(left, os.DirFS(dir)))
			must(t, db.Close())
			for _, pattern := range c.files {
				name := filepath.Join(left, pattern)
				if found, _ := filepath.Glob(name); len(found) == 1 {
					name = found[0]
				}
				b, _ := os.ReadFile(name)
				if b = c.change(b); b == nil {
					_ = os.Remove(name)
				} else {
					write(t, left, filepath.Base(name), string(b))
				}
			}
			r, s := readStore(t, left, "--verify", "--key", "key/000007")
			if (r.code == cli.ExitTrouble) != (c.refused != "") || !strings.Contains(r.out+r.err, c.want) {
				t.Fatalf("exit %d, %q, %+v, want %q:\n%s", r.code, r.err, s.Opening, c.want, r.out)
			}
			said, _, alone := strings.Cut(strings.TrimPrefix(r.err, "bloomkv: "), inspectOneByOne)
			switch { // without a manifest there is nothing but the error
			case alone != (c.want == inspectOneByOne) || alone && r.out != "":
				t.Errorf("%s\n%s", r.err, r.out)
			case !alone && (s.Opening.Refused != nil) != (c.refused != ""):
				t.Fatalf("%+v, want %q", s.Opening, c.refused)
			case s.Opening.Refused != nil:
				said = s.Opening.Refused.Error
			}
			db, err = bloomkv.Open(left, nil)
			if c.refused == "" {
				if err := errors.Join(err, db.Close()); err != nil {
					t.Errorf("opened: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Fatalf("opened: %v, want %q", err, c.refused)
			}
			if !strings.HasSuffix(string(words.AppendPrintable(nil, []byte(err.Error()))), said) {
				t.Errorf("opened: %v; said before: %s", err, said)
			}
		})
	}
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if r := (tool{}).run(t, "inspect", dir); r.code != cli.ExitTrouble || r.out != "" ||
			!strings.Contains(r.err, "no such file") {
			t.Errorf("no store: exit %d, %q", r.code, r.err)
		}
	}
}

// TestAStoreThatChangesIsNotDamaged inspects a store repeatedly while it is written, flushed and compacted.
func TestAStoreThatChangesIsNotDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db, err := bloomkv.Open(dir, &bloomkv.Options{
		MemtableSize: 64 << 10, TableSize: 64 << 10, BaseLevelSize: 128 << 10, LevelRatio: 4,
		Compression: bloomkv.CompressionNone, Durability: bloomkv.DurabilityNoSync,
	})
	must(t, err)
	// Each look is taken beside writes that fill a memtable and more, so that flushes and compactions go on beside it
	// on any machine. Keys are overwritten: in a growing store each inspection would take longer than the one before.
	const keys, looks, each = 5_000, 30, 500
	levels, written := map[int]bool{}, 0
	for i := range looks {
		var writer sync.WaitGroup
		writer.Go(func() {
			for range each {
				key := fmt.Appendf(nil, "%016x", uint64(written%keys)*0x9e3779b97f4a7c15)
				must(t, db.Put(key, make([]byte, 200)))
				written++
			}
		})
		r := tool{}.run(t, "inspect", dir, "--json", "--key", "8000000000000000", fmt.Sprintf("--verify=%v", i%3 == 0))
		writer.Wait()
		if r.code != cli.ExitOK {
			t.Errorf("look %d: exit %d, %s", i, r.code, r.err)
			break
		}
		var s inspect.Store
		must(t, json.Unmarshal([]byte(r.out), &s))
		for _, table := range s.Tables {
			levels[*table.Level] = true
		}
		for _, name := range s.Missing {
			t.Errorf("look %d: %s is missing", i, name)
		}
	}
	m := db.Metrics().Writes
	t.Logf("%d looks at %d levels, beside %d flushes and %d compactions", looks, len(levels), m.Flushes, m.Compactions)
	if len(levels) < 3 || m.Compactions == 0 {
		t.Errorf("%d looks at levels %v, beside %d compactions, want three levels and some", looks, levels,
			m.Compactions)
	}
	must(t, db.Close())
}
