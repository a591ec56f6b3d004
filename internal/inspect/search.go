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

// A searchTable is what the script knows of a table.
type searchTable struct {
	ID    string       `json:"id,omitempty"` // of its section, if it is shown in full
	Index int          `json:"index"`        // among the tables of the store
	File  string       `json:"file"`
	Level string       `json:"level"`
	Low   string       `json:"low"` // the bounds, in hexadecimal digits; of long keys the beginning
	High  string       `json:"high"`
	Seed  string       `json:"seed"` // of the filter, a decimal number
	Units []searchUnit `json:"units"`
}

// A searchUnit is a Bloom unit of a filter. Where a Ribbon unit is asked, the script does not show.
type searchUnit struct {
	Ribbon bool   `json:"ribbon,omitempty"`
	Blocks uint64 `json:"blocks"`
	Probes int    `json:"probes"`
}

// mostSearched is the number of tables in which the page can search for a key. More would make it large.
const mostSearched = 2000

// searchData returns what the script needs, or nil if no table has keys.
func (s *Store) searchData() any {
	var all []searchTable
	for i := range s.Tables {
		t := &s.Tables[i]
		if t.Place == nil || t.Entries == 0 || t.unread || len(all) == mostSearched {
			continue
		}
		const most = 64 // bytes of a key
		x := searchTable{
			Index: i, File: t.File, Level: levelName(*t.Level), Low: hex.EncodeToString(t.low[:min(len(t.low), most)]),
			High: hex.EncodeToString(t.high[:min(len(t.high), most)]), Seed: strconv.FormatUint(uint64(t.seed), 10),
		}
		if t.Filter != nil {
			x.ID = tableID(i)
		}
		for k, u := range t.Units {
			if k < t.Place.Units {
				x.Units = append(x.Units, searchUnit{u.Columns > 0, u.Blocks, u.Probes})
			}
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}
