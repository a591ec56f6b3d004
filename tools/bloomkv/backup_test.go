package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/backup"
	"github.com/bloomkv/bloomkv/internal/stream"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestGenerationsAreMadePrunedAndRestored(t *testing.T) {
	dir := uncleanStore(t, true)
	tmp := t.TempDir()
	target := filepath.Join(tmp, "back@ups")
	if out := (tool{}).must(t, "backup", dir, target); !strings.HasPrefix(out, "generation 1: ") {
		t.Errorf("printed %q", out)
	}
	tool{}.must(t, "put", dir, "c", "4")
	if out := (tool{}).must(t, "backup", "--verify", dir, target); !strings.Contains(out, "1 of them new") {
		t.Errorf("printed %q, want one new table", out)
	}
	const want = "a\t1\nb\t3\n"
	for from, want := range map[string]string{"@1": want, "@2": want + "c\t4\n", "": want + "c\t4\n"} {
		fresh := filepath.Join(tmp, "new"+from)
		tool{}.must(t, "restore", target+from, fresh)
		if got := (tool{}).must(t, "dump", fresh); got != want {
			t.Errorf("%q has %q, want %q", from, got, want)
		}
	}
	tool{}.must(t, "backup", "--prune", "1", dir, target)
	for _, c := range []struct{ from, want string }{
		{target + "@1", "bloomkv: no generation 1; there is only 3"},
		{target + "@0", "bloomkv: no generation 0; there is only 3"},
		{target + "@x", `bloomkv: generation "x": want a whole number; there is only 3`},
		{target + "@", `bloomkv: generation "": want a whole number; there is only 3`},
		{filepath.Join(tmp, "none"), "none: no such file or directory"},
		{dir, "has no backups"},
	} {
		if r := (tool{}).run(t, "restore", c.from, filepath.Join(tmp, "x")); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, c.want) {
			t.Errorf("restore %s: exit %d, %q, want %q", c.from, r.code, r.err, c.want)
		}
	}
	names, err := filepath.Glob(filepath.Join(target, "tables", "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	b, err := os.ReadFile(names[0])
	if err == nil {
		b[len(b)/2] ^= 1
		err = os.WriteFile(names[0], b, 0o600)
	}
	must(t, err)
	before, err := os.ReadDir(filepath.Join(target, "generations"))
	must(t, err)
	if r := (tool{}).run(t, "backup", "--verify", "--prune", "1", dir, target); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, "checksum") || strings.Contains(r.err, "salvage") {
		t.Errorf("a damaged table: exit %d, %q", r.code, r.err)
	}
	if after, err := os.ReadDir(filepath.Join(target, "generations")); err != nil || len(after) != len(before)+1 {
		t.Errorf("after Verify has failed: %d generations, %v; want all %d", len(after), err, len(before)+1)
	}
}

func TestGenerationsAreListed(t *testing.T) {
	dir, target := newStore(t, "a\t1\n"), filepath.Join(t.TempDir(), "target")
	size := 0
	for i := range 5 {
		tool{}.must(t, "put", dir, "b", strconv.Itoa(i))
		tool{}.must(t, "backup", dir, target)
	}
	for _, table := range sstFiles(t, dir) {
		size += len(readFile(t, table))
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	must(t, os.Remove(filepath.Join(target, "generations", "00000002")))
	must(t, os.Chtimes(filepath.Join(target, "generations", "00000005"), at, at))
	lines := strings.Split(tool{}.must(t, "backups", target), "\n")
	if len(lines) != 6 || strings.Fields(lines[1])[0] != "1" || !strings.HasPrefix(strings.TrimSpace(lines[4]),
		"5  2026-01-02 03:04:05       6  ") {
		t.Errorf("got %q, want generations 1, 3, 4 and 5", lines)
	}
	want := fmt.Sprintf(`{"generation":5,"stored_at":"2026-01-02T03:04:05Z","tables":6,"bytes":%d}]}`, size)
	if out := oneLine(tool{}.must(t, "backups", target, "--json")); !strings.HasSuffix(strings.ReplaceAll(out, " ", ""),
		want) {
		t.Errorf("got %s, want %s at the end", out, want)
	}
	if r := (tool{}).run(t, "restore", target+"@2", filepath.Join(target, "x")); r.err !=
		"bloomkv: no generation 2; there are 1, 3 to 5\n" {
		t.Errorf("restore of one that is missing: %q", r.err)
	}
	if r := (tool{}).run(t, "backups", dir); r.code != cli.ExitTrouble || !strings.Contains(r.err, "has no backups") {
		t.Errorf("backups of a store: exit %d, %q", r.code, r.err)
	}
}

func TestABackupIntoItsOwnStoreIsRefused(t *testing.T) {
	dir := newStore(t, "a\t1\n")
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	before := readDir(t, dir)
	for _, target := range []string{
		dir, filepath.Join(dir, "x"), filepath.Join(dir, "x", "y"), filepath.Join(link, "x"),
	} {
		if r := (tool{}).run(t, "backup", dir, target); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, "lies inside the directory of the store") {
			t.Errorf("backup to %s: exit %d, %q", target, r.code, r.err)
		}
	}
	if after := readDir(t, dir); !maps.Equal(after, before) {
		t.Error("the store is changed")
	}
	tool{}.must(t, "backup", dir, dir+"2") // beside it
}

