package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestACheckpointIsAStoreOfItsOwn(t *testing.T) {
	dir := uncleanStore(t, true)
	dest := filepath.Join(t.TempDir(), "copy")
	if out := (tool{}).must(t, "checkpoint", dir, dest); out != "" {
		t.Errorf("printed %q, want nothing", out)
	}
	const want = "a\t1\nb\t3\n"
	if got := (tool{}).must(t, "dump", dest); got != want {
		t.Errorf("the copy has %q, want %q", got, want)
	}
	if out := (tool{}).must(t, "check", dest); !strings.Contains(out, "0 logs") {
		t.Errorf("check of the copy: %q, want no logs", out)
	}
	tool{}.must(t, "put", dest, "c", "copy")
	tool{}.must(t, "del", dir, "a")
	if got := (tool{}).must(t, "dump", dest); got != want+"c\tcopy\n" {
		t.Errorf("the copy, changed, has %q", got)
	}
	if got := (tool{}).must(t, "dump", dir); got != "b\t3\n" {
		t.Errorf("the source, changed, has %q", got)
	}
	tool{}.must(t, "check", dir)
}

func TestACheckpointNeedsAStoreAndAPlaceForIt(t *testing.T) {
	dir := newStore(t, manyLines(100))
	tmp := t.TempDir()
	full := newStore(t, "x\t1\n")
	before := readDir(t, full)
	for _, c := range []struct{ name, dir, dest, err string }{
		{"no store", filepath.Join(tmp, "none"), filepath.Join(tmp, "copy"), "no store here"},
		{"a place that is taken", dir, full, "checkpoint " + full + ": not an empty directory"},
		{"a place without a parent", dir, filepath.Join(tmp, "no", "copy"), "no such file or directory"},
		{"the store itself", dir, dir, "not an empty directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := (tool{}).run(t, "checkpoint", c.dir, c.dest); r.code != cli.ExitTrouble ||
				!strings.Contains(r.err, c.err) {
				t.Errorf("exit %d, %q; want 2 and %q", r.code, r.err, c.err)
			}
		})
	}
	if after := readDir(t, full); !maps.Equal(after, before) {
		t.Error("what was in the way is changed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	a := &app{Streams: cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}}
	if code := a.run(ctx, []string{"checkpoint", dir, filepath.Join(tmp, "copy")}); code != cli.ExitInterrupted {
		t.Errorf("interrupted: exit %d, %q; want %d", code, &errs, cli.ExitInterrupted)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	tool{}.must(t, "check", dir)
}
