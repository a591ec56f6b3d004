package bloomkv

import (
	"errors"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/read"
	"github.com/bloomkv/bloomkv/internal/tree"
	"github.com/bloomkv/bloomkv/vfs"
)

var (
	// ErrNotFound means that the store holds no value for the key. It is returned bare: err == bloomkv.ErrNotFound.
	ErrNotFound = read.ErrNotFound
	// ErrClosed is what every call answers after Close, a second Close included. It is returned bare.
	ErrClosed = tree.ErrClosed
	// ErrReadOnly means that the store takes no writes: it was opened with Options.ReadOnly, or since then a log or manifest
	// could not be written or synced; the error then wraps the cause, and opening the store again, once that is gone, clears
	// it. Reads go on.
	ErrReadOnly = tree.ErrReadOnly
	// ErrTooLarge means that a key, a value or a batch exceeds its limit: see [MaxKeySize], [MaxValueSize], [MaxBatchSize].
	ErrTooLarge = errors.New("too large")
	// ErrOrder means that the keys of an Ingest do not come in strictly ascending order.
	ErrOrder = errors.New("keys are not in strictly ascending order")
	// ErrLocked means that another process, or another DB in this one, has the store open; readers ([Options.ReadOnly])
	// exclude only who would write, and the other way round.
	ErrLocked = vfs.ErrLocked
	// ErrCorruption is matched by every error of damage: errors.Is(err, ErrCorruption). errors.As finds the *[CorruptionError].
	// [Check] finds all damage of a store; [Salvage] saves what can be read into a new one; or restore a copy made by
	// [DB.Checkpoint].
	ErrCorruption = corrupt.Err
	// ErrUnsupportedVersion means that a file was written by a newer version of the library. Nothing was changed.
	ErrUnsupportedVersion = corrupt.ErrUnsupportedVersion
	// ErrNoRoom means that Options.Resources have no room for the memtables of one more store. To close another helps, as do a
	// smaller MemtableSize and larger Resources.
	ErrNoRoom = budget.ErrNoRoom
	// ErrFilterRate means that a filter rate can't be reached; the error names the best that can.
	ErrFilterRate = bloomblock.ErrRate
)

// A CorruptionError is damage with its address: File, the base name of the file; Offset, in bytes, where the damaged part
// begins; and Err, the reason, with what was found and wanted. It matches ErrCorruption, which says what to do about it.
type CorruptionError = corrupt.Error
