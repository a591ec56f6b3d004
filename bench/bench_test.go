package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestARunOfEachShapeIsRightAndCounted(t *testing.T) {
	for _, shape := range []string{"random", "prefixed", "decimal", "bigendian"} {
		t.Run(shape, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := []string{"--keys", "3000", "--shape", shape, "--json", "--memory", "64"}
			if err := run(t.Context(), args, &out, &errs, false); err != nil {
				t.Fatal(err)
			}
			if errs.Len() > 0 {
				t.Errorf("progress that is no terminal's: %q", errs.String())
			}
			var r report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("%v in %s", err, out.String())
			}
			if r.Keys != 3000 || r.Shape != shape || r.Command != "go run ./bench "+strings.Join(args, " ") {
				t.Errorf("%d keys, shape %s, command %q", r.Keys, r.Shape, r.Command)
			}
			var names []string
			for _, p := range r.Phases {
				names = append(names, p.Phase)
				switch p.Phase {
				case "absent":
					// A hundredth is promised: of 2,999 some 30, with a standard deviation of 5.5.
					if p.Cost == nil || p.Cost.WastedReads > 0.02 || p.Cost.Blocks != p.Cost.WastedReads || p.Cost.Probes == 0 {
						t.Errorf("absent: costs %+v", p.Cost)
					}
				case "present":
					if p.Cost == nil || p.Cost.Blocks < 1 || p.Cost.FileReads != 0 || p.P99Ns < p.P50Ns {
						t.Errorf("present: costs %+v, p50 %g, p99 %g", p.Cost, p.P50Ns, p.P99Ns)
					}
				case "load", "scan":
					if p.Cost != nil || p.Ops != 3000 {
						t.Errorf("%s: %d operations, costs %+v", p.Phase, p.Ops, p.Cost)
					}
				}
			}
			want := []string{"load", "flush", "settle", "absent uncompacted", "compact", "settle again", "warm", "absent", "present", "scan"}
			if !slices.Equal(names, want) {
				t.Errorf("phases %q, want %q", names, want)
			}
			if r.Tables != 1 || r.Flushes == 0 || r.FilterBytes == 0 || r.TableBytes < 3000*100 {
				t.Errorf("%d tables of %d bytes, %d flushes, filters of %d bytes", r.Tables, r.TableBytes, r.Flushes, r.FilterBytes)
			}
		})
	}
}

func TestThePageHasATableAndLinesForBenchstat(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--keys", "500", "--memory", "64"}, &out, &out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"command: go run ./bench --keys 500", "go: go1.", "wasted/op", "\nBenchmarkload/shape=random 500 ", "\nBenchmarkabsent-uncompacted/shape=random 499 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestTheStoreIsKeptWhereItIsAskedForAndNowhereElse(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	kept := filepath.Join(t.TempDir(), "kept")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--keys", "100", "--dir", kept}, &out, &out, false); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"--keys", "100"}, &out, &out, false); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(kept); err != nil || len(entries) == 0 {
		t.Errorf("%d entries in --dir, %v", len(entries), err)
	}
	if entries, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(entries) != 0 {
		t.Errorf("%d entries left in the temporary directory, %v", len(entries), err)
	}
	if err := run(t.Context(), []string{"--keys", "100", "--dir", kept}, &out, &out, false); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second run in the same directory: %v", err)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--shape round", "round"},
		{"--keys -1", "-1"},
		{"--memory 1", "--memory 1"},
		{"extra", "extra"},
		{"--fpr 2", "2"},
	} {
		var out bytes.Buffer
		err := run(t.Context(), strings.Fields(test.args), &out, &out, false)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", test.args, err, test.want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: printed %q beside the error", test.args, &out)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, &out, &out, false); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "-shape") {
		t.Errorf("--help: %v\n%s", err, out.String())
	}
}
