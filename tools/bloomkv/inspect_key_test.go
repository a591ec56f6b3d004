package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

func TestAKeyIsFollowedThroughTheTables(t *testing.T) {
	if testing.Short() {
		t.Skip("millions of probes of filters, by one goroutine")
	}
	dir := newStore(t, manyLines(3000))
	tool{}.must(t, "del", dir, "key/000001")
	tool{}.must(t, "del", dir, "--from", "key/000100", "--to", "key/000200")
	tables := sstFiles(t, dir)
	find := func(maybe bool) string { // an absent key within the bounds of the first table
		keys := make([][]byte, 5000)
		for i := range keys {
			keys[i] = fmt.Appendf(nil, "key/000500/%d", i)
		}
		table, err := inspect.ReadTable(t.Context(), tables[0], inspect.Options{Keys: keys})
		must(t, err)
		for i, k := range table.More {
			if (k.Tables[0].Answer == "maybe") == maybe {
				return string(keys[i+1])
			}
		}
		t.Fatalf("none of %d keys has the answer", len(keys))
		return ""
	}
	for _, c := range []struct {
		name, of, key string
		want          []string
	}{
		{"a key that is there", tables[0], "key/000007", []string{"says: maybe", "has: value", "so: true positive"}},
		{
			"an absent key that the filter denies", tables[0], find(false),
			[]string{"says: no", "has: nothing", "so: negative", " is clear"},
		},
		{"a key behind the fences", tables[0], "z", []string{"outside the fences", "has: nothing", "so: not asked"}},
		{"a delete", tables[1], "key/000001", []string{"says: maybe", "has: delete", "so: true positive"}},
		{
			"a key under a range delete", tables[2], "key/000150",
			[]string{"has: nothing, and a range delete over the key", "key/000100", "key/000200"},
		},
		{
			"a key in a store", dir, "key/000007",
			[]string{
				"level: 0; run: ", "no table covers the key", tables[0][len(tables[0])-10:] + ": level: ",
				"fences from: key/000000; ", "so: true positive",
			},
		},
		{
			"a key with bytes that do not print", tables[0], `key\x00\u00e9\\`,
			[]string{
				`key key\x00é\\`, "not asked",
				"hash " + fmt.Sprintf("%016x", uint64(bloomblock.HashKey([]byte("key\x00é\\")))),
			},
		},
		{
			"a key that is not UTF-8", tables[0], "k\xff\\xfe",
			[]string{`key k\xff\xfe`, "hash " + fmt.Sprintf("%016x", uint64(bloomblock.HashKey([]byte("k\xff\xfe"))))},
		},
		{"the empty key", tables[0], "", []string{"key hash ef46db3751d8e999", "not asked"}},
	} {
		out := tool{}.must(t, "inspect", c.of, "--key", c.key)
		fields := oneLine(out)
		for _, want := range c.want {
			if !strings.Contains(fields, want) {
				t.Errorf("%s lacks %q:\n%s", c.name, want, out[strings.LastIndex(out, "\nkey "):])
			}
		}
	}
	// A filter of one unit and a high rate lets many absent keys through.
	loose := filepath.Join(t.TempDir(), "store")
	tool{in: manyLines(3000)}.must(t, "load", loose, "--fpr", "0.9")
	tool{}.must(t, "compact", loose)
	tables = sstFiles(t, loose)
	if out := oneLine(tool{}.must(t, "inspect", tables[0], "--key", find(true))); !strings.Contains(out,
		"says: maybe; the table has: nothing; so: false positive") {
		t.Errorf("a false positive:\n%s", out)
	}
	if r := (tool{}).run(t, "inspect", dir, "--key", `\q`); r.code != cli.ExitTrouble ||
		!strings.Contains(r.err, `--key "\\q"`) {
		t.Errorf("a key that is not escaped: exit %d, %q", r.code, r.err)
	}
}
