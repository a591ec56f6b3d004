package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// prefixStore returns a store of keys with prefixes up to the second slash, and two keys without.
func prefixStore(t *testing.T, flags ...string) (dir, table string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	var lines strings.Builder
	lines.WriteString("a\tno prefix\n")
	for i := range 3000 {
		fmt.Fprintf(&lines, "user/%04d/%d\tvalue\n", i/3*2, i)
	}
	lines.WriteString("z\tno prefix\n")
	tool{in: lines.String()}.must(t, append([]string{"load", dir, "--filter-prefix", "sep:/:2"}, flags...)...)
	return dir, glob(t, dir, "*.sst")
}

func inspectTable(t *testing.T, table string, args ...string) (r result, facts inspect.Table) {
	t.Helper()
	r = tool{}.run(t, append([]string{"inspect", table, "--json"}, args...)...)
	if err := json.Unmarshal([]byte(r.out), &facts); err != nil {
		t.Fatalf("%v: exit %d, %s", err, r.code, r.err)
	}
	text := tool{}.run(t, append([]string{"inspect", table}, args...)...)
	if text.code != r.code || text.err != r.err {
		t.Errorf("text: exit %d, %q; JSON: exit %d, %q", text.code, text.err, r.code, r.err)
	}
	r.out = oneLine(text.out)
	return r, facts
}

func TestPrefixFiltersAreVerified(t *testing.T) {
	testkit.Long(t)
	for _, flags := range [][]string{nil, {"--filter-kind", "ribbon"}, {"--fpr", "0.5"}} {
		dir, table := prefixStore(t, flags...)
		r, facts := inspectTable(t, table, "--verify")
		v := facts.Prefix.Verify
		if r.code != cli.ExitOK || v == nil || !v.OK || v.Keys != 1000 || v.Recorded != 1000 || !facts.Verify.OK ||
			facts.Verify.Keys != 3002 {
			t.Errorf("%q: exit %d, %q, %+v, %+v", flags, r.code, r.err, v, facts.Verify)
		}
		if out := oneLine(tool{}.must(t, "inspect", dir, "--verify", "--tables")); !strings.Contains(out,
			"; prefix filter: ok, bit for bit: ") {
			t.Errorf("%q: the store:\n%s", flags, out)
		}
	}
	_, table := prefixStore(t)
	whole := readFile(t, table)
	at := bytes.LastIndex(whole, []byte("bloomblk"))
	for _, c := range []struct {
		name           string
		change         func(unit []byte)
		denied, extras bool
	}{
		{"bits too few", func(unit []byte) { clear(unit[:len(unit)/2]) }, true, false},
		{"a bit too many", func(unit []byte) { unit[bytes.IndexByte(unit, 0)] = 0x10 }, false, true},
	} {
		b := bytes.Clone(whole)
		block := b[at:]
		unit := block[bloomblock.HeaderSize:][:64*binary.LittleEndian.Uint64(block[32:])]
		c.change(unit)
		table := crc32.MakeTable(crc32.Castagnoli)
		binary.LittleEndian.PutUint32(block[32+16:], crc32.Checksum(unit, table))
		binary.LittleEndian.PutUint32(block[124:], crc32.Checksum(block[:124], table))
		name := filepath.Join(t.TempDir(), "000001.sst")
		writeFile(t, name, b)
		r, facts := inspectTable(t, name, "--verify", "--key", "user/0000/1")
		v := facts.Prefix.Verify
		if r.code != cli.ExitTrouble || v == nil || v.OK || (v.Denied > 0) != c.denied || (v.Missing > 0) != c.denied ||
			(v.Extra > 0) != c.extras || !facts.Verify.OK ||
			!strings.Contains(r.err, "does not match the prefixes of the table's keys") ||
			!strings.Contains(r.out, "! verify: Prefix filter: does NOT ") {
			t.Errorf("%s: exit %d, %q, %+v", c.name, r.code, r.err, v)
		}
		lie := fmt.Sprintf("000001.sst: offset %d: the filter does not match", uint64(at)+*v.First)
		if !strings.Contains(r.err, lie) {
			t.Errorf("%s: %q lacks %q", c.name, r.err, lie)
		}
		if p := facts.Key.Tables[0].Prefix; (p.Verdict == "false negative") != strings.Contains(r.err,
			"denies prefix user/0000/") {
			t.Errorf("%s: %+v, %q", c.name, p, r.err)
		}
	}
}

