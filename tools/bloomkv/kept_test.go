package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheToolReadsKeptStores runs reading commands on the stores in testdata, which open forever. A store also opens
// without the samples of its tables and the options in its manifest; that they are still read is tested only here.
func TestTheToolReadsKeptStores(t *testing.T) {
	stores, err := filepath.Glob("../../testdata/v*/*/CURRENT")
	if err != nil || len(stores) == 0 {
		t.Fatalf("no kept stores: %v", err)
	}
	for _, current := range stores {
		dir := filepath.Dir(current)
		before := readDir(t, dir)
		tool{}.must(t, "check", dir)
		var got struct {
			Plan *struct {
				Memory uint64 `json:"filter_memory"`
			} `json:"plan"`
			Flags  []struct{ Name string }
			Tables []struct {
				File        string
				FilterBytes int `json:"filter_bytes"`
				Sample      int `json:"sample_hashes"`
				Damage      *struct{}
				Verify      *struct {
					OK bool
				}
			}
		}
		must(t, json.Unmarshal([]byte(tool{}.must(t, "inspect", dir, "--verify", "--json")), &got))
		// Options for filters are kept in the manifest.
		if memory := strings.HasSuffix(dir, "memory"); got.Plan == nil || (got.Plan.Memory > 0) != memory {
			t.Errorf("%s: plan of filters: %v", dir, got.Plan)
		}
		if len(got.Tables) == 0 {
			t.Errorf("%s: no tables", dir)
		}
		for _, table := range got.Tables {
			switch {
			case table.Damage != nil:
				t.Errorf("%s: %s is damaged", dir, table.File)
			case table.FilterBytes == 0:
			case table.Sample == 0 || table.Verify == nil || !table.Verify.OK:
				t.Errorf("%s: %s has a sample of %d hashes, verified %+v", dir, table.File, table.Sample, table.Verify)
			}
		}
		for _, flag := range got.Flags {
			if !slices.Contains([]string{"no-filter", "wastes-more", "filter-worse"}, flag.Name) {
				t.Errorf("%s: flag %s", dir, flag.Name)
			}
		}
		if after := readDir(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s: reading commands changed the store", dir)
		}
	}
}
