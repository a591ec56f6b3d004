package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const footerBytes = 80 // of a table; internal/sstable/format.go has the drawing

// reseal corrects the checksums of a table whose filter block was changed: those of the units, of the filter's
// header, of the filter in the footer, and of the footer, as far as they exist.
func reseal(table []byte) {
	footer := table[len(table)-footerBytes:]
	at, n := binary.LittleEndian.Uint64(footer[8:]), binary.LittleEndian.Uint64(footer[16:])
	if at > uint64(len(table)) || n > uint64(len(table))-at || n < bloomblock.HeaderSize {
		return
	}
	block := table[at:][:n]
	crc := func(b ...[]byte) uint32 { return crc32.Checksum(bytes.Join(b, nil), castagnoli) }
	offset := uint64(bloomblock.HeaderSize)
	for i := range min(int(block[11]), bloomblock.MaxUnits) {
		u := block[32+24*i:]
		blocks := binary.LittleEndian.Uint64(u)
		if blocks > n/64 || offset > n || 64*blocks > n-offset {
			break
		}
		binary.LittleEndian.PutUint32(u[16:], crc(block[offset:][:64*blocks]))
		offset += 64 * blocks
	}
	if sums := block[offset:]; block[116] != 0 && len(sums) > 0 { // of the pages
		clear(sums)
		for i, page := range slices.Collect(slices.Chunk(block[bloomblock.HeaderSize:offset], 4096)) {
			binary.LittleEndian.PutUint32(sums[4*i:], crc(page))
		}
		binary.LittleEndian.PutUint32(block[112:], crc(sums))
	}
	binary.LittleEndian.PutUint32(block[124:], crc(block[:124]))
	sealFooter(footer, block[:124])
}

// sealFooter corrects the checksums of a footer, that of the filter's header and its own.
func sealFooter(footer, header []byte) {
	bound := append(bytes.Clone(footer[:8]), 4) // the table's id, and then the place of the filter
	bound = append(append(bound, footer[8:16]...), header...)
	binary.LittleEndian.PutUint32(footer[56:], crc32.Checksum(bound, castagnoli))
	own := append(bytes.Clone(footer[:64]), footer[68:]...)
	binary.LittleEndian.PutUint32(footer[64:], crc32.Checksum(own, castagnoli))
}

// faulty copies a table to another directory and fills its filter with the hashes that keys adds, which are already
// mixed with the filter's seed.
func faulty(t *testing.T, table string, keys func(seed bloomblock.Seed, add func(mixed bloomblock.Hash))) string {
	t.Helper()
	b := readFile(t, table)
	footer := b[len(b)-footerBytes:]
	block := b[binary.LittleEndian.Uint64(footer[8:]):][:binary.LittleEndian.Uint64(footer[16:])]
	h, err := bloomblock.ParseHeader(block)
	must(t, err)
	clear(block[bloomblock.HeaderSize:])
	keys(h.Seed, func(x bloomblock.Hash) {
		for _, u := range h.Units {
			a, c := x.Fields()
			line := block[u.Offset+64*x.Block(u.Blocks):]
			for p := range u.Probes {
				at := a >> (9 * p) & 511
				if p >= 7 {
					at = c >> (9 * (p - 7)) & 511
				}
				line[at>>3] |= 1 << (at & 7)
			}
			x = x.Next()
		}
	})
	reseal(b)
	name := filepath.Join(t.TempDir(), filepath.Base(table))
	writeFile(t, name, b)
	return name
}

func lineKey(i int) bloomblock.Hash { return bloomblock.HashKey(fmt.Appendf(nil, "key/%06d", i)) }

