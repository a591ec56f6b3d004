package inspect

import (
	"path/filepath"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Live is how a table's filter has answered lookups, from the manifest.
type Live struct {
	bloomkv.FilterAnswers

	Rate float64 `json:"fpr_measured"` // false positives / (false positives + negatives); 0 without any
}

// newLive returns the counts of a table, or nil if it has no counts.
func newLive(s *manifest.State, number uint64) *Live {
	c, ok := s.Counts[number]
	if !ok {
		return nil
	}
	l := &Live{FilterAnswers: bloomkv.FilterAnswers{
		FilterNegatives: c.Negatives, TruePositives: c.TruePositives, FalsePositives: c.FalsePositives,
		Unfiltered: c.Unfiltered,
	}}
	l.Rate = l.FPR()
	return l
}

// liveOf returns the counts of a table from the manifest in its directory, or nil.
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
