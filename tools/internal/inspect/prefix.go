package inspect

import (
	"cmp"
	"fmt"
	"io"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/words"
)

// A Prefix is the prefix filter of a table.
type Prefix struct {
	Rule        string  `json:"rule"`
	FilterBytes uint64  `json:"filter_bytes"` // on disk
	FilterKeys  uint64  `json:"filter_keys"`  // distinct prefixes
	BitsPerKey  float64 `json:"bits_per_key"`
	FPRPromised float64 `json:"fpr_promised"`
	FPRFromBits float64 `json:"fpr_from_bits"`
	Units       []Unit  `json:"units,omitempty"`
	Verify      *Verify `json:"verify,omitempty"` // with --verify
	Damage      *Damage `json:"damage,omitempty"` // then the rates and units are unknown
	// Filter is the complete filter block. It is set for a single table.
	Filter *Filter `json:"filter,omitempty"`

	header bloomblock.Header // set if the filter is not damaged
}

// A Unit summarizes a unit of a filter.
type Unit struct {
	Probes      int     `json:"probes"`            // 0 for a Ribbon unit
	Columns     int     `json:"columns,omitempty"` // for a Ribbon unit
	Blocks      uint64  `json:"blocks"`
	Fill        float64 `json:"fill"` // the share of bits that are set
	FPRFromBits float64 `json:"fpr_from_bits"`
}

func bitsPerKey(bytes, keys uint64) float64 { return 8 * float64(bytes) / float64(max(keys, 1)) }

// inspectFilter returns the false positive rate of a filter's bits, and its units. f has all units of h.
func inspectFilter(h bloomblock.Header, f *bloomblock.Filter) (rate float64, units []Unit) {
	rate = 1
	for i, bits := range f.UnitBits() {
		u := &h.Units[i]
		units = append(units, Unit{u.Probes, u.Columns, u.Blocks, bits.Fill, bits.Rate})
		rate *= bits.Rate
	}
	return rate, units
}

// readPrefixes reads the prefix filter of a table. Its damage is one of the facts.
func readPrefixes(f io.ReaderAt, r *sstable.Reader, p *sstable.PrefixProperties) (*Prefix, error) {
	facts := &Prefix{
		Rule: words.Escaped([]byte(p.Rule), words.KeyLimit), FilterBytes: p.Bytes, FilterKeys: p.Keys,
		BitsPerKey: bitsPerKey(p.Bytes, p.Keys), FPRPromised: 1, FPRFromBits: 1,
	}
	meta := r.Meta()
	block, err := filterBlock(meta.Name, f, meta.Size, meta.TailLen, p.Bytes)
	if err != nil {
		return facts, err
	}
	var rule sstable.PrefixRule
	if rule.UnmarshalText([]byte(p.Rule)) == nil { // else the rule is from a later version, and not used
		if err := r.LoadPrefixes(rule, 0); err != nil {
			return facts, err
		}
	}
	filter, parseErr := bloomblock.Parse(block)
	if facts.Damage = damageOf(cmp.Or(r.Prefixes.State().Damage, parseErr)); facts.Damage != nil {
		return facts, nil
	}
	h, err := bloomblock.ParseHeader(block)
	if err != nil {
		return facts, err
	}
	facts.header, facts.FPRPromised = h, h.Rate(len(h.Units))
	facts.FPRFromBits, facts.Units = inspectFilter(h, &filter)
	return facts, nil
}

// describe describes the prefix filter in a few words.
func (p *Prefix) describe() string {
	if p.Damage != nil {
		return p.Rule + ": damaged"
	}
	return fmt.Sprintf("%s: %s, promised %.3g", p.Rule, words.Plural(p.FilterBytes, "byte"), p.FPRPromised)
}
