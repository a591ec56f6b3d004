package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// An interruptingWriter interrupts a command once it has printed enough, and counts the bytes after that.
type interruptingWriter struct {
	enough, late int
	interrupt    func()
}

func (w *interruptingWriter) Write(b []byte) (int, error) {
	if w.enough < 0 {
		w.late += len(b)
	} else if w.enough -= len(b); w.enough < 0 {
		w.interrupt()
	}
	return len(b), nil
}

func TestAnInterruptEndsALongListing(t *testing.T) {
	table := sstFiles(t, newStore(t, manyLines(2000)))[0]
	for _, flag := range []string{"--hex", "--entries"} {
		ctx, cancel := context.WithCancel(t.Context())
		out, errs := &interruptingWriter{enough: 10_000, interrupt: cancel}, new(bytes.Buffer)
		a := &app{Streams: cli.Streams{In: strings.NewReader(""), Out: out, Err: errs}}
		if code := a.run(ctx, []string{"inspect", table, flag}); code != cli.ExitInterrupted || out.late > 0 {
			t.Errorf("%s: exit %d, %d bytes after the interrupt, %s", flag, code, out.late, errs)
		}
	}
}

func TestHexHasEveryByteOfTheFilter(t *testing.T) {
	testkit.Long(t)
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
