package compaction

import (
	"cmp"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// A Compression is Options.Compression of the root package.
type Compression uint8

const (
	compressS2         Compression = iota // everywhere
	compressZstdBottom                    // zstd in the last level, s2 above
	compressNone
)

// Options are the options of a store that its tables depend on, apart from their filters: those of the same names of
// the root package.
type Options struct {
	BlockSize   int
	TableSize   int64
	Compression Compression
}

// WithDefaults returns the options with their defaults.
func (o Options) WithDefaults() Options {
	o.BlockSize = cmp.Or(o.BlockSize, 4096)
	o.TableSize = cmp.Or(o.TableSize, 8<<20)
	return o
}

// Check returns an error if an option is invalid. The options have their defaults.
func (o Options) Check() error {
	switch {
	case o.BlockSize < 256 || o.BlockSize > 1<<20:
		return fmt.Errorf("option BlockSize: %d, want 256 to %d", o.BlockSize, 1<<20)
	case o.TableSize < 16<<10 || o.TableSize > 1<<30:
		return fmt.Errorf("option TableSize: %d, want %d to %d", o.TableSize, 16<<10, 1<<30)
	case o.Compression > compressNone:
		return fmt.Errorf("option Compression: %d, want %d to %d", o.Compression, compressS2, compressNone)
	}
	return nil
}

// Codec returns the codec of tables that are written to a level.
func (o Options) Codec(level int) sstable.Codec {
	switch {
	case o.Compression == compressNone:
		return sstable.None
	case o.Compression == compressZstdBottom && level == manifest.NumLevels-1:
		return sstable.Zstd
	default:
		return sstable.S2
	}
}
