package inspect

import (
	"slices"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// TestFilesThatWereReplacedAreForgiven looks at a store whose manifest names a table and a log that do not exist, as if
// they were removed since it was read, and then at a later manifest.
func TestFilesThatWereReplacedAreForgiven(t *testing.T) {
	state := func(minLog, log uint64, tables ...uint64) manifest.State {
		e := manifest.Edit{}
		for _, n := range tables {
			e.Added = append(e.Added, manifest.Added{Level: 0, Run: n, Table: &manifest.Table{
				Number: n, ID: n, Size: 1000, TailLen: 100, Smallest: []byte("a"), Largest: []byte("b"),
				MinSeq: ikey.Seq(n), MaxSeq: ikey.Seq(n), Entries: 2,
			}})
		}
		v, err := new(manifest.Version).Apply(&e)
		must(t, err)
		s := manifest.State{Version: v, NextFile: 20, LastSeq: 9, MinLog: minLog}
		if log > 0 {
			s.Log = &manifest.LogMark{Number: log, Synced: 32}
		}
		return s
	}
	for _, c := range []struct {
		name         string
		first, later manifest.State
		want         []string // missing
	}{
		{"a table is replaced", state(6, 0, 5), state(6, 0), []string{}},
		{"a log is replaced", state(6, 6), state(7, 0), []string{}},
		{"both are replaced", state(6, 6, 5), state(7, 0), []string{}},
		{"a table is missing", state(6, 0, 5), state(7, 0, 5), []string{"000005.sst"}},
		{"a log is missing", state(6, 6), state(6, 6), []string{"000006.log"}},
		{"one of two tables is missing", state(6, 0, 4, 5), state(6, 0, 5), []string{"000005.sst"}},
		{"a table is replaced, a log is missing", state(6, 6, 5), state(6, 6), []string{"000006.log"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(number uint64, s manifest.State) {
				l, err := manifest.Create(vfs.OS, dir, number, s)
				must(t, err)
				must(t, l.Close())
			}
			write(1, c.first)
			s, err := look(t.Context(), dir, Options{})
			must(t, err)
			if s.Wrong() == nil || s.Opening.Refused == nil || len(s.Missing) < len(c.want) || len(s.Missing) == 0 {
				t.Fatalf("missing %v, %v, %+v, want files that are not there", s.Missing, s.Wrong(), s.Opening)
			}
			write(11, c.later)
			s.forgive(t.Context(), dir)
			if !slices.Equal(s.Missing, c.want) {
				t.Errorf("missing %v, want %v", s.Missing, c.want)
			}
			if len(c.want) == 0 && (s.Wrong() != nil || s.Opening.Refused != nil || len(s.Flags) > 0) {
				t.Errorf("%v, %+v, flags %v, want no word of them", s.Wrong(), s.Opening, s.Flags)
			}
			for _, name := range c.want {
				if err := s.Wrong(); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%v, want an error of %s", err, name)
				}
			}
			if len(c.want) > 0 && s.Opening.Refused == nil {
				t.Error("opening is not refused")
			}
		})
	}
}
