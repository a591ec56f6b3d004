//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestAPipeIsNotWaitedFor(t *testing.T) {
	for _, base := range []string{"000001.sst", "000001.log", "MANIFEST-000001", "pipe"} {
		name := filepath.Join(t.TempDir(), base)
		must(t, syscall.Mkfifo(name, 0o600))
		if r := (tool{}).run(t, "inspect", name, "--verify"); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, base) || !strings.Contains(r.err, "not a regular file") {
			t.Errorf("%s: exit %d, %q", base, r.code, r.err)
		}
	}
	for _, pattern := range []string{"CURRENT", "MANIFEST-*", "*.sst", "999999.log"} {
		dir := newStore(t, manyLines(100))
		name := filepath.Join(dir, pattern)
		if found, _ := filepath.Glob(name); len(found) == 1 {
			name = found[0]
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		must(t, syscall.Mkfifo(name, 0o600))
		if r, s := readStore(t, dir, "--verify", "--key", "k"); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, filepath.Base(name)) || r.out != "" && s.Opening.Refused == nil {
			t.Errorf("%s: exit %d, %q, %+v", pattern, r.code, r.err, s.Opening)
		}
	}
}

// TestAnInterruptEndsTheWaitForAPipe has commands read a pipe that nobody opens for writing, and one whose writer
// writes nothing.
func TestAnInterruptEndsTheWaitForAPipe(t *testing.T) {
	dir := newStore(t, "a\t1\n")
	for _, args := range [][]string{
		{"load", dir, "PIPE"},
		{"ingest", dir, "PIPE"},
		{"import", filepath.Join(t.TempDir(), "new"), "PIPE"},
		{"digest", "PIPE"},
		{"digest", dir, "--lacking-in", "PIPE"},
		{"export", dir, filepath.Join(t.TempDir(), "file"), "--since", "PIPE"},
		{"demo", "--data", "PIPE"},
	} {
		for _, written := range []bool{false, true} {
			pipe := filepath.Join(t.TempDir(), "pipe")
			must(t, syscall.Mkfifo(pipe, 0o600))
			named := slices.Clone(args)
			named[slices.Index(args, "PIPE")] = pipe
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan result, 1)
			go func() { done <- tool{}.runUntil(ctx, named...) }()
			var writer *os.File
			if written { // this waits until the pipe is opened for reading
				var err error
				writer, err = os.OpenFile(pipe, os.O_WRONLY, 0)
				must(t, err)
			}
			cancel()
			select {
			case r := <-done:
				if r.code != cli.ExitInterrupted || !strings.HasPrefix(r.err, "bloomkv: interrupted: ") {
					t.Errorf("%s, written %v: exit %d, %q", args[0], written, r.code, r.err)
				}
			case <-time.After(testkit.Patience):
				t.Fatalf("%s, written %v: it does not end", args[0], written)
			}
			if writer != nil {
				must(t, writer.Close())
			}
		}
	}
}

func TestAPageGoesIntoAPipeAndThroughALink(t *testing.T) {
	table := sstFiles(t, newStore(t, manyLines(100)))[0]
	out := t.TempDir()
	pipe, link := filepath.Join(out, "pipe"), filepath.Join(out, "link")
	must(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("page", link)))
	read := make(chan []byte)
	go func() {
		b, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		read <- b
	}()
	tool{}.must(t, "inspect", table, "--html", pipe)
	tool{}.must(t, "inspect", table, "--html", link)
	for name, mode := range map[string]os.FileMode{pipe: os.ModeNamedPipe, link: os.ModeSymlink} {
		if info, err := os.Lstat(name); err != nil || info.Mode()&mode == 0 {
			t.Fatalf("%s is now %v, %v", name, info.Mode(), err)
		}
	}
	want := clock.ReplaceAll(<-read, nil)
	page, err := os.ReadFile(filepath.Join(out, "page"))
	if page = clock.ReplaceAll(page, nil); err != nil || string(page) != string(want) || len(page) == 0 {
		t.Errorf("%d bytes through the pipe, %d through the link, %v", len(want), len(page), err)
	}
}

func TestWhatIsNoFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	at := func(base string) string { return filepath.Join(dir, base) }
	if err := errors.Join(os.Symlink("loop", at("loop")), os.Symlink("nowhere", at("000001.sst")),
		os.Mkdir(at("000002.sst"), 0o700), os.WriteFile(at("000003.sst"), nil, 0)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, want string }{
		{"/dev/zero", "/dev/zero: not a regular file"},
		{"/dev/null", "not a regular file"},
		{at("loop"), "too many levels of symbolic links"},
		{at("000001.sst"), "no such file"},
		{at("000002.sst"), "no store here: open " + at("000002.sst")},
		{at("000003.sst"), "000003.sst: "}, // unreadable, or for the administrator empty
		{"", "no such file"},
		{at("none\x1b[2J"), `none\x1b[2J: no such file`},
		{strings.Repeat("x", 5000), "file name too long"},
	} {
		if r := (tool{}).run(t, "inspect", c.name, "--verify"); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, c.want) || r.out != "" {
			t.Errorf("%.100q: exit %d, %q, want %q", c.name, r.code, r.err, c.want)
		}
	}
	// Links are followed, and the output has the name of their target.
	table := sstFiles(t, newStore(t, manyLines(100)))[0]
	evil := at("evil\x1b[2J\n")
	must(t, errors.Join(os.Symlink(table, at("link")), os.Link(table, evil)))
	if out := (tool{}).must(t, "inspect", at("link")); !strings.HasPrefix(out, "table "+filepath.Base(table)+"\n") {
		t.Errorf("through a link:\n%s", out)
	}
	for _, args := range [][]string{
		{"--verify", "--hex", "--key", "key/000007", "--entries"},
		{"--json", "--verify", "--key", "key/000007"},
	} {
		out := tool{}.must(t, append([]string{"inspect", evil}, args...)...)
		for line := range strings.Lines(out) {
			if line = strings.TrimSuffix(line, "\n"); line != string(words.AppendPrintable(nil, []byte(line))) {
				t.Errorf("a line that could drive a terminal: %q", line)
			}
		}
		if strings.Count(out, "evil") != strings.Count(out, `evil\x1b[2J\n`)+strings.Count(out, `evil\u001b[2J\n`) {
			t.Errorf("a name over two lines: %s", out)
		}
	}
}

// TestHugeFilesTakeLittleMemory inspects sparse files of 256 MiB with little or no content.
func TestHugeFilesTakeLittleMemory(t *testing.T) {
	testkit.Long(t)
	const size, most = 256 << 20, 16 << 20
	store := newStore(t, manyLines(100))
	logName, log := logOf(t)
	contents := map[string][]byte{
		filepath.Base(logName): log, "000002.log": nil, "000001.sst": nil,
		"MANIFEST-000001": nil,
	}
	for _, pattern := range []string{"MANIFEST-*", "*.sst"} {
		b := readFile(t, glob(t, store, pattern))
		contents[filepath.Base(glob(t, store, pattern))] = b
	}
	for base, b := range contents {
		name := filepath.Join(t.TempDir(), base)
		must(t, errors.Join(os.WriteFile(name, b, 0o600), os.Truncate(name, size)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := tool{}.run(t, "inspect", name, "--verify")
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > most || len(r.out)+len(r.err) > 1<<16 {
			t.Errorf("%s: %d bytes of memory, want at most %d; exit %d, %d bytes written", base, got, most, r.code,
				len(r.out)+len(r.err))
		}
	}
}

// TestAFileThatChangesWhileItIsReadIsAnAnswerOrAnError truncates and restores files while they are inspected.
func TestAFileThatChangesWhileItIsReadIsAnAnswerOrAnError(t *testing.T) {
	store := newStore(t, manyLines(5000))
	logName, log := logOf(t)
	table := readFile(t, glob(t, store, "*.sst"))
	for base, b := range map[string][]byte{"000001.sst": table, filepath.Base(logName): log} {
		name := filepath.Join(t.TempDir(), base)
		writeFile(t, name, b)
		stop := make(chan struct{})
		var changing sync.WaitGroup
		changing.Go(func() {
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				cut := int64(len(b)) * int64(i%8) / 8
				_ = f.Truncate(cut)
				_, _ = f.WriteAt(b[cut:], cut)
			}
		})
		for range 100 {
			r := tool{}.run(t, "inspect", name, "--verify", "--key", "key/000007")
			if r.code != cli.ExitOK && (r.code != cli.ExitTrouble || !strings.Contains(r.err, base)) {
				t.Errorf("%s: exit %d, %q", base, r.code, r.err)
			}
		}
		close(stop)
		changing.Wait()
	}
}
