package main

import (
	"bytes"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestHexHasEveryByteOfTheFilter(t *testing.T) {
	for _, flags := range [][]string{nil, {"--filter-kind", "ribbon"}, {"--fpr", "0.5"}} {
		dir := filepath.Join(t.TempDir(), "store")
		tool{in: manyLines(2000)}.must(t, append([]string{"load", dir}, flags...)...)
		table := sstFiles(t, dir)[0]
		b := readFile(t, table)
		_, out, _ := strings.Cut(tool{}.must(t, "inspect", table, "--hex"), "what they are\n")
		var got []byte
		row := regexp.MustCompile(`(?m)^ *([0-9]+)  ((?:[0-9a-f]{2} ?)+)`)
		for _, m := range row.FindAllStringSubmatch(out, -1) {
			line, err := hex.DecodeString(strings.ReplaceAll(m[2], " ", ""))
			must(t, err)
			at, err := strconv.Atoi(m[1])
			if err != nil || !bytes.Equal(b[at:][:len(line)], line) {
				t.Fatalf("%v, %q is not at %d", err, m[0], at)
			}
			got = append(got, line...)
		}
		if at := bytes.Index(b, []byte("bloomblk")); len(got) < 1000 || !bytes.HasPrefix(b[at:], got) {
			t.Errorf("%d bytes, which are not the filter block at %d", len(got), at)
		}
		for _, want := range []string{`magic "bloomblk"`, "unit 0, block 0: ", "checksum "} {
			if !strings.Contains(out, want) {
				t.Errorf("lacks %q:\n%.2000s", want, out)
			}
		}
	}
	if r := (tool{}).run(t, "inspect", t.TempDir(), "--hex", "--json"); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, "--hex prints text, use it without --json") {
		t.Errorf("as JSON: exit %d, %q", r.code, r.err)
	}
}
