package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
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

func readLog(t *testing.T, name string, b []byte) (r result, l inspect.RecordLog) {
	t.Helper()
	writeFile(t, name, b)
	r = tool{}.run(t, "inspect", name, "--json", "--entries")
	if err := json.Unmarshal([]byte(r.out), &l); err != nil && r.out != "" {
		t.Fatal(err)
	}
	text := tool{}.run(t, "inspect", name, "--entries")
	if text.code != r.code || text.err != r.err {
		t.Errorf("text: exit %d, %q; JSON: exit %d, %q", text.code, text.err, r.code, r.err)
	}
	r.out = text.out
	return r, l
}

func TestALogIsShownOperationByOperation(t *testing.T) {
	name, b := logOf(t)
	r, l := readLog(t, name, b)
	if r.code != cli.ExitOK || l.Operations != 7 || l.FirstSeq != 1 || l.LastSeq != 7 || len(l.List) != 4 ||
		l.Break != nil {
		t.Fatalf("exit %d, %q, %+v", r.code, r.err, l)
	}
	if rec := l.List[1]; rec.FirstSeq != 2 || rec.Operations != 4 || rec.Puts != 1 || rec.Deletes != 1 ||
		rec.Ranges != 2 || rec.Offset != l.List[0].End || len(rec.Ops) != 4 {
		t.Errorf("%+v", rec)
	}
	for _, want := range []string{
		"4 records up to ", "7 operations, sequences 1 to 7",
		fmt.Sprintf("  record 2: %d bytes at %d, from sequence 2: 1 put, 1 delete, 2 range deletes\n",
			l.List[1].Bytes, l.List[1].Offset),
		"    2 put b, 10 bytes\n", "    3 delete c\\x1b[2J\n", "    4 range delete d … before e\n",
		"    5 range delete the first key … the end\n",
		"    6 put f, 0 bytes\n", "    7 delete f\n",
	} {
		if !strings.Contains(strings.Join(strings.Split(r.out, "\n  operations"), ""), want) &&
			!strings.Contains(oneLine(r.out), want) {
			t.Errorf("lacks %q:\n%s", want, r.out)
		}
	}
	if out := (tool{}).must(t, "inspect", name); strings.Contains(out, "put b") ||
		!strings.Contains(out, "record 4: ") {
		t.Errorf("without --entries:\n%s", out)
	}
}

// fixHeader corrects the checksums of a record at an offset of a log, as defined in package wal.
func fixHeader(b []byte, number uint64, at, payload int) {
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(b[at+24:][:payload], table))
	seed := uint32((number*0x9e3779b97f4a7c15 ^ uint64(at)*0xc2b2ae3d27d4eb4f) >> 32)
	binary.LittleEndian.PutUint32(b[at:], crc32.Update(seed, table, b[at+4:at+24]))
}

func TestDamageOfALogIsLocatedAndJudged(t *testing.T) {
	name, whole := logOf(t)
	_, l := readLog(t, name, whole)
	if len(l.List) != 4 {
		t.Fatal(l)
	}
	var number uint64
	if _, err := fmt.Sscanf(filepath.Base(name), "%06d.log", &number); err != nil {
		t.Fatal(err)
	}
	at := func(i int) int64 { return l.List[i].Offset }
	for _, c := range []struct {
		what    string
		change  func(b []byte) []byte
		code    int
		records int
		want    *inspect.Break // except Unread
		reason  string
	}{
		{
			"a bit of a record that a later one promises", func(b []byte) []byte { b[at(1)+30] ^= 1; return b },
			cli.ExitTrouble, 1,
			&inspect.Break{Offset: at(1), Behind: 2, Next: at(2), Opening: "refused"}, "payload checksum ",
		},
		{
			"a header in the middle", func(b []byte) []byte { clear(b[at(1):][:24]); return b }, cli.ExitTrouble, 1,
			&inspect.Break{Offset: at(1), Behind: 2, Next: at(2), Opening: "refused"}, "says it was durable up to ",
		},
		{
			"a bit of the last record", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, cli.ExitOK, 3,
			&inspect.Break{Offset: at(3), Opening: "cut off"}, "payload checksum ",
		},
		{
			"a last record cut short", func(b []byte) []byte { return b[:len(b)-1] }, cli.ExitOK, 3,
			&inspect.Break{Offset: at(3), Opening: "cut off"}, "bytes of payload, want ",
		},
		{
			"a record that is whole and no batch", func(b []byte) []byte {
				b[at(1)+24+12] = 9
				fixHeader(b, number, int(at(1)), l.List[1].Bytes)
				return b
			}, cli.ExitTrouble, 4, &inspect.Break{Offset: at(1) + 24, Behind: 2, Next: at(2), Opening: "refused"},
			"unknown kind of operation: 9",
		},
		{
			"a record that does not follow", func(b []byte) []byte {
				b[at(2)+24]++
				fixHeader(b, number, int(at(2)), l.List[2].Bytes)
				return b
			}, cli.ExitTrouble, 4, &inspect.Break{Offset: at(2) + 24, Behind: 1, Next: at(3), Opening: "refused"},
			"sequence 7, want 6",
		},
		{
			"nothing", func([]byte) []byte { return nil }, cli.ExitOK, 0, &inspect.Break{Opening: "cut off"},
			"0 bytes, want 32",
		},
		{
			"zeros", func([]byte) []byte { return make([]byte, 100) }, cli.ExitOK, 0,
			&inspect.Break{Opening: "cut off"},
			"magic ",
		},
		{
			"a foreign file",
			func([]byte) []byte { return append([]byte("SQLite format 3\x00"), make([]byte, 100)...) },
			cli.ExitTrouble, 0,
			&inspect.Break{Opening: "cut off"}, "magic ",
		},
	} {
		b := c.change(bytes.Clone(whole))
		r, got := readLog(t, name, b)
		if r.code != c.code || got.Records != c.records || got.Break == nil ||
			!strings.Contains(got.Break.Reason, c.reason) {
			t.Errorf("%s: exit %d, %q, %+v, break %+v", c.what, r.code, r.err, got.Log, got.Break)
			continue
		}
		c.want.Reason, c.want.Unread = got.Break.Reason, int64(len(b))-c.want.Offset
		if *got.Break != *c.want {
			t.Errorf("%s: %+v, want %+v", c.what, *got.Break, *c.want)
		}
		if c.code != cli.ExitOK &&
			!strings.Contains(r.err, fmt.Sprintf("%s: offset %d: ", filepath.Base(name), c.want.Offset)) {
			t.Errorf("%s: %q lacks the address", c.what, r.err)
		}
		text := oneLine(r.out)
		fate := map[string]string{
			"refused": "opening the store is refused",
			"cut off": "opening the store cuts them off",
		}[c.want.Opening]
		if !strings.Contains(text, fmt.Sprintf("at offset %d: ", c.want.Offset)) || !strings.Contains(text, fate) {
			t.Errorf("%s: %s", c.what, r.out)
		}
	}
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
		{"renamed", "bloomwal" + strings.Repeat("x", 100), "as does a log or a manifest of this store"},
		{"000001.sst", "", "it is empty"},
		{"000001.sst", strings.Repeat("\x00", 5000), "as does a file that was never written"},
		{"short", "hello\x1b", `it begins with "hello\x1b"`},
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
