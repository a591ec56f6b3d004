package bloomkv

import (
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/commit"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/scheduler"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// What the tests of package bloomkv_test see of a store besides its API: its owners and its constants.

const (
	Bottom      = manifest.NumLevels - 1
	StopRuns    = filterplan.Level0Runs
	TriggerRuns = triggerRuns
)

func (db *DB) Pool() *budget.Pool         { return db.pool }
func (db *DB) Reads() *read.Reader        { return &db.read }
func (db *DB) Share() *budget.Share       { return db.share }
func (db *DB) Tree() *tree.Tree           { return db.tree }
func (db *DB) Work() *scheduler.Scheduler { return db.work }
func (db *DB) Writer() *commit.Writer     { return &db.writer }
func (r *Resources) Pool() *budget.Pool   { return r.pool }
func (s *Snapshot) Pin() *tree.Pin        { return s.pin }

// Ratio returns part / of, or 0 if of is 0.
func Ratio(part, of uint64) float64 { return ratio(part, of) }

// Recorded returns the state in the manifest of an open store.
func (db *DB) Recorded() manifest.State {
	recorded, s := db.tree.Recorded()
	db.tree.Release(s)
	return recorded
}
