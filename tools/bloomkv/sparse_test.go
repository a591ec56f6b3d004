package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// lengthen makes the first file of a kind in a store a sparse one of that many bytes.
func lengthen(t *testing.T, dir string, kind filename.Kind, size int64) (name string) {
	t.Helper()
	for name := range readDir(t, dir) {
		if k, _ := filename.Parse(name); k == kind {
			if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
				t.Skip(err)
			}
			return name
		}
	}
	t.Fatalf("no %v in %s", kind, dir)
	return ""
}

func TestASparseManifestOrLogIsDamageForEachCommand(t *testing.T) {
	for _, kind := range []filename.Kind{filename.Manifest, filename.Log} {
		dir := uncleanStore(t, true)
		name := lengthen(t, dir, kind, 8<<40)
		for _, args := range [][]string{
			{"get", dir, "b"},
			{"check", dir},
			{"put", dir, "c", "4"},
			{"inspect", dir},
			{"stats", dir},
			{"inspect", filepath.Join(dir, name)},
		} {
			r := tool{}.run(t, args...)
			got := oneLine(r.out + r.err)
			if r.code != cli.ExitTrouble || !strings.Contains(got, name) ||
				!strings.Contains(got, "8796093022208 bytes, want at most 2147483648") {
				t.Errorf("%v, %q: exit %d, %s; want damage in %s", kind, args, r.code, got, name)
			}
		}
		if kind == filename.Log || testing.Short() { // salvage reads two GiB
			continue // the same as for a manifest: TestSalvageReadsNoMoreThanALogCanHave
		}
		saved := filepath.Join(t.TempDir(), "saved")
		if r := (tool{}).run(t, "salvage", dir, saved); r.code == cli.ExitTrouble {
			t.Errorf("salvage: exit %d, %s", r.code, r.err)
		}
		if got := (tool{}).must(t, "dump", saved); got != "a\t1\nb\t3\n" {
			t.Errorf("salvaged %q", got)
		}
	}
}

func TestAnInterruptEndsTheReadingOfALongFile(t *testing.T) {
	for _, kind := range []filename.Kind{filename.Manifest, filename.Log} {
		dir := uncleanStore(t, true)
		lengthen(t, dir, kind, wal.MaxSize)
		for _, args := range [][]string{
			{"get", dir, "b"},
			{"check", dir},
			{"put", dir, "c", "4"},
			{"inspect", dir},
			{"salvage", dir, filepath.Join(t.TempDir(), "saved")},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if r := (tool{}).runUntil(ctx, args...); r.code != cli.ExitInterrupted {
				t.Errorf("%v, %q: exit %d, %s; want %d", kind, args, r.code, r.err, cli.ExitInterrupted)
			}
		}
	}
}

// TestAnEndedCommandReadsNoManifest asks for what commands read of a manifest beside the store itself, which may be
// as long as a manifest can be.
func TestAnEndedCommandReadsNoManifest(t *testing.T) {
	dir := uncleanStore(t, true)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if o := new(writeFlags).kept(t.Context(), dir, bloomkv.Options{}); o.FilterFPR == 0 {
		t.Error("the options of the store are not read")
	}
	if o := new(writeFlags).kept(ended, dir, bloomkv.Options{}); o.FilterFPR != 0 {
		t.Errorf("options of a manifest: rate %v", o.FilterFPR)
	}
	if n, err := countLogs(ended, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("%d logs, %v, want %v", n, err, context.Canceled)
	}
}
