package bloomkv

import (
	"errors"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/vfs"
)

var (
	// ErrNotFound means that the store holds no value for the key. It is returned bare: err == bloomkv.ErrNotFound.
	ErrNotFound = errors.New("bloomkv: not found")
	// ErrClosed is what every call answers after Close, a second Close included. It is returned bare.
	ErrClosed = errors.New("bloomkv: closed")
	// ErrReadOnly means that the store takes no more writes since a log or manifest could not be written or synced; the
	// error wraps the cause. Reads go on. Opening the store again, once the cause is gone, clears it.
	ErrReadOnly = errors.New("read-only after a failed write")
	// ErrTooLarge means that a key, a value or a batch exceeds its limit: see [MaxKeySize], [MaxValueSize], [MaxBatchSize].
	ErrTooLarge = errors.New("too large")
	// ErrLocked means that another process, or another DB in this one, has the store open.
	ErrLocked = vfs.ErrLocked
	// ErrCorruption is what every damage Is: errors.Is(err, ErrCorruption). errors.As finds the [CorruptionError].
	ErrCorruption = corrupt.Err
	// ErrUnsupportedVersion means that a file was written by a newer version of the library. Nothing was changed.
	ErrUnsupportedVersion = corrupt.ErrUnsupportedVersion
	// ErrFilterRate means that a filter rate can't be reached; the error names the best that can.
	ErrFilterRate = bloomblock.ErrRate
)

// CorruptionError is damage with its address: the file, the offset in bytes, and the reason with what was found and wanted.
type CorruptionError = corrupt.Error
