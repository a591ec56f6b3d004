package bloomkv

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// Limits of a single operation. Larger ones are refused with [ErrTooLarge] and change nothing.
const (
	MaxKeySize   = 64 << 10                   // bytes
	MaxValueSize = 256 << 20 >> (2 * is32bit) // bytes: 256 MiB, 64 MiB where int has 32 bits
	MaxBatchSize = 512 << 20 >> (2 * is32bit) // bytes of keys, values and their lengths: 512 MiB, 128 MiB
	is32bit      = 1 - (^uint(0) >> 32 & 1)   // 1 where int has 32 bits
	minMemory    = 8 << 20                    // the smallest MemoryBudget
	minMemtable  = 16 << 10                   // the smallest MemtableSize

	minFilterMemory = 64 << 10 // the smallest FilterMemory
)

// Durability says when a write is acknowledged.
type Durability uint8

const (
	// DefaultDurability is the store's own: Options.Durability.
	DefaultDurability Durability = iota
	// Sync acknowledges a write once it is on stable storage: it survives a power cut.
	Sync
	// NoSync acknowledges a write once the operating system has it: it survives the death of the process, but the newest
	// such writes may be lost, newest first, in a power cut. [DB.Sync] makes all earlier writes durable.
	NoSync
)

// Compression says how data blocks are stored. A block that a codec does not shrink by an eighth is stored raw.
type Compression uint8

const (
	S2            Compression = iota // s2 (a fast relative of Snappy) everywhere: the default
	ZstdBottom                       // zstd in the last level, which holds nine tenths of the data; s2 above
	NoCompression                    // raw
)

// FilterKind says how filters are built. Lookups do not depend on it: a store reads filters of both kinds.
type FilterKind uint8

const (
	// BloomFilter is a blocked Bloom filter, the fastest to ask and to build: the default.
	BloomFilter FilterKind = iota
	// RibbonFilter takes three tenths less memory for the same promise. It costs some 10 ns more for a lookup of an absent key, for
	// the last level, whose filter alone is asked before anything else has said no, and some 50 ns more for a key that is written
	// to a table. For stores whose filters would not all fit into memory otherwise.
	RibbonFilter
)

