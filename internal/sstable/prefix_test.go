package sstable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

var prefixRules = []PrefixRule{
	{},
	PrefixLen(1), PrefixLen(2), PrefixLen(5), PrefixSeparator('/', 1), PrefixSeparator('/', 2),
	PrefixSeparator('/', 4), PrefixSeparator(0, 1),
}

// naivePrefix does the same as Of by splitting the key.
func naivePrefix(r PrefixRule, key string) (string, bool) {
	switch r.kind {
	case firstN:
		return key[:min(r.n, len(key))], len(key) >= r.n
	case upToNth:
		parts := strings.SplitAfter(key, string([]byte{r.sep}))
		if len(parts) <= r.n {
			return "", false
		}
		return strings.Join(parts[:r.n], ""), true
	default:
		return "", false
	}
}

// TestARuleGivesAKeyTheSamePrefixAsTheStartThatItHas checks all pairs of short keys: the property decides whether a
// filter may be asked for all keys with a common start.
func TestARuleGivesAKeyTheSamePrefixAsTheStartThatItHas(t *testing.T) {
	keys := []string{""}
	for i := 0; len(keys[i]) < 6; i++ {
		for _, c := range []string{"a", "/", "\x00"} {
			keys = append(keys, keys[i]+c)
		}
	}
	for _, r := range prefixRules {
		for _, key := range keys {
			got := r.Of([]byte(key))
			if want, ok := naivePrefix(r, key); string(got) != want && ok || (got != nil) != ok {
				t.Fatalf("%v: prefix of %q is %q, want %q, %v", r, key, got, want, ok)
			}
			for n := range len(key) + 1 {
				if start := r.Of([]byte(key[:n])); start != nil && !bytes.Equal(start, got) {
					t.Fatalf("%v: %q has prefix %q, and its start %q has %q", r, key, got, key[:n], start)
				}
			}
		}
	}
}