func TestBackupsAreReadBesideReadersAlone(t *testing.T) {
	dir, tmp := newStore(t, "a\t1\n"), t.TempDir()
	target := filepath.Join(tmp, "target")
	tool{}.must(t, "backup", dir, target)
	reads := [][]string{{"backups", target}, {"restore", target, filepath.Join(tmp, "new")}}
	reader, err := backup.OpenDirToRead(nil, target)
	must(t, err)
	for _, args := range reads {
		tool{}.must(t, args...)
	}
	must(t, reader.Close())
	writer, err := backup.OpenDir(nil, target)
	must(t, err)
	defer writer.Close()
	for _, args := range append(reads, []string{"backup", dir, target}) {
		if r := (tool{}).run(t, args...); r.err != "bloomkv: "+target+": another backup or restore has it open\n" {
			t.Errorf("%q beside a writer: exit %d, %q", args, r.code, r.err)
		}
	}
}

func TestACopyThatWasNotCheckedSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := newStore(t, "a\t1\n")
	err := (&app{}).checkCopy(ctx, dir, 0)
	if want := dir + " is complete, but was not checked: "; !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q and that it was canceled", err, want)
	}
}

// TestACopyOfADamagedStoreSaysSo damages a table of a store, of an export, and of a backup, with right checksums of the
// last two.
func TestACopyOfADamagedStoreSaysSo(t *testing.T) {
	dir, tmp := newStore(t, "a\t1\nb\t2\n"), t.TempDir()
	file, target := filepath.Join(tmp, "export"), filepath.Join(tmp, "target")
	tool{}.must(t, "export", dir, file)
	tool{}.must(t, "backup", dir, target)
	in, err := stream.NewReader(bytes.NewReader(readFile(t, file)))
	must(t, err)
	var table []byte
	must(t, in.Table(in.Header.Tables[0].Size, func(p []byte) error {
		table = append(table, p...)
		return nil
	}))
	table[3] ^= 1
	w, err := stream.NewWriter(in.Header)
	must(t, err)
	var damaged bytes.Buffer
	_, err = w.Write(&damaged, func(int) (io.ReaderAt, string, error) { return bytes.NewReader(table), "", nil })
	must(t, err)
	writeFile(t, file, damaged.Bytes())
	names, err := filepath.Glob(filepath.Join(target, "tables", "*"))
	must(t, err)
	table = binary.LittleEndian.AppendUint32(table, crc32.Checksum(table, crc32.MakeTable(crc32.Castagnoli)))
	writeFile(t, names[0], table)
	other := filepath.Join(tmp, "other")
	tool{}.must(t, "checkpoint", dir, other)
	flip(t, sstFiles(t, dir)[0], 3)

	for _, c := range []struct {
		args []string
		made bool
	}{
		{[]string{"export", dir, filepath.Join(tmp, "new.export")}, false},
		{[]string{"backup", dir, filepath.Join(tmp, "new.target")}, false},
		{[]string{"import", filepath.Join(tmp, "imported"), file}, true},
		{[]string{"restore", target, filepath.Join(tmp, "restored")}, true},
		{[]string{"backup", "--verify", other, target}, false},
	} {
		r := tool{}.run(t, c.args...)
		if r.code != cli.ExitTrouble || !strings.Contains(r.err, "checksum") {
			t.Errorf("%q: exit %d, %q; want %d and damage", c.args, r.code, r.err, cli.ExitTrouble)
		}
		if c.made && !strings.Contains(oneLine(r.err), "is complete, and is damaged as its original was") {
			t.Errorf("%q: %q, want that a store was made", c.args, r.err)
		}
	}
	if _, err := os.Stat(filepath.Join(tmp, "new.export")); err == nil {
		t.Error("a damaged store was exported")
	}
	for _, made := range []string{"imported", "restored"} {
		if r := (tool{}).run(t, "check", filepath.Join(tmp, made)); r.code != cli.ExitTrouble {
			t.Errorf("check %s: exit %d", made, r.code)
		}
	}
}
