package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/tools/cli"
)

func TestDeleteTakesKeysAway(t *testing.T) {
	dir := newStore(t, "a\t1\nb\t2\nc\t3\n")
	tool{}.must(t, "del", dir, "a", "c")
	if got := (tool{}).must(t, "dump", dir); got != "b\t2\n" {
		t.Errorf("left %q", got)
	}
	if r := (tool{}).run(t, "get", dir, "a"); r.code != exitAbsent {
		t.Errorf("get of a deleted key: exit %d, want 1", r.code)
	}
}

func TestDeleteTakesARangeAway(t *testing.T) {
	const lines = "a\t1\nb\t2\nba\t3\nbb\t4\nc\t5\n\xff\t6\n"
	for _, c := range []struct {
		name string
		args []string
		left string // keys
	}{
		{"a prefix", []string{"--prefix", "b"}, "a c \xff "},
		{"from a key on", []string{"--from", "ba"}, "a b "},
		{"before a key", []string{"--to", "ba"}, "ba bb c \xff "},
		{"between keys", []string{"--from", "b", "--to", "bb"}, "a bb c \xff "},
		{"within a prefix", []string{"--prefix", "b", "--from", "ba"}, "a b c \xff "},
		{"the last prefix, in hexadecimal", []string{"--hex", "--prefix", "ff"}, "a b ba bb c "},
		{"a range that ends before it begins", []string{"--from", "c", "--to", "a"}, "a b ba bb c \xff "},
		{"before the empty key", []string{"--to", ""}, "a b ba bb c \xff "},
		{"all", []string{"--all"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newStore(t, lines)
			if out := (tool{}).must(t, append([]string{"del", dir}, c.args...)...); out != "" {
				t.Errorf("printed %q, want nothing", out)
			}
			want := strings.ReplaceAll(c.left, " ", "\n")
			if got := (tool{}).must(t, "scan", dir, "--keys"); got != strings.ReplaceAll(want, "\xff", `\xff`) {
				t.Errorf("left %q, want %q", got, c.left)
			}
			tool{}.must(t, "check", dir)
		})
	}
}

func TestDeleteWantsToKnowWhat(t *testing.T) {
	dir := newStore(t, "a\t1\n")
	before := readDir(t, dir)
	for _, c := range []struct {
		name string
		args []string
		err  string
	}{
		{"nothing", nil, "nothing to delete: want keys, a range (--prefix, --from, --to), or --all; see bloomkv del " +
			"--help"},
		{"keys and a range", []string{"a", "--from", "b"}, "keys and a range are given, want only one of them"},
		{"keys and all", []string{"a", "--all"}, "keys and a range are given, want only one of them"},
		{"all and a range", []string{"--all", "--prefix", "a"}, "--all and a range are given, want only one of them"},
		{"an empty prefix, which every key has", []string{"--prefix", ""}, "the range is the whole store: use --all"},
		{"from the empty key on", []string{"--from", ""}, "the range is the whole store: use --all"},
		{"a bound that is not hexadecimal", []string{"--hex", "--to", "xy"}, `--to "xy": `},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := tool{}.run(t, append([]string{"del", dir}, c.args...)...)
			if r.code != cli.ExitTrouble || r.out != "" || !strings.Contains(r.err, c.err) {
				t.Errorf("exit %d, %q, %q; want 2 and %q", r.code, r.out, r.err, c.err)
			}
		})
	}
	if after := readDir(t, dir); !maps.Equal(after, before) {
		t.Error("the store was changed")
	}
}