// Options configure a store. The zero value, or a nil pointer, is right for most programs. Every option may change between
// two openings of the same store: tables keep what they were written with until compaction rewrites them. [DB.Compact] rewrites those
// whose filters are not what the options ask for (Metrics.TablesOffPlan), and [DB.Rewrite] all.
type Options struct {
	// FS is the file system; nil is the operating system's.
	FS vfs.FS
	// Durability of Put and Delete, and of Apply where it names none. The zero value is Sync.
	Durability Durability
	// StrictWAL makes Open fail on a log that ends in the middle of a record. By default that is the normal end of a log
	// after a crash. Zeros behind the last record are room that was reserved, and nothing to fail on.
	StrictWAL bool
	// ErrorIfMissing makes Open fail with an error that Is fs.ErrNotExist, and create nothing, where there is no store.
	ErrorIfMissing bool
	// ErrorIfExists makes Open fail with an error that Is fs.ErrExist, and change nothing, where there is a store. It excludes
	// ErrorIfMissing and ReadOnly.
	ErrorIfExists bool
	// ReadOnly opens a store without changing anything on the disk, which may be one that can't be written. Any number of
	// readers, in any processes, may have a store open so at a time; while one has, it can't be opened for writing, and while
	// a writer has it, it can't be read: ErrLocked. Writers leave a file LOCK by which that is kept; a copy of a store without
	// this file is read unlocked, and it is for the caller to know that no one writes it.
	//
	// Every call that writes answers ErrReadOnly. A missing store is an error that Is fs.ErrNotExist. What the logs hold after
	// an unclean end of the last use is read into memory, in addition to MemoryBudget, by every Open anew.
	ReadOnly bool

	// FilterFPR is the promised number of wasted table reads for a lookup of an absent key, over the whole tree: tables
	// that are searched although they hold no version of the key. 0 means 0.01. 1 means no filters: none is built, and none
	// that is there is loaded. Otherwise it is between 0 and 1, exclusive; Open fails with ErrFilterRate on a rate that the
	// filters can't reach.
	FilterFPR float64
	// FilterMemory, in place of FilterFPR, is memory for filters in bytes: the promised rate is then the best one whose filters
	// fit, though none below 0.0001, and rises as the store grows (Metrics.FilterFPR). Filters that are there already and do not all fit
	// any more lose units, in memory, until compaction writes smaller ones: the last of three units first, of the last level first. A
	// Bloom filter of the last level has up to three, a Ribbon filter one, without which its table has none. What Metrics.FilterFPR
	// says right after Flush, Compact, Ingest, or once Metrics.Warm is true after Open, holds from the next lookup on. FilterMemory is
	// part of MemoryBudget, which must have room for it. 0 means FilterFPR. Open fails with ErrFilterRate where not even the smallest
	// filters of what the store holds would fit.
	FilterMemory int64
	// FilterKind says how the filters of tables written from now on are built. The zero value is BloomFilter.
	FilterKind FilterKind
	// FilterPrefix, if set, gives each table written from now on a second filter: of the prefixes that the rule gives its keys.
	// Iterators and scans whose keys must all have one prefix by the rule then skip the tables that have no key with it, before
	// a block is read. That is so where what their bounds, IterOptions.Prefix among them, leave in common to all keys has a prefix
	// by the rule itself: where it is at least as long as PrefixLen says, or has as many separators as PrefixSeparator. A scan for
	// an absent prefix reads a block in no more than FilterFPR of cases, over the whole tree, as the second filter of each table
	// is made like the first.
	//
	// A table's second filter is read, and takes memory, once somebody scans the table so and MemoryBudget has room for it beside
	// the other filters; it is not part of FilterMemory. Where it is of another rule, it is not asked: the table is read as one
	// without (Metrics.Prefixes), until compaction rewrites it. With FilterFPR of 1 there are none. The zero value is no rule.
	FilterPrefix PrefixRule

	// FilterSeed is the seed of a new store; a store that exists keeps its own. 0 means a random one. Filters and memtables mix
	// it into the hashes of keys, so that nobody who does not know it can choose keys that make the store slow. Set it only
	// where two stores must have the same filters, bit for bit, as in tests.
	FilterSeed uint64

	// MemoryBudget bounds, in bytes, what the store keeps in memory: memtables (at most half of it), filters, indexes and
	// the block cache, which gets what the others leave. An open iterator may hold one more block for each run. 0 means 64 MiB;
	// the least is 8 MiB.
	MemoryBudget int64
	// Resources, if not nil, are memory and descriptors that the store shares with others, in place of MemoryBudget and
	// MaxOpenFiles, which must be 0 then. Open fails with ErrNoRoom where the memtables of one more store do not fit.
	Resources *Resources
	// MemtableSize is how many bytes of writes are gathered in memory before they become a table, between 16 KiB and a
	// quarter of the memory there is (one memtable fills while another is written out). 0 means a quarter of MemoryBudget, or
	// a 64th of what Resources have, so that sixteen stores fit.
	MemtableSize int64
	// BlockSize is the size of a data block in bytes before compression, between 256 bytes and 1 MiB. 0 means 4096. A larger
	// entry has a block of its own.
	BlockSize int
	// TableSize is the size of a table that compaction writes, in bytes, between 16 KiB and 1 GiB. 0 means 8 MiB.
	TableSize int64
	// BaseLevelSize is the size up to which there is only one level below level 0, in bytes, between 64 KiB and 1 TiB.
	// 0 means 64 MiB.
	BaseLevelSize int64
	// LevelRatio is how much larger each level is than the one above it, between 2 and 100. 0 means 10.
	LevelRatio int
	// Compression of data blocks. The zero value is S2.
	Compression Compression
	// CompactionRate bounds what compactions write, in bytes per second, so that they leave the disk to others. 0 is no limit.
	// Flushes are not bounded. Where compaction falls behind for it, writes are slowed, and wait at last.
	CompactionRate int64
	// MaxOpenFiles bounds the descriptors held for tables, at least 8. 0 means 500. Closing a descriptor drops no filter.
	MaxOpenFiles int

	// Events are functions that are told what happens to the store.
	Events Events
	// Logger hears of what Events are told (tables one by one at the level Debug), and of opening, recovery, checkpoints,
	// closing and iterators that were left open; never of single reads and writes. nil is silent. Its handler is called as Events are: it may ask for Metrics, and
	// must not call anything else of the DB.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.FS == nil {
		d.FS = vfs.OS
	}
	d.Durability = cmp.Or(d.Durability, Sync)
	if d.FilterMemory == 0 {
		d.FilterFPR = cmp.Or(d.FilterFPR, 0.01)
	}
	if d.Resources != nil && d.Resources.pool != nil { // else check refuses it
		d.MemtableSize = cmp.Or(d.MemtableSize, max(d.Resources.pool.Memory/sharedMemtables, minMemtable))
	} else if d.Resources == nil {
		d.MemoryBudget = cmp.Or(d.MemoryBudget, defaultMemory)
		d.MemtableSize = cmp.Or(d.MemtableSize, d.MemoryBudget/4)
		d.MaxOpenFiles = cmp.Or(d.MaxOpenFiles, defaultOpenFiles)
	}
	d.BlockSize = cmp.Or(d.BlockSize, 4096)
	d.TableSize = cmp.Or(d.TableSize, 8<<20)
	d.BaseLevelSize = cmp.Or(d.BaseLevelSize, 64<<20)
	d.LevelRatio = cmp.Or(d.LevelRatio, 10)
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// pool returns the memory and descriptors that the store shares, or its own. Options have been checked.
func (o *Options) pool() *budget.Pool {
	if o.Resources != nil {
		return o.Resources.pool
	}
	return budget.NewPool(o.MemoryBudget, o.MaxOpenFiles)
}

