package compaction

import (
	"context"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A Loader writes versions that come from outside of the store, in order, into tables: all of them stay. It is for one
// goroutine.
//
//	Add* (Finish | Abandon)
type Loader struct{ w tableWriter }

// NewLoader begins with the range tombstones that the tables will have, nil for none.
func NewLoader(env Env, dels rangedel.List) *Loader {
	return &Loader{tableWriter{env: env, size: env.TableSize, dels: dels}}
}

// Add appends a version, whose key is greater than all before it, and copies it. An error is final, but for Abandon.
func (l *Loader) Add(k ikey.Key, value []byte) error { return l.w.add(k, value) }

// Finish ends the last table. The tables ascend and are disjoint, synced except for their names; there is none if nothing
// was added. After an error no file is left.
func (l *Loader) Finish(ctx context.Context) ([]*manifest.Table, error) {
	if err := l.w.finish(ctx); err != nil {
		l.Abandon()
		return nil, err
	}
	return l.w.tables, nil
}

// Abandon removes what was written.
func (l *Loader) Abandon() {
	l.w.abandon()
	remove(l.w.env, l.w.tables)
	l.w.tables = nil
}
