package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
)

// TestDigestWritesReadsAndCompares makes the digest of one store and asks it for the keys of another.
func TestDigestWritesReadsAndCompares(t *testing.T) {
	var some, all strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&all, "key%04d\t\n", i)
		if i%4 > 0 {
			fmt.Fprintf(&some, "key%04d\t\n", i)
		}
	}
	a, b := newStore(t, all.String()), newStore(t, some.String())
	file := filepath.Join(t.TempDir(), "b.digest")
	made := tool{}.must(t, "digest", b, "--out", file)
	read := tool{}.must(t, "digest", file)
	if read != strings.ReplaceAll(made, b, file) || !strings.Contains(read, "\n"+file+": at most 1,500 keys in ") {
		t.Errorf("made\n%sread\n%s", made, read)
	}
	for _, other := range []string{file, b} {
		var f digestFacts
		must(t, json.Unmarshal([]byte(tool{}.must(t, "digest", a, "--lacking-in", other, "--json")), &f))
		if f.Keys != 2000 || f.Compared == nil || f.Compared.Asked != 2000 || f.Compared.Lacking > 500 ||
			f.Compared.Lacking < 480 {
			t.Errorf("lacking in %s: %+v %+v", other, f, f.Compared)
		}
		listed := strings.Count(tool{}.must(t, "digest", a, "--lacking-in", other, "--list"), "\n")
		if uint64(listed) != f.Compared.Lacking {
			t.Errorf("%d keys listed, %d counted", listed, f.Compared.Lacking)
		}
	}
	// Keys that were deleted one by one are not missing for certain, unless the digest is rebuilt.
	c := newStore(t, all.String())
	for i := range 50 {
		tool{}.must(t, "del", c, fmt.Sprintf("key%04d", 4*i))
	}
	rebuilt := filepath.Join(t.TempDir(), "c.digest")
	tool{}.must(t, "digest", c, "--rebuild", "--out", rebuilt)
	for other, least := range map[string]int{c: 0, rebuilt: 45} {
		listed := strings.Count(tool{}.must(t, "digest", a, "--lacking-in", other, "--list"), "\n")
		if listed < least || listed > 50 {
			t.Errorf("%d of 50 deleted keys are missing in %s, want at least %d", listed, other, least)
		}
	}
	out := tool{}.must(t, "digest", b, "--lacking-in", a)
	if !strings.Contains(out, ": 0 of 1,500 keys for certain; ") {
		t.Errorf("a part of the store lacks\n%s", out)
	}
	var bloom, ribbon digestFacts
	must(t, json.Unmarshal([]byte(tool{}.must(t, "digest", a, "--rebuild", "--fpr", "0.01", "--json")), &bloom))
	out = tool{}.must(t, "digest", a, "--rebuild", "--fpr", "0.01", "--ribbon", "--json")
	must(t, json.Unmarshal([]byte(out), &ribbon))
	if bloom.Rate > 0.01 || ribbon.Rate > 0.01 || ribbon.Bytes >= bloom.Bytes || bloom.BitsPerKey > 12 {
		t.Errorf("rebuilt: %+v, %+v", bloom, ribbon)
	}
	flip(t, file, 200)
	for _, c := range []struct{ args, want string }{
		{file, "directory checksum"},
		{a + " --ribbon", "--ribbon needs --rebuild"},
		{a + " --list", "--list needs --lacking-in"},
		{a + " --lacking-in " + b + " --list --json", "use it without --json"},
		{file + " --out x", "is a file"},
		{a + " --fpr 2", "rate 2, want 0 to 1"},
	} {
		r := tool{}.run(t, append([]string{"digest"}, strings.Fields(c.args)...)...)
		if r.code != cli.ExitTrouble || !strings.Contains(r.err, c.want) || strings.Contains(r.err, "salvage") {
			t.Errorf("%s: exit %d, %s, want %s", c.args, r.code, r.err, c.want)
		}
	}
}

// TestDigestShowsProgressOnATerminalOnly makes and compares digests of enough keys for a bar.
func TestDigestShowsProgressOnATerminalOnly(t *testing.T) {
	dir := newStore(t, manyLines(20_000))
	for _, terminal := range []bool{true, false} {
		for args, what := range map[string]string{
			"--rebuild": "reading keys", "--lacking-in=" + dir: "comparing keys",
		} {
			var out, errs bytes.Buffer
			a := &app{Streams: cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, ErrTerminal: terminal}}
			if code := a.run(t.Context(), []string{"digest", dir, args}); code != cli.ExitOK ||
				strings.Contains(errs.String(), what) != terminal || !terminal && errs.Len() > 0 {
				t.Errorf("%s, terminal %v: exit %d, %q", args, terminal, code, errs.String())
			}
		}
	}
}
