package inspect

import (
	_ "embed" // the script of the search
	"encoding/hex"
	"strconv"
)

//go:embed search.js
var searchScript string

// PageScripts returns the scripts of the page of a store: the search for a key.
func PageScripts() []string { return []string{searchScript} }

// A searchTable is what the script knows of a table. Low and High are its fences, in hexadecimal digits.
type searchTable struct {
	ID      string       `json:"id,omitempty"` // of its section, if it is shown in full
	File    string       `json:"file"`
	Level   string       `json:"level"`
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
}

const (
	mostSearched = 2000 // tables; a page that can search in more would be large, so that it searches in none
	mostFence    = 64   // bytes of a fence
)

// searchData returns what the script needs, or nil if the page has no search.
func (s *Store) searchData() any {
	all := []searchTable{}
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.Entries == 0 && !t.unread { // range deletes alone: a lookup asks no filter
			continue
		}
		x := searchTable{
			File: t.File, Level: levelName(*t.Level), Low: hexOf(t.fences.Lo), High: hexOf(t.fences.Hi),
			Cut: len(t.fences.Hi) > mostFence, NoEnd: t.fences.Hi == nil, Open: t.fences.Exclusive, Damaged: t.unread,
			Seed: strconv.FormatUint(uint64(t.seed), 10), Units: []searchUnit{},
		}
		if t.Filter != nil {
			x.ID = tableID(i)
		}
		for _, u := range t.Units[:min(t.Place.Units, len(t.Units))] {
			x.Units = append(x.Units, searchUnit{u.Columns > 0, u.Blocks, u.Probes, t.parts})
		}
		all = append(all, x)
	}
	if len(all) == 0 || len(all) > mostSearched {
		return nil
	}
	return all
}

func hexOf(key []byte) string { return hex.EncodeToString(key[:min(len(key), mostFence)]) }
