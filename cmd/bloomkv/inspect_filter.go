package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/sstable"
)

// prefixFacts is the prefix filter of a table.
type prefixFacts struct {
	Rule        string       `json:"rule"`
	FilterBytes uint64       `json:"filter_bytes"` // on disk
	FilterKeys  uint64       `json:"filter_keys"`  // distinct prefixes
	BitsPerKey  float64      `json:"bits_per_key"`
	FPRPromised float64      `json:"fpr_promised"`
	FPRFromBits float64      `json:"fpr_from_bits"`
	Units       []unitFacts  `json:"units,omitempty"`
	Damage      *damageFacts `json:"damage,omitempty"` // then what is above from the rates on is unknown
	// Filter is all of the filter block, of a table that is looked at by itself.
	Filter *filterReport `json:"filter,omitempty"`
}

type unitFacts struct {
	Probes      int     `json:"probes"`            // 0 of a Ribbon unit
	Columns     int     `json:"columns,omitempty"` // of a Ribbon unit
	Blocks      uint64  `json:"blocks"`
	Fill        float64 `json:"fill"` // share of the bits that are set
	FPRFromBits float64 `json:"fpr_from_bits"`
}

func bitsPerKey(bytes, keys uint64) float64 { return 8 * float64(bytes) / float64(max(keys, 1)) }

// inspectFilter is what the bits of a filter say.
func inspectFilter(f *bloomblock.Filter) (rate float64, units []unitFacts) {
	report := f.Inspect()
	for _, u := range report.Units {
		units = append(units, unitFacts{u.Probes, u.Columns, u.Blocks, u.Fill, u.Rate})
	}
	return report.Rate, units
}

// inspectPrefixes reads a table's prefix filter. Damage of it is among the facts.
func inspectPrefixes(f io.ReaderAt, r *sstable.Reader, p *sstable.PrefixProperties) (*prefixFacts, error) {
	facts := &prefixFacts{
		Rule: escaped([]byte(p.Rule), keyLimit), FilterBytes: p.Bytes, FilterKeys: p.Keys, BitsPerKey: bitsPerKey(p.Bytes, p.Keys),
		FPRPromised: 1, FPRFromBits: 1,
	}
	meta := r.Meta()
	block, err := filterBlock(f, meta.Size, meta.TailLen, p.Bytes)
	if err != nil {
		return facts, err
	}
	var rule bloomkv.PrefixRule
	if rule.UnmarshalText([]byte(p.Rule)) == nil { // else it is of a later version, and not asked
		if err := r.LoadPrefixes(rule, 0); err != nil {
			return facts, err
		}
	}
	filter, parseErr := bloomblock.Parse(block)
	if facts.Damage = damageOf(cmp.Or(r.PrefixState().Damage, parseErr)); facts.Damage != nil {
		return facts, nil
	}
	h, err := bloomblock.ParseHeader(block)
	if err != nil {
		return facts, err
	}
	facts.FPRPromised = h.Rate(len(h.Units))
	facts.FPRFromBits, facts.Units = inspectFilter(&filter)
	return facts, nil
}

func damageOf(err error) *damageFacts {
	if err == nil {
		return nil
	}
	return &damageFacts{err.Error(), err}
}

// damage is what is damaged of the table's filters.
func (t *tableFacts) damage() error {
	var errs []error
	if t.Damage != nil {
		errs = append(errs, t.Damage.err)
	}
	if t.Prefix != nil && t.Prefix.Damage != nil {
		errs = append(errs, t.Prefix.Damage.err)
	}
	return errors.Join(errs...)
}

// describe puts the parts of a table's filter into words.
func (t *tableFacts) describe() (units, fill string) {
	var probes, fills []string
	for _, u := range t.Units {
		each := strconv.Itoa(u.Probes)
		if u.Columns > 0 {
			each = fmt.Sprintf("Ribbon %d", u.Columns)
		}
		probes = append(probes, fmt.Sprintf("%d×64 B, %s", u.Blocks, each))
		fills = append(fills, fmt.Sprintf("%.0f %%", 100*u.Fill))
	}
	return strings.Join(probes, " + "), strings.Join(fills, " ")
}

// describe puts the prefix filter into words.
func (p *prefixFacts) describe() string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%s, %d, %.3g", p.Rule, p.FilterBytes, p.FPRPromised)
}
