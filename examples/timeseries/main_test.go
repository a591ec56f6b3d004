package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMeasurementsAreShownNewestFirstUntilTheyAreTooOld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		at   time.Duration
		args string
		want string
	}{
		{0, "add cpu 1", ""},
		{1 * time.Hour, "add cpu 2", ""},
		{1 * time.Hour, "add cpu2 other", ""},
		{1 * time.Hour, "add mem old", ""},
		{2 * time.Hour, "add cpu 3", ""},
		{2 * time.Hour, "show cpu 2h", "2026-03-01T14:00:00Z 3\n2026-03-01T13:00:00Z 2\n2026-03-01T12:00:00Z 1\n"},
		{2 * time.Hour, "show cpu 1h", "2026-03-01T14:00:00Z 3\n2026-03-01T13:00:00Z 2\n"},
		{2 * time.Hour, "show disk 1h", ""},
		{2 * time.Hour, "keep 30m", ""},
		{2 * time.Hour, "show cpu 1000000h", "2026-03-01T14:00:00Z 3\n"},
		{2 * time.Hour, "show mem 1000000h", ""},
		{2 * time.Hour, "keep 0s", ""},
		{2 * time.Hour, "show cpu 1000000h", "2026-03-01T14:00:00Z 3\n"},
		{3 * time.Hour, "keep 0s", ""},
		{3 * time.Hour, "show cpu 1000000h", ""},
	} {
		var out strings.Builder
		if err := run(append([]string{dir}, strings.Fields(step.args)...), noon.Add(step.at), &out); err != nil {
			t.Fatalf("%s: %v", step.args, err)
		}
		if got := out.String(); got != step.want {
			t.Errorf("%s: got\n%swant\n%s", step.args, got, step.want)
		}
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for _, args := range [][]string{{}, {dir, "keep"}, {dir, "drop", "1h"}, {dir, "add", "cpu"}} {
		if err := run(args, time.Now(), nil); !errors.Is(err, errUsage) {
			t.Errorf("%q: got %v, want %v", args, err, errUsage)
		}
	}
	for _, args := range [][]string{{dir, "keep", "long"}, {dir, "show", "cpu", "x"}, {dir, "add", "a\x00b", "1"}} {
		if err := run(args, time.Now(), nil); err == nil || errors.Is(err, errUsage) {
			t.Errorf("%q: got %v, want another error", args, err)
		}
	}
}
