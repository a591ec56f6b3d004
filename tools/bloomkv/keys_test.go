package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

var oddKeys = []string{
	"", "\x00", "a\x1b[31mred", `a\b`, `\x1b`, "tab\tand\nline", "k\xff\xfe", "é漢", "\u202e",
	"\u009b", "--escaped", strings.Repeat("k", 48),
}

// oddStore returns a store of keys that are hard or impossible to write on a command line.
func oddStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	for i, key := range oddKeys {
		must(t, db.Put([]byte(key), fmt.Append(nil, i)))
	}
	must(t, db.Close())
	return dir
}

func TestKeysAreReadAsTheyArePrinted(t *testing.T) {
	testkit.Long(t)
	dir := oddStore(t)
	table := sstFiles(t, dir)[0]
	printed := map[string]string{} // by a command that prints keys
	for line := range strings.Lines(tool{}.must(t, "scan", dir)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		printed[key] = value
	}
	if len(printed) != len(oddKeys) {
		t.Fatalf("scan prints %d keys, want %d", len(printed), len(oddKeys))
	}
	var facts inspect.Table
	must(t, json.Unmarshal([]byte((tool{}).must(t, "inspect", table, "--json")), &facts))
	for _, bound := range []string{facts.Smallest, facts.Largest} {
		if _, ok := printed[bound]; !ok {
			t.Errorf("inspect prints %q, scan does not", bound)
		}
	}
	for key, value := range printed {
		if got := (tool{}).must(t, "get", dir, "--escaped", "--", key); got != value {
			t.Errorf("get of %s: %q, want %q", key, got, value)
		}
		if got := (tool{}).must(t, "scan", dir, "--escaped", "--from", key, "--limit", "1"); got != key+"\t"+value+
			"\n" {
			t.Errorf("scan from %s: %q", key, got)
		}
		if got := (tool{}).must(t, "inspect", table, "--key="+key); !strings.Contains(got,
			"the table has: value; so: true positive") {
			t.Errorf("inspect of %s: %s", key, got)
		}
	}
	for key, value := range printed {
		tool{}.must(t, "put", dir, "--escaped", "--", key, `new\x00`+value)
		if got := (tool{}).must(t, "get", dir, "--escaped", "--", key); got != "new\x00"+value {
			t.Errorf("after put of %s: %q", key, got)
		}
	}
	tool{}.must(t, "del", dir, "--escaped", "--", `a\x1b[31mred`, `\x00`)
	tool{}.must(t, "del", dir, "--escaped", "--prefix", `k\xff`)
	if got, want := strings.Count(tool{}.must(t, "scan", dir), "\n"), len(oddKeys)-3; got != want {
		t.Errorf("%d keys are left, want %d", got, want)
	}
	// the empty key is a bound before which there is no key
	if got := (tool{}).must(t, "scan", dir, "--escaped", "--to", ""); got != "" {
		t.Errorf("scan to the empty key: %q", got)
	}
	tool{}.must(t, "compact", dir, "--escaped", "--from", `tab\tand\nline`)
}

func TestKeysThatCannotBeReadAreErrors(t *testing.T) {
	dir := newStore(t, "a\t1\n")
	for _, c := range []struct{ args, want string }{
		{`get DIR \q --escaped`, `key "\\q": invalid escape, want one such as \\, \n, \x00 or \u0000`},
		{`get DIR \ --escaped`, `key "\\": invalid escape, want one such as `},
		{`get DIR \x1 --escaped`, `key "\\x1": invalid escape, want one such as `},
		{`scan DIR --from \q --escaped`, `--from "\\q": invalid escape, want one such as `},
		{`inspect DIR --key \q`, `--key "\\q": invalid escape, want one such as `},
		{`inspect DIR --key a --key \q`, `--key "\\q": invalid escape, want one such as `},
		{`get DIR xy --hex`, `key "xy": want pairs of hexadecimal digits`},
		{`get DIR 616 --hex`, `key "616": want pairs of hexadecimal digits`},
		{`get DIR 61 --hex --escaped`, `--hex and --escaped are given, want only one of them`},
	} {
		args := strings.Fields(c.args)
		args[1] = dir
		if r := (tool{}).run(t, args...); r.code != cli.ExitTrouble || !strings.HasPrefix(r.err, "bloomkv: "+c.want) {
			t.Errorf("%s: exit %d, %q, want %q", c.args, r.code, r.err, c.want)
		}
	}
}

func TestEachRepeatedKeyIsFollowed(t *testing.T) {
	dir := newStore(t, "a\t1\nb\t2\nc\t3\n")
	table := sstFiles(t, dir)[0]
	for _, of := range []string{dir, table} {
		out := tool{}.run(t, "inspect", of, "--key", "a", "--key", "", "--key", "b").out
		for _, want := range []string{"\nkey a\n", "\nkey\n", "\nkey b\n"} {
			if strings.Count(out, want) != 1 {
				t.Errorf("of %s: no %q in\n%s", of, want, out)
			}
		}
		if got := strings.Count(out, "so: true positive"); got != 2 {
			t.Errorf("of %s: %d true positives, want 2:\n%s", of, got, out)
		}
		var facts inspect.Keys
		if err := json.Unmarshal([]byte(tool{}.run(t, "inspect", of, "--json", "--key", "a", "--key", "b", "--key",
			"x").out), &facts); err != nil {
			t.Fatal(err)
		}
		if facts.Key == nil || facts.Key.Key != "a" || len(facts.More) != 2 || facts.More[0].Key != "b" ||
			facts.More[1].Key != "x" || len(facts.More[1].Tables) != 1 {
			t.Errorf("of %s: %+v", of, facts)
		}
	}
	for _, of := range []string{dir, table} {
		page := tool{}.must(t, "inspect", of, "--html", "-", "--key", "a", "--key", "b")
		for _, want := range []string{`id="key"`, `id="key2"`, "<p>Key a.</p>", "<p>Key b.</p>"} {
			if strings.Count(page, want) != 1 {
				t.Errorf("the page of %s has %d times %q", of, strings.Count(page, want), want)
			}
		}
	}
}