// check refuses what makes no sense, before any file is touched. Options have their defaults.
func (o *Options) check() error {
	memory, files := o.MemoryBudget, o.MaxOpenFiles
	if shared := o.Resources; shared != nil {
		switch {
		case shared.pool == nil:
			return errors.New("option Resources: not made by NewResources")
		case memory != 0:
			return fmt.Errorf("option MemoryBudget: %d, want 0 beside Resources, which have %d", memory, shared.pool.Memory)
		case files != 0:
			return fmt.Errorf("option MaxOpenFiles: %d, want 0 beside Resources, which have %d", files, shared.pool.Files.Limit)
		}
		memory, files = shared.pool.Memory, shared.pool.Files.Limit
	}
	for _, r := range []struct {
		name           string
		got, low, high int64
	}{
		{"Durability", int64(o.Durability), int64(Sync), int64(NoSync)},
		{"FilterKind", int64(o.FilterKind), int64(BloomFilter), int64(RibbonFilter)},
		{"MemoryBudget", memory, minMemory, maxMemory},
		{"MemtableSize", o.MemtableSize, minMemtable, min(memory/4, 1<<30)},
		{"BlockSize", int64(o.BlockSize), 256, 1 << 20},
		{"TableSize", o.TableSize, 16 << 10, 1 << 30},
		{"BaseLevelSize", o.BaseLevelSize, 64 << 10, 1 << 40},
		{"LevelRatio", int64(o.LevelRatio), 2, 100},
		{"Compression", int64(o.Compression), int64(S2), int64(NoCompression)},
		{"CompactionRate", o.CompactionRate, 0, 1 << 40},
		{"MaxOpenFiles", int64(files), minOpenFiles, maxOpenFiles},
	} {
		if r.got < r.low || r.got > r.high {
			return fmt.Errorf("option %s: %d, want %d to %d", r.name, r.got, r.low, r.high)
		}
	}
	if err := o.FilterPrefix.Check(); err != nil {
		return fmt.Errorf("option FilterPrefix: %w", err)
	}
	if o.FilterMemory != 0 {
		if o.FilterFPR != 0 {
			return fmt.Errorf("option FilterMemory: %d, want 0 beside FilterFPR, which is %v", o.FilterMemory, o.FilterFPR)
		}
		if most := memory / 2; o.FilterMemory < minFilterMemory || o.FilterMemory > most {
			return fmt.Errorf("option FilterMemory: %d, want %d to %d, half of the memory there is", o.FilterMemory, minFilterMemory, most)
		}
	} else if !(o.FilterFPR > 0 && o.FilterFPR <= 1) { // also NaN
		return fmt.Errorf("option FilterFPR: %v, want more than 0, at most 1", o.FilterFPR)
	}
	if o.ErrorIfExists && (o.ErrorIfMissing || o.ReadOnly) {
		return errors.New("option ErrorIfExists: not together with ErrorIfMissing or ReadOnly")
	}
	return nil
}

// policy returns the policy by which compactions are chosen. Every part of the store that depends on the shape of the tree
// asks it.
func (o *Options) policy() compaction.Policy {
	return compaction.Leveled{
		Trigger: triggerRuns, Slow: slowRuns, Stop: stopRuns,
		Ratio: o.LevelRatio, BaseLevelSize: uint64(o.BaseLevelSize), //nolint:gosec // checked: positive
	}
}

// codec compresses the blocks of tables that are written for a level.
func (o *Options) codec(level int) sstable.Codec {
	switch {
	case o.Compression == NoCompression:
		return sstable.None
	case o.Compression == ZstdBottom && level == bottom:
		return sstable.Zstd
	default:
		return sstable.S2
	}
}