func TestRulesAsText(t *testing.T) {
	for _, tt := range []struct {
		text string
		want PrefixRule
	}{
		{"", PrefixRule{}},
		{"len:1", PrefixLen(1)},
		{"len:65536", PrefixLen(maxKey)},
		{"sep:/:1", PrefixSeparator('/', 1)},
		{"sep:::3", PrefixSeparator(':', 3)},
		{"sep:0:2", PrefixSeparator('0', 2)},
		{"sep:0x00:1", PrefixSeparator(0, 1)},
		{"sep:0x20:1", PrefixSeparator(' ', 1)},
		{"sep:0xff:9", PrefixSeparator(0xff, 9)},
	} {
		var got, again PrefixRule
		if err := got.UnmarshalText([]byte(tt.text)); err != nil || got != tt.want || got.String() != tt.text {
			t.Errorf("%q: %v, %v, want %v", tt.text, got, err, tt.want)
		}
		b, err := json.Marshal(tt.want)
		if err == nil {
			err = json.Unmarshal(b, &again)
		}
		if err != nil || again != tt.want {
			t.Errorf("%q as JSON %s: %v, %v", tt.text, b, again, err)
		}
	}
	for _, tt := range []struct{ text, want string }{
		{"len", `number ""`},
		{"len:0", "length 0, want 1 to 65536"},
		{"len:65537", "length 65537, want 1 to 65536"},
		{"len:-1", "length -1"},
		{"len:+1", `want "len:1"`},
		{"len:08", `want "len:8"`},
		{"sep:/:0", "separator number 0, want 1"},
		{"sep:/", `want "len:N", "sep:C:N"`},
		{"sep::1", `want "len:N"`},
		{"sep:ab:1", `separator "ab"`},
		{"sep:256:1", `separator "256"`},
		{"sep:0x2f:1", `want "sep:/:1"`},
		{"sep:47:1", `want "sep:/:1"`},
		{"sep:\xff:1", `want "sep:0xff:1"`},
		{"sep:/:1:", "separator"},
		{"SEP:/:1", `want "len:N"`},
		{":", `want "len:N"`},
		{strings.Repeat("x", 1<<20), `want "len:N"`},
	} {
		r := PrefixLen(3)
		if err := r.UnmarshalText([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) ||
			r != PrefixLen(3) || len(err.Error()) > 300 {
			t.Errorf("%.99q: %v, %.400v, want %q", tt.text, r, err, tt.want)
		}
	}
	for _, r := range []PrefixRule{PrefixLen(0), PrefixLen(-1), PrefixSeparator('/', 0), PrefixLen(maxKey + 1)} {
		if r.Check() == nil || r == (PrefixRule{}) {
			t.Errorf("%v is accepted", r)
		}
	}
	if r := PrefixLen(0); r.Of([]byte("key")) != nil {
		t.Errorf("%v gives a prefix", r)
	}
}

// TestPrefixFiltersHoldEveryPrefixAndLittleElse builds tables of all shapes by all rules.
func TestPrefixFiltersHoldEveryPrefixAndLittleElse(t *testing.T) {
	testkit.Long(t)
	ribbon, err := bloomblock.ParamsRibbon(0.01, 0.001)
	must(t, err)
	all := shapes()
	for i := range 3000 {
		all["users"] = append(all["users"], set(fmt.Sprintf("user/%d/%d", i*7919%1500, i), 0, ""))
	}
	all["users"] = sorted(all["users"])
	for name, kvs := range all {
		for _, params := range []bloomblock.Params{filterParams(t, 0.01, 0.001), ribbon} {
			for _, rule := range prefixRules {
				file, info := build(t, WriterOptions{ID: 3, Filter: params, Prefix: rule}, kvs)
				prefixes := map[string]bool{}
				for _, v := range kvs {
					if p := rule.Of([]byte(v.key)); p != nil {
						prefixes[string(p)] = true
					}
				}
				r := newReader(file, info, 1<<20)
				if err := r.Verify(t.Context(), nil); err != nil {
					t.Fatalf("%s, %v: %v", name, rule, err)
				}
				props, err := r.Properties()
				if x := props.Prefixes; err != nil || x.Rule != rule.String() || x.Keys != uint64(len(prefixes)) ||
					(x.Bytes > 0) != (rule != PrefixRule{}) {
					t.Fatalf("%s, %v: properties %+v, %v, want %d prefixes", name, rule, x, err, len(prefixes))
				}
				if _, probed := r.Prefixes.MayContain(1); probed || r.Prefixes.Bytes() != 0 {
					t.Fatalf("%s, %v: loaded before anybody asked", name, rule)
				}
				must(t, r.LoadPrefixes(rule, 0))
				for p := range prefixes {
					if maybe, probed := r.Prefixes.MayContain(bloomblock.HashKey([]byte(p))); !maybe || !probed {
						t.Fatalf("%s, %v: prefix %q: %v, probed %v", name, rule, p, maybe, probed)
					}
				}
				wrong, asked := 0, 0
				for i := range 10_000 {
					if maybe, probed := r.Prefixes.MayContain(bloomblock.HashKey(fmt.Appendf(nil, "absent%d/",
						i))); probed && maybe {
						wrong++
					} else if probed {
						asked++
					}
				}
				// 0.001 promised: 10 of 10,000, and five deviations.
				if probes := rule != (PrefixRule{}); probes && (asked+wrong != 10_000 || wrong > 10+16) ||
					!probes && asked+wrong > 0 {
					t.Errorf("%s, %v: %d of %d absent prefixes pass", name, rule, wrong, asked+wrong)
				}
				for _, other := range prefixRules {
					r := newReader(file, info, 0)
					must(t, r.LoadPrefixes(other, 0))
					maybe, probed := r.Prefixes.MayContain(12345)
					if own := other == rule && rule != (PrefixRule{}); probed != own ||
						!own && (!maybe || r.Prefixes.Bytes() != 0) {
						t.Fatalf("%s by %v, asked by %v: %v, probed %v", name, rule, other, maybe, probed)
					}
				}
			}
		}
	}
}

// LoadPrefixes loads the prefix filter by a rule, as Load does the filter of keys.
func (r *Reader) LoadPrefixes(rule PrefixRule, maxRate float64) error {
	if err := r.KnowPrefixes(rule); err != nil {
		return err
	}
	return r.Prefixes.Load(maxRate)
}

func TestPrefixFiltersAreLoadedAsTheRateNeedsAndLetGo(t *testing.T) {
	var kvs []kv
	for i := range 3000 {
		kvs = append(kvs, set(fmt.Sprintf("%05d/a", i), 0, ""))
	}
	rule := PrefixSeparator('/', 1)
	o := WriterOptions{ID: 3, partSize: defaultPartSize, Filter: filterParams(t, 0.1, 0.01, 0.001), Prefix: rule}
	file, info := build(t, o, kvs)
	r := newReader(file, info, 0)
	reads := &counting{r.file, 0}
	r.file = reads
	loaded := func(what string, units int) {
		t.Helper()
		s := r.Prefixes.State()
		if s.Units != units || s.Damage != nil || s.Form.Bytes != r.Prefixes.Bytes() ||
			(s.Form.Bytes > 0) != (units > 0) {
			t.Fatalf("%s: %+v, want %d units", what, s, units)
		}
		if _, probed := r.Prefixes.MayContain(1); probed != (units > 0) {
			t.Fatalf("%s: probed %v", what, probed)
		}
	}
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	must(r.LoadPrefixes(rule, 1))
	loaded("no rate is asked for", 0)
	must(r.LoadPrefixes(rule, 0.01))
	loaded("two units", 2)
	before := reads.n
	must(r.LoadPrefixes(rule, 0.01))
	if reads.n != before {
		t.Errorf("loaded again with %d reads", reads.n-before)
	}
	must(r.LoadPrefixes(rule, 0.05))
	loaded("what two units are enough for", 2)
	must(r.LoadPrefixes(rule, 0.1))
	loaded("one unit after a move", 1)
	r.Prefixes.Reduce(r.Prefixes.Forms(1))
	loaded("dropped", 0)
	must(r.LoadPrefixes(rule, 0))
	loaded("all units", 3)
	dropIndex(r)
	before = reads.n
	maybe, _ := r.Prefixes.MayContain(bloomblock.HashKey([]byte("00000/")))
	if parts, _ := r.Parts(); !maybe || reads.n != before || parts != 0 {
		t.Error("without the index the filter is asked all the same")
	}
	r.Close()
	loaded("closed", 0)
}

func TestErrorsOfTheFileArePassedOnByPrefixFilters(t *testing.T) {
	file, info, _ := small(t, None)
	r := newReader(file, info, 0)
	f := &failing{bytes.NewReader(file), true}
	r.file = f
	if err := r.LoadPrefixes(smallRule, 0); !errors.Is(err, errDisk) {
		t.Fatalf("tail: %v", err)
	}
	f.on = false
	must(t, r.Load(1))
	f.on = true
	if err := r.LoadPrefixes(smallRule, 0); !errors.Is(err, errDisk) {
		t.Fatalf("filter: %v", err)
	}
	f.on = false
	must(t, r.LoadPrefixes(smallRule, 0))
	if s := r.Prefixes.State(); s.Units != 2 || s.Damage != nil {
		t.Errorf("tried again: %+v", s)
	}
}

// TestNoFlippedBitOfAPrefixFilterDeniesAPrefix flips each bit of the block, and of its description in the properties.
func TestNoFlippedBitOfAPrefixFilterDeniesAPrefix(t *testing.T) {
	testkit.Long(t)
	ribbon, err := bloomblock.ParamsRibbon(0.01, 0.001)
	must(t, err)
	rule := PrefixLen(6)
	var kvs []kv
	for i := range 1400 {
		kvs = append(kvs, set(fmt.Sprintf("%05d/%d", i/2, i), 0, "v"))
	}
	for _, p := range []bloomblock.Params{filterParams(t, 0.01, 0.001), ribbon} {
		file, info := build(t, WriterOptions{ID: 1, BlockSize: 1 << 10, Filter: p, Prefix: rule}, kvs)
		whole := newReader(file, info, 0)
		if err := whole.LoadPrefixes(rule, 0); err != nil || whole.Prefixes.State().Units != 2 {
			t.Fatalf("%+v, %v: want two units", whole.Prefixes.State(), err)
		}
		props, err := whole.Properties()
		must(t, err)
		at := info.Size - info.TailLen
		for i := (at - props.Prefixes.Bytes) * 8; i < at*8; i++ {
			file[i/8] ^= 1 << (i % 8)
			r := newReader(file, info, 1<<20)
			if err := r.LoadPrefixes(rule, 0); err != nil {
				t.Fatalf("bit %d: %v", i, err)
			}
			if damage := r.Prefixes.State().Damage; !errors.Is(damage, corrupt.Err) {
				t.Fatalf("bit %d: damage %v, want one that is seen", i, damage)
			}
			prefix := fmt.Appendf(nil, "%05d/", i%700)
			if maybe, _ := r.Prefixes.MayContain(bloomblock.HashKey(prefix)); !maybe || r.Prefixes.State().Units > 1 {
				t.Fatalf("bit %d: %v for prefix %q, want maybe; %+v", i, maybe, prefix, r.Prefixes.State())
			}
			if i%61 == 0 {
				if err := r.Verify(t.Context(), nil); !errors.Is(err, corrupt.Err) {
					t.Fatalf("bit %d: Verify: %v", i, err)
				}
				if err := r.Load(0); err != nil || r.Keys.State().Damage != nil || r.Keys.State().Units != 2 {
					t.Fatalf("bit %d: the filter of keys: %+v, %v", i, r.Keys.State(), err)
				}
			}
			file[i/8] ^= 1 << (i % 8)
		}
	}
}

func TestVerifySeesAPrefixFilterThatLacksAPrefix(t *testing.T) {
	rule := PrefixLen(3)
	kvs := []kv{set("aaa1", 0, ""), set("bbb1", 0, ""), set("ccc1", 0, "")}
	o := WriterOptions{ID: 1, Filter: filterParams(t, 0.001), Prefix: rule}
	var buf bytes.Buffer
	w := NewWriter(&buf, o)
	for i, v := range kvs {
		must(t, w.Add(v.ikey(), nil))
		if i == 1 {
			w.prefix.Reset()
			w.prefix.Add(bloomblock.HashKey([]byte("zzz")))
			w.self = selfCheck{} // it would panic
		}
	}
	info, err := w.Finish()
	must(t, err)
	err = newReader(buf.Bytes(), info, 0).Verify(t.Context(), nil)
	if !errors.Is(err, corrupt.Err) || !strings.Contains(err.Error(), `the prefix filter denies "aaa" of key "aaa1"`) {
		t.Errorf("got %v, want the prefix that is denied", err)
	}
}

// TestARuleOfTheFutureIsNotAsked builds a table with a rule that this version does not know.
func TestARuleOfTheFutureIsNotAsked(t *testing.T) {
	kvs := []kv{set("aaa1", 0, ""), set("bbb1", 0, "")}
	file, info := build(t, WriterOptions{ID: 1, Filter: filterParams(t, 0.001), Prefix: PrefixLen(3)}, kvs)
	at := bytes.LastIndex(file, []byte("len:3"))
	copy(file[at:], "lem:3")
	fixSums(file)
	r := newReader(file, info, 0)
	for _, rule := range slices.Concat(prefixRules, []PrefixRule{PrefixLen(3)}) {
		must(t, r.LoadPrefixes(rule, 0))
		if maybe, probed := r.Prefixes.MayContain(7); !maybe || probed {
			t.Errorf("%v: %v, probed %v", rule, maybe, probed)
		}
	}
	if err := r.Verify(t.Context(), nil); err != nil {
		t.Errorf("Verify: %v", err)
	}
}

func TestPropertiesOfAPrefixFilterThatMakeNoSense(t *testing.T) {
	whole := Properties{
		Entries: 9, Blocks: 1, FilterKeys: 9, Smallest: []byte("a"), Largest: []byte("b"),
		Prefixes: PrefixProperties{Rule: "len:1", Keys: 9, Bytes: bloomblock.HeaderSize + filterAlign},
	}
	if p, err := ParseProperties(whole.append(nil)); err != nil || p.Prefixes != whole.Prefixes {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, tt := range []struct {
		want   string
		change func(x *PrefixProperties)
	}{
		{"10 prefixes of 9 entries", func(x *PrefixProperties) { x.Keys = 10 }},
		{"prefix filter of 64 bytes", func(x *PrefixProperties) { x.Bytes = 64 }},
		{"prefix filter of 0 bytes", func(x *PrefixProperties) { x.Bytes = 0 }},
		{"prefix filter of 191 bytes", func(x *PrefixProperties) { x.Bytes-- }},
		{"20 bytes for the prefix filter, want 21 to 84", func(x *PrefixProperties) { x.Rule = "" }},
		{"85 bytes for the prefix filter", func(x *PrefixProperties) { x.Rule = strings.Repeat("x", maxRuleText+1) }},
	} {
		p := whole
		tt.change(&p.Prefixes)
		if _, err := ParseProperties(p.append(nil)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", p.Prefixes, err, tt.want)
		}
	}
}
