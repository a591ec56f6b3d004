package salvage

import (
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

func TestAnInvalidOptionIsRefusedBeforeAFileIsTouched(t *testing.T) {
	fsys := vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
		t.Errorf("%v", op)
		return nil
	})
	for want, o := range map[string]bloomkv.Options{
		"BlockSize: 17":       {BlockSize: 17},
		"TableSize: -1":       {TableSize: -1},
		"Compression: 7":      {Compression: 7},
		"LevelRatio: 1":       {LevelRatio: 1},
		"FilterKind: kind 9":  {FilterKind: 9},
		"FilterFPR: 2":        {FilterFPR: 2},
		"FilterMemory: 1":     {FilterMemory: 1},
		"FilterPrefix: ":      {FilterPrefix: bloomkv.PrefixLen(0)},
		"MemoryBudget: 65536": {MemoryBudget: 64 << 10},
	} {
		o.FS = fsys
		_, err := Run(t.Context(), "db", "new", Options{Store: &o})
		if err == nil || !strings.Contains(err.Error(), "option "+want) {
			t.Errorf("error is %v, want it to name option %s", err, want)
		}
	}
}
