package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func gzipOf(t *testing.T, text string, level int) string {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	must(t, err)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	must(t, z.Close())
	return b.String()
}

func TestWhatIsNoLinesIsNoticed(t *testing.T) {
	testkit.Long(t)
	const lines = "a\t1\nb\t2\n"
	const json = `{"key":"a","value":"1"}` + "\n" + `{"key":"b","value":"2"}` + "\n"
	const gzipped = "compressed with gzip, want lines: decompress it first"
	crlf := strings.NewReplacer("\n", "\r\n").Replace
	for _, c := range []struct {
		name, in, format string
		note, err        string
		stored           string
	}{
		{"lines", lines, "tsv", "", "", lines},
		{"one byte", "a", "tsv", "", "line 1: no TAB", ""},
		{"nothing", "", "tsv", "", "", ""},
		{"gzip", gzipOf(t, lines, gzip.DefaultCompression), "tsv", "", gzipped, ""},
		{"gzip, stored", gzipOf(t, lines, gzip.NoCompression), "tsv", "", gzipped, ""},
		{"gzip of nothing", gzipOf(t, "", gzip.DefaultCompression), "tsv", "", gzipped, ""},
		{"gzip of much", gzipOf(t, manyLines(50_000), gzip.BestCompression), "tsv", "", gzipped, ""},
		{"gzip for json", gzipOf(t, json, gzip.DefaultCompression), "json", "", gzipped, ""},
		{"gzip for hex", gzipOf(t, "61\t31\n", gzip.DefaultCompression), "hex", "", gzipped, ""},
		{
			"a key like gzip", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03a\t1\nb\t2\n", "tsv", "", "",
			"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03a\t1\nb\t2\n",
		},
		{
			"a byte order mark", utf8Mark + lines, "tsv", "it begins with a byte order mark (EF BB BF)", "",
			"b\t2\n" + utf8Mark + "a\t1\n",
		},
		{"a byte order mark for json", utf8Mark + json, "json", "", "", lines},
		{"a byte order mark for hex", utf8Mark + "61\t31\n62\t32\n", "hex", "", "", lines},
		{"UTF-16", "\xff\xfea\x00\t\x00b\x00", "tsv", "it looks like text in UTF-16", "", "\xff\xfea\x00\t\x00b\x00\n"},
		{"UTF-16 for json", "\xfe\xff\x00{", "json", "", "text in UTF-16, want UTF-8", ""},
		{
			"carriage returns", crlf(lines), "tsv",
			"line 1 ends with a carriage return, which becomes the last byte of its value", "", crlf(lines),
		},
		{
			"a carriage return later", "a\t1\nb\t2\r\nc\t3\r\n", "tsv", "line 2 ends with a carriage return", "",
			"a\t1\nb\t2\r\nc\t3\r\n",
		},
		{"carriage returns for json", crlf(json), "json", "", "", lines},
		{"a carriage return within a line", "a\t\r1\n", "tsv", "", "", "a\t\r1\n"},
	} {
		file := filepath.Join(t.TempDir(), "file")
		writeFile(t, file, []byte(c.in))
		for _, command := range []string{"load", "ingest"} {
			if command == "ingest" && strings.HasPrefix(c.in, utf8Mark) && c.format == "tsv" {
				continue // with the mark it is out of order
			}
			dir := filepath.Join(t.TempDir(), "store")
			for _, args := range [][]string{{command, dir, file}, {command, dir}} {
				in, about := "", file
				if len(args) == 2 {
					in, about = c.in, "standard input"
				}
				r := tool{in: in}.run(t, append(args, "--format", c.format)...)
				want := ""
				if c.note != "" {
					want = "bloomkv: note: " + about + ": " + c.note
				}
				if c.err != "" {
					want = "bloomkv: " + about + ": " + c.err
				}
				if (r.code != cli.ExitOK) != (c.err != "") || !strings.HasPrefix(r.err, want) ||
					strings.Count(r.err, "\n") != min(1, len(want)) {
					t.Errorf("%s of %s: exit %d, %q, want %q", command, c.name, r.code, r.err, want)
				}
				if _, err := os.Stat(dir); c.err != "" && !os.IsNotExist(err) {
					t.Errorf("%s of %s left a store", command, c.name)
				}
			}
			if c.err == "" {
				if got := (tool{}).must(t, "dump", dir); got != c.stored {
					t.Errorf("%s of %s stored %q, want %q", command, c.name, got, c.stored)
				}
			}
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, []byte(gzipOf(t, lines, gzip.DefaultCompression)))
	if r := (tool{}).run(t, "demo", "--data", file); r.code != cli.ExitTrouble || !strings.Contains(r.err, gzipped) {
		t.Errorf("demo: exit %d, %q", r.code, r.err)
	}
	if r := (tool{in: "a\t1\r\n"}).run(t, "load", filepath.Join(t.TempDir(), "store"),
		"--crlf"); r.code != cli.ExitOK || r.err != "" {
		t.Errorf("with --crlf: exit %d, %q", r.code, r.err)
	}
}

const utf8Mark = "\xef\xbb\xbf"