func TestARuleOfALaterVersionIsSaidNotToBeKnown(t *testing.T) {
	_, table := prefixStore(t)
	b := readFile(t, table)
	footer := b[len(b)-footerBytes:]
	end := len(b) - footerBytes - 5
	props := b[end-int(binary.LittleEndian.Uint64(footer[48:])) : end]
	copy(props[bytes.Index(props, []byte("sep:/:2")):], "new:/:2")
	seal := append(binary.LittleEndian.AppendUint64(nil, binary.LittleEndian.Uint64(footer)), 3)
	seal = binary.LittleEndian.AppendUint64(seal, uint64(end-len(props)))
	seal = append(append(seal, props...), b[end])
	binary.LittleEndian.PutUint32(b[end+1:], crc32.Checksum(seal, crc32.MakeTable(crc32.Castagnoli)))
	writeFile(t, table, b)
	r, facts := inspectTable(t, table, "--verify", "--key", "user/0000/1")
	v, p := facts.Prefix.Verify, facts.Key.Tables[0].Prefix
	if r.code != cli.ExitOK || v == nil || v.OK || !strings.Contains(v.Cannot, `"new:/:2"`) || p.Answer != "none" ||
		p.Verdict != "not asked" ||
		!strings.Contains(r.out, `not rebuilt: this program does not know the rule "new:/:2"`) ||
		!strings.Contains(r.out, "prefix by: new:/:2; prefix: none, or the rule is not known") {
		t.Errorf("exit %d, %q, %+v, %+v:\n%s", r.code, r.err, v, p, r.out)
	}
}

func TestThePrefixOfAKeyIsAskedToo(t *testing.T) {
	testkit.Long(t)
	dir, table := prefixStore(t)
	_, prefixes, err := inspect.ReadFilters(table)
	must(t, err)
	filter, err := bloomblock.Parse(prefixes.Block())
	must(t, err)
	find := func(maybe bool) string { // an absent prefix
		for i := 0; ; i++ {
			if key := fmt.Sprintf("user/-%d/", i); filter.MayContain(bloomblock.HashKey([]byte(key))) == maybe {
				return key
			}
		}
	}
	negative, positive := find(false), find(true)
	_, facts := inspectTable(t, table, "--key", negative+"more", "--key", positive+"more")
	for _, c := range []struct {
		key, want string
		of        *inspect.Key
	}{{negative, "negative", facts.Key}, {positive, "false positive", facts.More[0]}} {
		p := c.of.Tables[0].Prefix
		if p.Verdict != c.want || (p.Answer == "maybe") != (c.key == positive) || p.Found || p.Prefix != c.key ||
			p.Hash != fmt.Sprintf("%016x", uint64(bloomblock.HashKey([]byte(c.key)))) || len(p.Units) == 0 {
			t.Errorf("%s: %+v, want %s", c.key, p, c.want)
		}
	}
	for _, of := range []string{table, dir} {
		out := oneLine(tool{}.must(t, "inspect", of, "--key", "user/0002/other", "--key", "user"))
		for _, want := range []string{
			"prefix by: sep:/:2; prefix: user/0002/; its hash: ",
			"the prefix filter says: maybe; the table has: a key with that prefix; so: true positive",
			"prefix by: sep:/:2; prefix: none, or the rule is not known; the prefix filter says: none; so: not asked",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %q:\n%s", of, want, out)
			}
		}
	}
}
