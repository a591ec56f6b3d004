package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
)

// flip damages a byte of a file.
func flip(t *testing.T, path string, at int) {
	t.Helper()
	b := readFile(t, path)
	b[(at+len(b))%len(b)] ^= 0x20
	writeFile(t, path, b)
}

// TestTheAdviceNamesTheDamagedStore damages the manifest of one store.
func TestTheAdviceNamesTheDamagedStore(t *testing.T) {
	dir, damaged := newStore(t, "a\t1\n"), newStore(t, "b\t2\n")
	manifests, _ := filepath.Glob(filepath.Join(damaged, "MANIFEST-*"))
	flip(t, manifests[0], 40)
	for _, args := range [][]string{
		{"export", dir, filepath.Join(t.TempDir(), "file"), "--since", damaged},
		{"digest", dir, "--lacking-in", damaged},
		{"digest", damaged},
		{"inspect", damaged},
		{"count", damaged},
	} {
		if r := (tool{}).run(t, args...); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, fmt.Sprintf(salvageHelp, damaged)) {
			t.Errorf("%q: exit %d, %s", args, r.code, r.err)
		}
	}
}

func TestDamageOfASingleTableNamesItsFile(t *testing.T) {
	table := sstFiles(t, newStore(t, manyLines(2000)))[0]
	flip(t, table, 5000)
	if r := (tool{}).run(t, "count", table); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, filepath.Base(table)+": offset ") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}

func TestSalvageTellsWhatIsLostAndSavesTheRest(t *testing.T) {
	var lines strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&lines, "key%04d\tvalue of %d\n", i, i*i)
	}
	dir := newStore(t, lines.String())
	want := tool{}.must(t, "scan", dir)
	saved := filepath.Join(t.TempDir(), "saved")
	if out := (tool{}).must(t, "salvage", dir, saved); !strings.HasPrefix(out, saved+": 2,000 keys in ") ||
		strings.Contains(out, "lost") {
		t.Errorf("of a whole store it printed\n%s", out)
	}
	if got := (tool{}).must(t, "scan", saved); got != want {
		t.Error("the salvaged store holds something else")
	}
	flip(t, sstFiles(t, dir)[0], 100)
	advice := fmt.Sprintf(salvageHelp, dir)
	r := tool{}.run(t, "check", dir)
	if r.code != cli.ExitTrouble || !strings.HasSuffix(r.err, "bloomkv: "+advice+"\n") ||
		strings.Count(r.err, advice) != 1 {
		t.Errorf("check: exit %d, %s", r.code, r.err)
	}
	if r := (tool{}).run(t, "get", dir, "key0000"); r.code != cli.ExitTrouble || !strings.Contains(r.err, advice) {
		t.Errorf("get: exit %d, %s", r.code, r.err)
	}
	r = tool{}.run(t, "salvage", dir, saved)
	if r.code != cli.ExitTrouble || !strings.Contains(r.err, "not an empty directory") {
		t.Errorf("into a store that is there: exit %d, %s", r.code, r.err)
	}
	rest := filepath.Join(t.TempDir(), "rest")
	r = tool{}.run(t, "salvage", dir, rest)
	if r.code != exitAbsent || !strings.Contains(r.err, errLost.Error()) || strings.Contains(r.err, advice) ||
		!strings.Contains(r.out, "\nlost: "+filepath.Base(sstFiles(t, dir)[0])+": offset 0: data block, ") ||
		!strings.Contains(r.out, "keys from key0000 to key0") || !strings.Contains(r.out, "note: ") {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	tool{}.must(t, "check", rest)
	if got := (tool{}).must(t, "scan", rest); len(got) < len(want)*9/10 || !strings.HasSuffix(want, got) {
		t.Errorf("of %d bytes %d were saved, want all but the first block", len(want), len(got))
	}
	r = tool{}.run(t, "salvage", "--json", dir, filepath.Join(t.TempDir(), "json"))
	var report struct {
		Whole bool
		Keys  int
		Lost  []salvageLoss
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != exitAbsent || report.Whole ||
		report.Keys == 0 ||
		len(report.Lost) != 1 || report.Lost[0].Lower != "key0000" || report.Lost[0].Upper == "" ||
		report.Lost[0].Bytes == 0 {
		t.Errorf("exit %d, %v: %s", r.code, err, r.out)
	}
	if r := (tool{}).run(t, "salvage", t.TempDir(), filepath.Join(t.TempDir(), "x")); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, "no store here") {
		t.Errorf("of nothing: exit %d, %s", r.code, r.err)
	}
}

