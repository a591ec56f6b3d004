package bloomkv

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/commit"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/intake"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/scheduler"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

var (
	// ErrNotFound means that the store has no value for the key. It is returned bare: err == bloomkv.ErrNotFound.
	ErrNotFound = read.ErrNotFound
	// ErrClosed is returned by every call after Close, including a second Close. It is returned bare.
	ErrClosed = tree.ErrClosed
	// ErrReadOnly means that the store accepts no writes: it was opened with Options.ReadOnly, or a log or manifest
	// could not be written or synced later. In the latter case the error wraps the cause; once that is gone, opening
	// the store again clears the error. Reads continue to work.
	ErrReadOnly = tree.ErrReadOnly
	// ErrTooLarge means that a key, a value, a mark or a batch exceeds its limit: [MaxKeySize], [MaxValueSize],
	// [MaxMarkSize], [MaxBatchSize].
	ErrTooLarge = batch.ErrTooLarge
	// ErrNoSpace means that a write, a flush or a compaction, with what must be written after it, would not fit on the
	// disk. It matches syscall.ENOSPC. A write was refused before anything was written, and the store takes the next
	// one that fits: the last 16 KB are for range deletes. Background work is tried again once a second.
	ErrNoSpace = vfs.ErrNoSpace
	// ErrConflict means that other writes changed what a transaction of [DB.Update] had read, at each of its
	// attempts. Nothing was written.
	ErrConflict = commit.ErrConflict
	// ErrOrder means that the keys passed to Ingest are not in strictly ascending order.
	ErrOrder = intake.ErrOrder
	// ErrLocked means that another process, or another DB in this one, has the store open. Any number of readers
	// ([Options.ReadOnly]) can have it open together; a writer excludes all others.
	ErrLocked = vfs.ErrLocked
	// ErrCorruption is matched by every error of damage: errors.Is(err, ErrCorruption). For damage in a file,
	// errors.As finds the *[CorruptionError]. [Check] finds all damage of a store. Package salvage saves what is
	// readable into a new store; the alternative is to restore a copy made by [DB.Checkpoint].
	ErrCorruption = corrupt.Err
	// ErrUnsupportedVersion means that a newer version of the library wrote a file. Nothing was changed.
	ErrUnsupportedVersion = corrupt.ErrUnsupportedVersion
	// ErrMemoryBudget means that Options.Resources have not enough memory for the memtables of one more store. It helps
	// to close another store, to use a smaller MemtableSize or larger Resources.
	ErrMemoryBudget = budget.ErrMemoryBudget
	// ErrMissingTable means that an export leaves out a table that the receiver does not have, or no longer: see
	// [ExportOptions]. An export of the whole store helps.
	ErrMissingTable = intake.ErrMissing
	// ErrSameTable means that a table to be ingested is in the store already.
	ErrSameTable = scheduler.ErrSameTable
	// ErrFilterRate means that a filter rate cannot be reached. The error names the best possible rate.
	ErrFilterRate = bloomblock.ErrRate
)

// A CorruptionError is damage in a file, with its position. errors.As and errors.AsType find it in every error that
// matches [ErrCorruption], except in those of a damaged [Batch]. A type assertion does not find it.
type CorruptionError struct {
	File   string // base name
	Offset int64  // start of the damaged part, in bytes
	Err    error  // the reason: what was found and what was expected
}

// The packages below return a corrupt.Error, whose method As converts it.
var _ = CorruptionError(corrupt.Error{})

// Error returns text like "000007.sst: offset 8192: checksum 5d1f0c2a, want 09b7e6c1".
func (e *CorruptionError) Error() string { return (*corrupt.Error)(e).Error() }

// Unwrap returns ErrCorruption and Err, for errors.Is.
func (e *CorruptionError) Unwrap() []error { return (*corrupt.Error)(e).Unwrap() }

// named returns the error of a call with its name, and ErrClosed bare. An error that has the name of the package, such
// as that of a store that takes no writes, needs no other.
func named(err error, call string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrClosed):
		return ErrClosed
	case strings.HasPrefix(err.Error(), "bloomkv: "):
		return err
	default:
		return fmt.Errorf("bloomkv: %s: %w", call, err)
	}
}
