package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// logOf returns a copy of the log of an open store without its reserved zeros: three synced records, and one that no
// later record confirms.
func logOf(t *testing.T) (name string, b []byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	defer db.Close()
	var batch bloomkv.Batch
	batch.Put([]byte("b"), []byte("some value"))
	batch.Delete([]byte("c\x1b[2J"))
	batch.DeleteRange(bloomkv.KeyRange{Lower: []byte("d"), Upper: []byte("e")})
	batch.DeleteRange(bloomkv.KeyRange{})
	if err := errors.Join(db.Put([]byte("a"), []byte("1")), db.Apply(&batch), db.Put([]byte("f"), nil),
		db.Delete([]byte("f"))); err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(glob(t, dir, "*.log")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(t.TempDir(), filepath.Base(glob(t, dir, "*.log"))), bytes.TrimRight(b, "\x00")
}

// fixHeader corrects the checksums of a record at an offset of a log, as defined in package wal.
func fixHeader(b []byte, number uint64, at, payload int) {
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(b[at+24:][:payload], table))
	seed := uint32((number*0x9e3779b97f4a7c15 ^ uint64(at)*0xc2b2ae3d27d4eb4f) >> 32)
	binary.LittleEndian.PutUint32(b[at:], crc32.Update(seed, table, b[at+4:at+24]))
}

// transcript returns what a run prints, with its exit code, as text and as JSON with the same errors.
func transcript(t *testing.T, args ...string) string {
	t.Helper()
	text, object := tool{}.run(t, args...), tool{}.run(t, append(args, "--json")...)
	if object.code != text.code || object.err != text.err {
		t.Errorf("%q: exit %d, %q; with --json exit %d, %q", args, text.code, text.err, object.code, object.err)
	}
	return fmt.Sprintf("%s%sexit %d\n%s", text.out, text.err, text.code, object.out)
}

// TestGoldenLogs inspects a log as it was written, operation by operation, and damaged in many ways: where it is
// damaged, what follows, and what opening the store would do.
func TestGoldenLogs(t *testing.T) {
	name, whole := logOf(t)
	writeFile(t, name, whole)
	_, number := filename.Parse(filepath.Base(name))
	l, err := inspect.ReadLog(t.Context(), name, number, inspect.Options{})
	must(t, err)
	at := func(i int) int { return int(l.List[i].Offset) }
	var got strings.Builder
	for _, c := range []struct {
		what   string
		change func(b []byte) []byte
	}{
		{"nothing is damaged", func(b []byte) []byte { return b }},
		{"a bit of a record that a later one promises", func(b []byte) []byte { b[at(1)+30] ^= 1; return b }},
		{"a header in the middle", func(b []byte) []byte { clear(b[at(1):][:24]); return b }},
		{"a bit of the last record", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }},
		{"a last record cut short", func(b []byte) []byte { return b[:len(b)-1] }},
		{"a record that is whole and no batch", func(b []byte) []byte {
			b[at(1)+24+12] = 9
			fixHeader(b, number, at(1), l.List[1].Bytes)
			return b
		}},
		{"a record that does not follow", func(b []byte) []byte {
			b[at(2)+24]++
			fixHeader(b, number, at(2), l.List[2].Bytes)
			return b
		}},
		{"the file is empty", func([]byte) []byte { return nil }},
		{"zeros", func([]byte) []byte { return make([]byte, 100) }},
		{"a foreign file", func([]byte) []byte {
			return append([]byte("SQLite format 3\x00"), make([]byte, 100)...)
		}},
	} {
		writeFile(t, name, c.change(bytes.Clone(whole)))
		fmt.Fprintf(&got, "==== %s\n\n%s\n", c.what, transcript(t, "inspect", name, "--entries"))
	}
	testkit.Golden(t, filepath.Join("testdata", "logs.txt"), got.String())
}

func TestAForeignFileIsToldByItsBytes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, content, want string }{
		{
			"000001.log", "\x1f\x8b\x08\x00\x1b[2Jxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
			`want it to begin with "bloomwal": it begins with "\x1f`,
		},
		{
			"MANIFEST-000001", "leveldb.BytewiseComparator, and more of it, and more",
			`it begins with "leveldb.BytewiseCom`[:20],
		},
		{"000001.sst", "SQLite format 3\x00" + strings.Repeat("x", 100), `as does an SQLite database`},
		{
			"000001.sst", "anything" + strings.Repeat("x", 100) + "\x57\xfb\x80\x8b\x24\x75\x47\xdb",
			"as does a table of LevelDB or goleveldb",
		},
		{
			"renamed.sst", "bloomwal" + strings.Repeat("x", 100),
			"as does a log or a manifest of this store",
		},
		{"000001.sst", "", "it is empty"},
		{"000001.sst", strings.Repeat("\x00", 5000), "as does a file that was never written"},
		{"short.ldb", "hello\x1b", `it begins with "hello\x1b"`},
	} {
		name := filepath.Join(dir, c.name)
		writeFile(t, name, []byte(c.content))
		r := tool{}.run(t, "inspect", name)
		if r.code != cli.ExitTrouble || !strings.Contains(r.err, c.want) ||
			!strings.Contains(r.err, c.name+": offset ") {
			t.Errorf("%s of %q: exit %d, %q, want %q", c.name, c.content, r.code, r.err, c.want)
		}
	}
}