func TestSalvageKeepsTheOptionsForFilters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	tool{in: "a/1\tx\na/2\ty\n"}.must(t, "load", dir, "--fpr", "0.05", "--filter-prefix", "sep:/:1")
	saved := filepath.Join(t.TempDir(), "saved")
	tool{}.must(t, "salvage", dir, saved)
	if out := (tool{}).must(t, "inspect", sstFiles(t, saved)[0]); !strings.Contains(out, "sep:/:1") {
		t.Errorf("the new table has no prefix filter:\n%s", out)
	}
}

func TestATableIsReadByItself(t *testing.T) {
	dir := newStore(t, "a\t1\nb\t2\nc\t3\nd\t4\n")
	tool{}.must(t, "put", dir, "b", "two")
	tool{}.must(t, "del", dir, "c")
	tool{}.must(t, "compact", dir)
	table := sstFiles(t, dir)[0]
	r := tool{}.run(t, "scan", table)
	if r.code != cli.ExitOK || r.out != "a\t1\nb\ttwo\nd\t4\n" || !strings.Contains(r.err, "reading a single table") {
		t.Errorf("scan: exit %d, %q, %s", r.code, r.out, r.err)
	}
	if got := (tool{}).must(t, "scan", "--reverse", "--from", "b", "--limit", "1", table); got != "d\t4\n" {
		t.Errorf("scan backward: %q", got)
	}
	if got := (tool{}).must(t, "dump", table); got != "a\t1\nb\ttwo\nd\t4\n" {
		t.Errorf("dump: %q", got)
	}
	if got := (tool{}).must(t, "get", table, "b"); got != "two" {
		t.Errorf("get: %q", got)
	}
	if r := (tool{}).run(t, "get", table, "c"); r.code != exitAbsent {
		t.Errorf("get of what is not there: exit %d, %s", r.code, r.err)
	}
	link := filepath.Join(t.TempDir(), "link.sst")
	if err := os.Symlink(table, link); err != nil {
		t.Skip(err)
	}
	if got := (tool{}).must(t, "get", link, "b"); got != "two" {
		t.Errorf("get by a link: %q", got)
	}
	flip(t, table, 3)
	if r := (tool{}).run(t, "scan", table); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, fmt.Sprintf(salvageHelp, "DIR")) {
		t.Errorf("damaged: exit %d, %s", r.code, r.err)
	}
	flip(t, table, -3)
	if r := (tool{}).run(t, "scan", table); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, filepath.Base(table)) {
		t.Errorf("without a footer: exit %d, %s", r.code, r.err)
	}
}

// A table that was not compacted has several versions of a key, tombstones and range deletes.
func TestOfATableTheNewestVersionIsShown(t *testing.T) {
	dir := newStore(t, "")
	_ = os.RemoveAll(dir)
	tool{in: "a\told\nb\t2\nc\t3\nd\t4\n"}.must(t, "load", dir)
	before := map[string]bool{}
	for _, p := range sstFiles(t, dir) {
		before[p] = true
	}
	tool{}.must(t, "del", dir, "--from", "b", "--to", "d")
	for _, p := range sstFiles(t, dir) {
		if before[p] {
			continue
		}
		if r := (tool{}).run(t, "scan", p); r.code != cli.ExitOK || r.out != "" {
			t.Errorf("a table of a range delete alone: exit %d, %q, %s", r.code, r.out, r.err)
		}
		return
	}
	t.Error("no new table")
}