func TestFaultsOfAFilterAreFlaggedByName(t *testing.T) {
	if testing.Short() {
		t.Skip("millions of probes of filters, by one goroutine")
	}
	const n = 20_000
	table := glob(t, newStore(t, manyLines(n)), "*.sst")
	type adder = func(bloomblock.Seed, func(bloomblock.Hash))
	add := func(first, n, step int, change func(mixed bloomblock.Hash) bloomblock.Hash) adder {
		return func(seed bloomblock.Seed, add func(bloomblock.Hash)) {
			for i := first; i < n; i += step {
				add(change(seed.Mix(lineKey(i))))
			}
		}
	}
	asItIs := func(mixed bloomblock.Hash) bloomblock.Hash { return mixed }
	low32 := func(mixed bloomblock.Hash) bloomblock.Hash { return mixed << 32 }
	for _, c := range []struct {
		name   string
		table  string
		flags  []string // among others
		code   int      // of --verify
		verify string
	}{
		{"as it was written", faulty(t, table, add(0, n, 1, asItIs)), nil, cli.ExitOK, "Verified. Ok, bit for bit"},
		{
			"half of its keys missing", faulty(t, table, add(0, n, 2, asItIs)),
			[]string{"keys-differ", "fill-off"},
			cli.ExitTrouble, "! verify: Does NOT ",
		},
		{
			"twice its keys", faulty(t, table, add(0, 2*n, 1, asItIs)),
			[]string{"saturated", "keys-differ"},
			cli.ExitTrouble, "! verify: Does NOT ",
		},
		{
			"hashes of 32 bits", faulty(t, table, add(0, n, 1, low32)),
			[]string{"positions-uneven"},
			cli.ExitTrouble,
			"! verify: Does NOT ",
		},
	} {
		text := tool{}.must(t, "inspect", c.table)
		object := tool{}.must(t, "inspect", c.table, "--json")
		for _, flag := range c.flags {
			if !strings.Contains(text, "! "+flag+": ") || !strings.Contains(object, `"name": "`+flag+`"`) {
				t.Errorf("%s: no flag %s:\n%s", c.name, flag, text)
			}
		}
		if c.flags == nil && (strings.Contains(text, "! ") || !strings.Contains(object, `"flags": []`)) {
			t.Errorf("%s: flagged:\n%s", c.name, text)
		}
		facts, err := inspect.ReadTable(t.Context(), c.table, inspect.Options{Verify: true})
		must(t, err)
		if v := facts.Verify; v.OK != (c.code == cli.ExitOK) ||
			(v.Denied > 0) != (!v.OK && !slices.Contains(c.flags, "saturated")) || v.Keys != n {
			t.Errorf("%s: %+v", c.name, v)
		}
		r := tool{}.run(t, "inspect", "--verify", c.table)
		if r.code != c.code || !strings.Contains(r.out, c.verify) || c.code != cli.ExitOK &&
			!strings.Contains(r.err, filepath.Base(table)+": offset ") {
			t.Errorf("%s: --verify: exit %d, %q, want %d and %q:\n%s", c.name, r.code, r.err, c.code, c.verify, r.out)
		}
	}
	half := faulty(t, table, add(n/2, n, 1, asItIs))
	r := tool{}.run(t, "inspect", half, "--key", "key/000007")
	if r.code != cli.ExitTrouble ||
		!strings.Contains(r.out, "the filter says: no; the table has: value; so: false negative") ||
		!strings.Contains(r.err, "denies key key/000007") {
		t.Errorf("a key that the filter hides: exit %d, %q:\n%s", r.code, r.err, r.out)
	}
}

func sstFiles(t *testing.T, dir string) []string {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%s: %q, %v", dir, tables, err)
	}
	return tables
}

