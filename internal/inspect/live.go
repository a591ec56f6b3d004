package inspect

import (
	"path/filepath"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Live is how a table's filter has answered to lookups, as the manifest has it.
type Live struct {
	bloomkv.FilterAnswers

	Rate float64 `json:"fpr_measured"` // false positives among these and the negatives; 0 without any
}

// newLive is nil where nobody has counted.
func newLive(s *manifest.State, number uint64) *Live {
	c, ok := s.Counts[number]
	if !ok {
		return nil
	}
	l := &Live{FilterAnswers: bloomkv.FilterAnswers{
		Negatives: c.Negatives, TruePositives: c.TruePositives, FalsePositives: c.FalsePositives, Unfiltered: c.Unfiltered,
	}}
	l.Rate = l.FPR()
	return l
}

// liveOf looks for a table's counts in the manifest beside it. A table that is in no store, or not in this one, has none.
func liveOf(name string) *Live {
	kind, number := filename.Parse(filepath.Base(name))
	if kind != filename.Table {
		return nil
	}
	s, err := manifest.Load(vfs.OS, filepath.Dir(name))
	if err != nil {
		return nil
	}
	return newLive(&s, number)
}
