package tests

import (
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestAManifestHasTheOptionsForFiltersOfTheLastWriter(t *testing.T) {
	mem := vfstest.NewMem()
	recorded := func(dir string) manifest.Filters {
		t.Helper()
		s, err := manifest.Load(mem, dir)
		if err != nil || s.Filters == nil {
			t.Fatalf("%s: filters %v, %v", dir, s.Filters, err)
		}
		return *s.Filters
	}
	first := manifest.Filters{FPR: 0.01, Ratio: 10}
	second := manifest.Filters{Memory: 1 << 20, Kind: uint8(bloomkv.FilterRibbon), Ratio: 4, Prefix: "sep:/:2"}
	others := bloomkv.Options{
		FS: mem, FilterMemory: 1 << 20, FilterKind: bloomkv.FilterRibbon, LevelRatio: 4,
		FilterPrefix: bloomkv.PrefixSeparator('/', 2),
	}
	for _, c := range []struct {
		name  string
		o     bloomkv.Options
		write bool
		want  manifest.Filters
	}{
		{"a new store", bloomkv.Options{FS: mem}, false, first},
		{"only read", bloomkv.Options{FS: mem, FilterFPR: 0.1, ReadOnly: true}, false, first},
		{"opened with other options, and written", others, true, second},
		{"opened with the same options", others, true, second},
		{"opened with the first options again", bloomkv.Options{FS: mem}, true, first},
	} {
		db, err := bloomkv.Open("db", &c.o)
		must(t, err)
		if c.write {
			must(t, db.Put([]byte("key"), nil))
			must(t, db.Checkpoint(t.Context(), "copy "+c.name))
			if got := recorded("copy " + c.name); got != c.want {
				t.Errorf("%s: a checkpoint has %+v, want %+v", c.name, got, c.want)
			}
		}
		must(t, db.Close())
		if got := recorded("db"); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