func TestAStoreInUseIsReadWithoutItsLock(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	defer db.Close()
	must(t, db.Put([]byte("k"), nil))
	out := tool{}.must(t, "inspect", dir, "--verify", "--key", "k")
	for _, want := range []string{
		"read without the store's lock", "Verified. The filters of 1 table are bit for bit", "no table covers the key",
	} {
		if !strings.Contains(oneLine(out), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if err := errors.Join(db.Put([]byte("k"), []byte("again")), db.Flush(t.Context())); err != nil {
		t.Errorf("the store after it was looked at: %v", err)
	}
}

func TestATableThatIsCutOffAnywhereIsAnError(t *testing.T) {
	table := sstFiles(t, newStore(t, manyLines(300)))[0]
	b := readFile(t, table)
	name := filepath.Join(t.TempDir(), "cut.sst")
	for n := 0; n < len(b); n += 1 + n/50 {
		writeFile(t, name, b[:n])
		if r := (tool{}).run(t, "inspect", "--verify", "--key", "x", name); r.code != cli.ExitTrouble ||
			!strings.Contains(r.err, "cut.sst: offset ") {
			t.Errorf("%d bytes: exit %d, %q", n, r.code, r.err)
		}
	}
}

func TestInspectShowsWhatTheStoreHasCounted(t *testing.T) {
	dir := newStore(t, manyLines(3000))
	table := sstFiles(t, dir)[0]
	if out := (tool{}).must(t, "inspect", table); strings.Contains(out, "\n  live ") {
		t.Errorf("before anybody asked:\n%s", out)
	}
	db, err := bloomkv.Open(dir, nil)
	must(t, err)
	for i := range 5000 {
		if _, err := db.Get(fmt.Appendf(nil, "key/%06d!", i%3000)); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if _, err := db.Get([]byte("key/000007")); err != nil {
		t.Fatal(err)
	}
	must(t, errors.Join(db.Put([]byte("z"), nil), db.Close()))
	var facts inspect.Table
	must(t, json.Unmarshal([]byte(tool{}.must(t, "inspect", table, "--json")), &facts))
	l := facts.Live
	if l == nil || l.FilterNegatives < 3000 || l.FilterNegatives > 7000 || l.TruePositives != 1 || l.Rate != l.FPR() {
		t.Fatalf("%+v", l)
	}
	want := fmt.Sprintf("live rate %.3g: %s, 1 true positive, about %s",
		l.Rate, words.Plural(l.FalsePositives, "false positive"), words.Plural(l.FilterNegatives, "negative"))
	if out := oneLine(tool{}.must(t, "inspect", table)); !strings.Contains(out, want) {
		t.Errorf("lacks %q:\n%s", want, out)
	}
	if out := (tool{}).must(t, "inspect", dir, "--json"); !strings.Contains(out, `"live": {`) {
		t.Errorf("of the store:\n%s", out)
	}
}

// TestAHeaderWithAnotherCountDoesNotMatch changes the count of keys in the header of either filter, with right
// checksums. Every bit of the filter is right then.
func TestAHeaderWithAnotherCountDoesNotMatch(t *testing.T) {
	_, table := prefixStore(t)
	b := readFile(t, table)
	for name, at := range map[string]int{
		"keys": bytes.Index(b, []byte("bloomblk")), "prefixes": bytes.LastIndex(b, []byte("bloomblk")),
	} {
		changed := bytes.Clone(b)
		header := changed[at:][:124]
		keys := binary.LittleEndian.Uint64(header[16:]) + 1
		binary.LittleEndian.PutUint64(header[16:], keys)
		binary.LittleEndian.PutUint32(changed[at+124:], crc32.Checksum(header, castagnoli))
		if name == "keys" { // the footer has a checksum of this header
			sealFooter(changed[len(b)-footerBytes:], header)
		}
		file := filepath.Join(t.TempDir(), filepath.Base(table))
		writeFile(t, file, changed)
		facts, err := inspect.ReadTable(t.Context(), file, inspect.Options{Verify: true})
		must(t, err)
		v, other := facts.Verify, facts.Prefix.Verify
		if name == "prefixes" {
			v, other = other, v
		}
		if v == nil || v.OK || v.Recorded != keys || v.Keys != keys-1 || v.Missing+v.Extra+v.Denied != 0 || !other.OK ||
			facts.Wrong() == nil {
			t.Errorf("%s: %+v, other filter %+v; want that only the count differs", name, v, other)
		}
	}
}
