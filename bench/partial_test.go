package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
)

// cancelAt cancels once a text was written to it.
type cancelAt struct {
	text    string
	cancel  context.CancelFunc
	written strings.Builder
}

func (w *cancelAt) Write(p []byte) (int, error) {
	w.written.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.cancel()
	}
	return len(p), nil
}

func (w *cancelAt) String() string { return w.written.String() }

// TestWhatWasMeasuredBeforeAnInterruptIsKept interrupts sweeps when their first row is printed, and main runs when a
// progress bar is drawn, which is long before the end: the rest of the page follows, and the pictures.
func TestWhatWasMeasuredBeforeAnInterruptIsKept(t *testing.T) {
	for _, c := range []struct {
		args, row string
		want      []string
		html      bool
	}{
		{
			"--keys 3000 --memory 64 --phases absent,present", "filters on: warm",
			[]string{"stopped after 5 of 16 measurements: interrupted", "ns on", "load random"},
			false,
		},
		{
			"--keys 3000 --memory 64 --phases absent-loaded", "filters off: warm",
			[]string{"stopped after 8 of 10 measurements: interrupted", "warm-loaded", "absent-loaded"},
			false,
		},
		{"sweep runs --keys 2000 --to 3", "loaded ", []string{"stopped after 1 of 6 measurements"}, true},
		{"sweep keys --from 500 --to 2000", "loaded ", []string{"stopped after 1 of 12 measurements"}, true},
		{"sweep fpr --keys 2000", "loaded ", []string{"stopped after 1 of 26 measurements: interrupted"}, true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var out, errs strings.Builder
		seen := &cancelAt{text: c.row, cancel: cancel}
		args, page := strings.Fields(c.args), filepath.Join(t.TempDir(), "page.html")
		if c.html {
			args = append(args, "--html", page)
		}
		streams := &cli.Streams{
			Out: io.MultiWriter(&out, seen), Err: io.MultiWriter(&errs, seen), ErrTerminal: !c.html,
		}
		if code := run(ctx, args, streams); code != cli.ExitInterrupted {
			t.Errorf("%s: exit code %d, %s", c.args, code, &errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.args, want, &out)
			}
		}
		if c.html {
			if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte(c.want[0])) ||
				!bytes.Contains(html, []byte("<svg")) {
				t.Errorf("%s: a page of %d bytes, %v; want one that says that it is not complete", c.args, len(html),
					err)
			}
		}
		cancel()
	}
}

// TestAPageBeginsWithItsResult compares filters on and off in a sentence, and labels what is too small to be seen.
func TestAPageBeginsWithItsResult(t *testing.T) {
	for args, want := range map[string]string{
		"sweep runs --keys 4000 --from 3 --to 4": "With 4000 keys in 4 runs, a lookup of an absent key searches " +
			"0.0",
		"sweep fpr --keys 4000 --from 0.02 --to 0.01": "of filter per key, a lookup of an absent key in ",
		"sweep keys --from 1000 --to 1000":            "With 1000 keys in ",
		"--keys 4000 --memory 64 --phases absent,absent-overwritten": "(phase absent-overwritten), a lookup of an " +
			"absent key searches 0.0",
		"--keys 4000 --memory 64 --phases absent --filters on": "a lookup of an absent key searches 0.0",
	} {
		if testing.Short() && !strings.HasPrefix(args, "sweep runs") {
			continue
		}
		var out, errs bytes.Buffer
		fields, page := strings.Fields(args), filepath.Join(t.TempDir(), "page.html")
		if fields[0] == "sweep" {
			fields = append(fields, "--html", page)
		}
		if code := run(t.Context(), fields, &cli.Streams{Out: &out, Err: &errs}); code != cli.ExitOK {
			t.Fatalf("%s: exit code %d, %s", args, code, &errs)
		}
		at := strings.Index(out.String(), want)
		if at < 0 || fields[0] != "sweep" && at > 100 {
			t.Errorf("%s: %q is at %d in\n%s", args, want, at, &out)
		}
		if fields[0] != "sweep" {
			continue
		}
		html, err := os.ReadFile(page)
		must(t, err)
		_, after, _ := bytes.Cut(html, []byte("<h1"))
		if at := bytes.Index(after, []byte("a lookup of an absent key")); at < 0 || at > 500 {
			t.Errorf("%s: the result is at %d after the title", args, at)
		}
	}
}

func TestTheDefaultMemoryCachesAFewHundredths(t *testing.T) {
	for _, test := range []struct{ keys, memory, want int64 }{
		{1_000_000, 0, 19},
		{0, 0, 19},
		{1000, 0, leastMemory},
		{1000, 64, 64},
	} {
		c := config{
			data: data{keys: int(test.keys), value: 100, memory: test.memory}, workers: 1, fpr: 0.01, filters: "both",
			choice: "shuffled",
		}
		if err := c.check(); err != nil || c.memory != test.want {
			t.Errorf("--keys %d --memory %d: %d MiB, %v, want %d", test.keys, test.memory, c.memory, err, test.want)
		}
	}
}
