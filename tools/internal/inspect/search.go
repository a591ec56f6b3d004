package inspect

import (
	"context"
	_ "embed" // the script of the search
	"encoding/hex"
	"path/filepath"
	"strconv"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
)

//go:embed search.js
var searchScript string

// PageScripts returns the scripts of the page of a store: the search for a key.
func PageScripts() []string { return []string{searchScript} }

// A searchData is what the script knows of the store. Rain, and the bits of units, are for a page without a server.
type searchData struct {
	Tables  []searchTable `json:"tables"`
	Samples []*Key        `json:"samples"`
	Rain    *Fallen       `json:"rain"`
}

// A searchTable is what the script knows of a table. Low and High are its fences, in hexadecimal digits.
type searchTable struct {
	ID      string       `json:"id,omitempty"` // of its section, if it is shown in full
	File    string       `json:"file"`
	Level   int          `json:"level"`
	Low     string       `json:"low"`
	High    string       `json:"high"`
	Cut     bool         `json:"cut,omitempty"`    // High is only the beginning
	NoEnd   bool         `json:"no_end,omitempty"` // there is no High
	Open    bool         `json:"open,omitempty"`   // High itself is not within
	Damaged bool         `json:"damaged,omitempty"`
	Seed    string       `json:"seed"` // of the filter, a decimal number
	Units   []searchUnit `json:"units"`
}

// A searchUnit is a unit of a filter. Of a Ribbon unit the script does not know where it is asked.
type searchUnit struct {
	Ribbon bool   `json:"ribbon,omitempty"`
	Blocks uint64 `json:"blocks"`
	Probes int    `json:"probes"`
	Parts  uint64 `json:"parts,omitempty"` // of units side by side: the block is in the part of the first unit's block
	Bits   []byte `json:"bits,omitempty"`  // of all blocks, if the page has them
}

const (
	mostSearched = 2000     // tables; a page that can search in more would be large, so that it searches in none
	mostFence    = 64       // bytes of a fence
	mostBits     = 32 << 10 // bytes of filters on a page
)

// readSearch reads sample keys and, for a page without a server, a rain and the bits of the first filters.
func (s *Store) readSearch(ctx context.Context, dir string, t *tree, served bool) (err error) {
	if len(t.members) == 0 {
		return nil
	}
	s.samples, s.rain = t.sampleKeys(ctx, dir), t.rainOn(s, dir)
	if served {
		return nil
	}
	s.fallen, err = s.rain.Fall(ctx, 1)
	left := uint64(mostBits)
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.FilterBytes == 0 || t.FilterBytes > left || t.Damage != nil {
			continue
		}
		left -= t.FilterBytes
		_ = withTable(filepath.Join(dir, t.File), func(o *openTable) error { // else the page has no bits of it
			t.bits = o.block
			return nil
		})
	}
	return err
}

// searchData returns what the script needs, or nil if the page has no search.
func (s *Store) searchData() any {
	data := searchData{Tables: []searchTable{}, Samples: s.samples, Rain: s.fallen}
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.Entries == 0 && !t.unread { // range deletes alone: a lookup asks no filter
			continue
		}
		x := searchTable{
			File: t.File, Level: *t.Level, Low: hexOf(t.fences.Lo), High: hexOf(t.fences.Hi),
			Cut: len(t.fences.Hi) > mostFence, NoEnd: t.fences.Hi == nil, Open: t.fences.Exclusive, Damaged: t.unread,
			Seed: strconv.FormatUint(uint64(t.seed), 10), Units: []searchUnit{},
		}
		if t.Filter != nil {
			x.ID = tableID(t.File)
		}
		for k, u := range t.Units[:min(t.Place.Units, len(t.Units))] {
			x.Units = append(x.Units, searchUnit{u.Columns > 0, u.Blocks, u.Probes, t.parts, t.bitsOf(k)})
		}
		data.Tables = append(data.Tables, x)
	}
	if len(data.Tables) == 0 || len(data.Tables) > mostSearched {
		return nil
	}
	return data
}

// bitsOf returns the blocks of a unit of the filter, one after the other, if they were read.
func (t *Table) bitsOf(unit int) (bits []byte) {
	h, err := bloomblock.ParseHeader(t.bits)
	if err != nil || h.Units[unit].Columns > 0 {
		return nil
	}
	for b := range h.Units[unit].Blocks {
		bits = append(bits, t.bits[filterexam.BlockOffset(&h, unit, b):][:lineBytes]...)
	}
	return bits
}

func hexOf(key []byte) string { return hex.EncodeToString(key[:min(len(key), mostFence)]) }
