package compaction

import (
	"context"

	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/rangedel"
)

// A Loader writes sorted versions from outside the store into tables and drops none. It is for one goroutine.
//
//	Add* (Finish | Abandon)
type Loader struct{ w tableWriter }

// NewLoader returns a Loader whose tables will contain the given range tombstones besides what is added.
func NewLoader(env Env, dels rangedel.List) *Loader {
	return &Loader{tableWriter{env: env, size: env.TableSize, dels: dels}}
}

// Add appends a copy of a version. Keys must ascend. After an error only Abandon may be called.
func (l *Loader) Add(k ikey.Key, value []byte) error { return l.w.add(k, value) }

// Finish completes the last table and returns all tables, ascending and disjoint. The files are synced, their names
// in the directory are not. If nothing was added, it returns no table. After an error no file is left.
func (l *Loader) Finish(ctx context.Context) ([]*manifest.Table, error) {
	if err := l.w.finish(ctx); err != nil {
		l.Abandon()
		return nil, err
	}
	return l.w.tables, nil
}

// Abandon removes all files that were written.
func (l *Loader) Abandon() {
	l.w.abandon()
	remove(l.w.env, l.w.tables)
	l.w.tables = nil
}
