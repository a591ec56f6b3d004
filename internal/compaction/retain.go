package compaction

import (
	"bytes"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
)

// retain decides, version by version in order, which ones stay: the newest of each key; of the tombstones only those under
// which an older run may hold the key. Readers that need more hold a state of their own, with the inputs in it.
type retain struct {
	older   [][]*manifest.Table // the runs below the output, each with a cursor that only moves forward
	newest  bool                // older data may lie in runs that are not known here (a flush): nothing below is empty
	current []byte              // the last key seen
	started bool
}

// newRetain is for a compaction into a level; everything below it is older.
func newRetain(v *manifest.Version, to int) *retain {
	r := &retain{}
	for l := to + 1; l < manifest.NumLevels; l++ {
		for _, run := range v.Levels[l] {
			r.older = append(r.older, run.Tables)
		}
	}
	return r
}

// keep says whether the version stays, and the trailer it gets: sequence 0, which costs no byte, where nothing older is
// left that it would have to be told from. Keys come in order.
func (r *retain) keep(k ikey.Key) (ikey.Trailer, bool) {
	if r.started && bytes.Equal(k.User, r.current) {
		return 0, false // shadowed by a newer version
	}
	r.started = true
	r.current = append(r.current[:0], k.User...)
	if r.newest || r.olderHas(k.User) {
		return k.Trailer, true
	}
	if k.Trailer.Kind() == ikey.Delete {
		return 0, false
	}
	return ikey.MakeTrailer(0, k.Trailer.Kind()), true
}

// olderHas says whether an older run has a table whose bounds hold key.
func (r *retain) olderHas(key []byte) bool {
	for i, tables := range r.older {
		for len(tables) > 0 && bytes.Compare(tables[0].Largest, key) < 0 {
			tables = tables[1:]
		}
		r.older[i] = tables
		if len(tables) > 0 && bytes.Compare(tables[0].Smallest, key) <= 0 {
			return true
		}
	}
	return false
}
