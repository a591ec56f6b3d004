package bloomkv

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/budget"
	"github.com/bloomkv/bloomkv/internal/compaction"
	"github.com/bloomkv/bloomkv/internal/filterplan"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

// Limits of a single operation. Larger ones fail with [ErrTooLarge] and change nothing.
const (
	MaxKeySize   = batch.MaxKey      // bytes: 64 KiB
	MaxValueSize = batch.MaxNewValue // bytes: 64 MiB
	MaxBatchSize = batch.MaxSize     // bytes of keys, values and their lengths: 128 MiB
	MaxMarkSize  = batch.MaxMark     // bytes: 256
	minMemtable  = 16 << 10          // the smallest MemtableSize
	maxMemtable  = 1 << 30           // the largest one, on any machine
	minBaseLevel = 64 << 10
	maxBaseLevel = 1 << 40
)

// A Durability determines when a write is acknowledged.
type Durability uint8

const (
	// DurabilitySync acknowledges a write once it is on stable storage: the write survives a power cut. It is the
	// default.
	DurabilitySync Durability = iota
	// DurabilityNoSync acknowledges a write once the operating system has it: the write survives the death of the
	// process, but a power cut may lose the newest such writes, newest first. [DB.Sync] makes all earlier writes
	// durable.
	DurabilityNoSync
)

// A Compression determines how data blocks are stored. A block that does not become at least an eighth smaller is
// stored uncompressed.
type Compression uint8

const (
	CompressionS2         Compression = iota // s2 (a fast relative of Snappy) everywhere: the default
	CompressionZstdBottom                    // zstd in the last level, which holds nine tenths of the data; s2 above
	CompressionNone                          // uncompressed
)

// A FilterKind determines how filters are built. Lookups do not depend on it: a store reads filters of both kinds.
type FilterKind uint8

const (
	// FilterAuto is FilterBloom, or FilterRibbon once twice the Bloom filters would not fit in the memory for filters,
	// for tables that are written from then on. With FilterMemory it is FilterRibbon. It is the default.
	FilterAuto FilterKind = iota
	// FilterRibbon takes three tenths less memory for the same promise. It adds some 10 ns to a lookup of an absent
	// key, for the last level, whose filter is queried only after all others have excluded the key, and some 50 ns
	// for each key written to a table. Where memory is too short for it, it also loses less than a Bloom filter.
	FilterRibbon
	// FilterBloom is a blocked Bloom filter, the fastest to query and to build.
	FilterBloom
)

// Options configure a store. The zero value, or a nil pointer, is right for most programs. Every option may change
// from one Open of a store to the next: tables keep what they were written with until compaction rewrites them.
// [DB.Compact] rewrites tables whose filters differ from what the options ask for (Metrics.TablesOffPlan), and with
// CompactOptions.Rewrite all tables.
type Options struct {
	// FilterFPR is the number of wasted table reads that a lookup of an absent key may cost, over the whole tree. A
	// read is wasted if the table that is searched holds no version of the key. 0 means 0.01. 1 means no filters:
	// none are built, and existing ones are not loaded. All other values must be between 0 and 1, exclusive. Open
	// fails with ErrFilterRate if the filters can't reach the rate.
	//
	// It is promised as long as MemoryBudget holds the filters that it takes. Where it does not, filters are kept in
	// smaller forms, and the store promises what these keep: Metrics.FPRPromised and BudgetNeeded,
	// Events.PromiseChanged.
	FilterFPR float64
	// MemoryBudget bounds, in bytes, what the store keeps in memory: memtables (at most half of it), filters,
	// indexes, and the block cache, which gets what the others leave. An open iterator may hold one more block for
	// each run, and 256 KiB of the table if its index does not fit in memory and its file is not mapped. Table files
	// that are mapped are not part of it: MaxMappedBytes bounds them. 0 means 64 MiB; the minimum is 8 MiB.
	//
	// A value may be larger than the budget, up to MaxValueSize: a write waits for older memtables, but is never
	// refused for its memory. While such values are written, the store holds up to two of them in memtables, which
	// Metrics count, and besides, for as long as a call or a flush takes, the copy that a put makes, and up to two for
	// compression. Compactions and scans hold a large value for each run that they merge, and GetMany holds values of
	// up to 16 MiB and one more.
	//
	// Filters may take fifteen sixteenths of what memtables leave. With the default options, 64 MiB hold the filters of
	// 30 million keys while the store is written to, and of 57 million while it is idle, when memtables lend most of
	// their memory; with FilterBloom of 22 and 42 million. bloomkv plan --budget computes it for other options, and
	// what is promised beyond that.
	MemoryBudget int64
	// Durability applies to all writes except [DB.ApplyWith] and [Tx.SetDurability]. The zero value means
	// DurabilitySync.
	Durability Durability
	// Compression is the compression of data blocks. The zero value means CompressionS2.
	Compression Compression
	// ReadOnly opens a store without changing anything on the disk, which may be one that can't be written. Any
	// number of readers, in any processes, may have a store open this way at the same time. While a reader has it
	// open, it can't be opened for writing, and while a writer has it open, it can't be opened for reading: Open
	// fails with ErrLocked. The lock is a file LOCK, which writers leave behind. A copy of a store without this file
	// is read without a lock, and the caller must make sure that nothing writes to it.
	//
	// Every call that writes fails with ErrReadOnly. If there is no store, Open fails with an error matching
	// fs.ErrNotExist. If the last use did not end with Close, each Open reads the contents of the logs into memory,
	// in addition to MemoryBudget.
	ReadOnly bool
	// Logger receives a record for each of the Events below (for single tables and short stalls at level Debug), and
	// for opening, recovery, checkpoints, closing, and iterators left open. It receives none for single reads and
	// writes. nil discards all records. The same rules hold for its handler as for Events: it may call Metrics, and
	// must not call anything else of the DB.
	Logger *slog.Logger

	// ErrorIfMissing makes Open fail if there is no store, with an error matching fs.ErrNotExist, and create nothing.
	ErrorIfMissing bool
	// ErrorIfExists makes Open fail if there is a store, with an error matching fs.ErrExist, and change nothing. It
	// must not be combined with ErrorIfMissing or ReadOnly.
	ErrorIfExists bool

	// FilterMemory replaces FilterFPR by a bound on the memory for filters, in bytes. The rate that is asked is then
	// the best one whose filters fit, but at least 0.0001, and it rises as the store grows (Metrics.FPRAsked). If
	// existing filters no longer fit, they are kept in smaller forms until compaction writes smaller filters. The
	// value of Metrics.FPRPromised holds from the next lookup on, if Metrics.Settled is true, until the tree
	// changes again or another store that shares Resources takes the memory. It is an average for lookups that are
	// spread in each run like its keys: a table with a smaller filter than others causes more wasted reads.
	// FilterMemory is part of MemoryBudget, which must be large enough for it. 0 means that FilterFPR applies. Open
	// fails with ErrFilterRate if not even the smallest filters for the contents of the store would fit.
	FilterMemory int64
	// FilterKind determines how the filters of new tables are built. The zero value means FilterAuto.
	FilterKind FilterKind
	// FilterPrefix, if set, adds a second filter to each new table. It holds the prefixes that the rule gives the
	// keys of the table. Iterators and scans whose keys must all have the same prefix by the rule then skip tables
	// without a key with this prefix, before they read a block. This works if the bounds, including
	// IterOptions.Prefix, give all keys a common start that itself has a prefix by the rule: it is at least as long
	// as PrefixLen requires, or has as many separators as PrefixSeparator requires. A scan for an absent prefix reads
	// a block in at most FilterFPR of cases, over the whole tree, since the second filter of each table is built like
	// the first.
	//
	// The second filter of a table is loaded, and takes memory, once such a scan needs it and MemoryBudget has space
	// for it in addition to the other filters. It is not part of FilterMemory. A filter built by another rule is not
	// queried: until compaction rewrites its table, the table is read like one without a filter (Metrics.Prefixes).
	// With a FilterFPR of 1, no second filters are built. The zero value means no rule.
	FilterPrefix PrefixRule
	// FilterSeed is the seed of a new store; an existing store keeps its own, and one made of an export or a checkpoint
	// that of the store it comes from. 0 means a random seed. Filters and memtables mix it into the hashes of keys, so
	// that an attacker who does not know it cannot choose keys that make the store slow. Set it only if two stores must
	// have the same filters, bit for bit, as in tests.
	FilterSeed uint64

	// Resources, if not nil, are memory and file descriptors that the store shares with others. They replace
	// MemoryBudget, MaxMappedBytes and MaxOpenFiles, which must then be 0. Open fails with ErrMemoryBudget if the
	// memtables of one more store do not fit.
	Resources *Resources
	// MaxMappedBytes bounds the bytes of table files that are mapped into the memory of the process at a time, which
	// happens on 64-bit Linux alone. Lookups and iterators use blocks in mapped files if the cache is full and the
	// system has the blocks in memory; they read other files. Mapped memory belongs to the system's cache of files,
	// which the system reduces when it needs memory. Nevertheless it counts as resident memory of the process in most
	// tools (in /proc/self/status, as RssFile), and the system's page tables for it take up to 2 MiB for each GiB.
	// Metrics.Memory.Mapped is the number of bytes. 0 means 16 GiB; a negative number means that no file is mapped.
	MaxMappedBytes int64
	// MaxOpenFiles bounds the file descriptors held for tables. 0 means 500; the minimum is 8. Closing a descriptor
	// drops no filter.
	MaxOpenFiles int

	// MemtableSize is the number of bytes of writes collected in memory before they become a table, between 16 KiB
	// and a quarter of the available memory (one memtable fills while another is flushed), and at most 1 GiB. 0 means a
	// quarter of MemoryBudget, or a 64th of the memory of Resources, so that sixteen stores fit, or 1 GiB if that is
	// less.
	MemtableSize int64
	// BlockSize is the size of a data block in bytes before compression, between 256 bytes and 1 MiB. 0 means 4096. A
	// larger entry gets a block of its own.
	BlockSize int
	// TableSize is the size, in bytes, of the tables that compaction writes, between 16 KiB and 1 GiB. 0 means 8 MiB.
	// Neighboring tables of less than an eighth of it are merged into one when there are eight or more.
	TableSize int64
	// BaseLevelSize is the size, in bytes, up to which there is only one level below level 0, between 64 KiB and
	// 1 TiB. 0 means 4 · LevelRatio · MemtableSize: then no level above the last is smaller than a full level 0.
	BaseLevelSize int64
	// LevelRatio is the factor by which each level is larger than the one above it, between 2 and 100. 0 means 10.
	LevelRatio int
	// Compactions is the number of goroutines that compact, between 1 and 64. They run compactions that do not meet,
	// and share large ones. Each takes memory for a block of every run that it merges, beside MemoryBudget. 0 means the
	// number of processors that runtime.GOMAXPROCS returns, and at most 4; with Resources, whose stores share the
	// processors, it means 1.
	Compactions int
	// CompactionRate bounds the bytes per second that compactions write, which leaves disk bandwidth to others. 0
	// means no limit. Flushes are not limited. If compaction falls behind because of it, writes are slowed down, and
	// finally wait.
	CompactionRate int64

	// Events are functions that are called when something happens to the store.
	Events Events
	// FS is the file system. nil means the operating system's.
	FS vfs.FS
	// StrictWAL makes Open fail if a log ends in the middle of a record. By default, Open accepts such a log, since a
	// crash normally leaves one. Zeros after the last record are space reserved for the log, and never an error.
	StrictWAL bool
}

// A PrefixRule determines which prefix of a key the prefix filters hold: see [Options.FilterPrefix]. [PrefixLen] and
// [PrefixSeparator] return one; the zero value means no rule. Rules may be compared with ==.
type PrefixRule struct{ rule sstable.PrefixRule }

// PrefixLen returns the rule whose prefix is the first n bytes of a key, 1 to MaxKeySize. A shorter key has no
// prefix.
func PrefixLen(n int) PrefixRule { return PrefixRule{sstable.PrefixLen(n)} }

// PrefixSeparator returns the rule whose prefix is all bytes of a key up to and including the nth separator; n is 1
// to MaxKeySize. A key with fewer separators has no prefix. With the second '/', the key "user/17/name" has the
// prefix "user/17/".
func PrefixSeparator(separator byte, n int) PrefixRule {
	return PrefixRule{sstable.PrefixSeparator(separator, n)}
}

// Of returns the prefix of key by the rule, which shares the memory of key, or nil if it has none. A prefix is never
// empty.
func (r PrefixRule) Of(key []byte) []byte { return r.rule.Of(key) }

// String returns the rule as text, as in JSON and in flags: "len:8" or "sep:/:2". A separator that is not a visible
// ASCII character is written as in "sep:0x00:1". The text of the zero value is empty.
func (r PrefixRule) String() string { return r.rule.String() }

// MarshalText returns the text of String. It never fails.
func (r PrefixRule) MarshalText() ([]byte, error) { return r.rule.MarshalText() }

// UnmarshalText sets the rule to that of a text of String. For any other text it returns an error and leaves the rule
// unchanged.
func (r *PrefixRule) UnmarshalText(text []byte) error { return r.rule.UnmarshalText(text) }

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.FS == nil {
		d.FS = vfs.OS
	}
	plan := d.planOptions().WithDefaults()
	d.FilterFPR, d.LevelRatio = plan.FPR, plan.Ratio
	if d.Resources != nil && d.Resources.pool != nil { // else check refuses it
		part := d.Resources.pool.Memory / sharedMemtables
		d.MemtableSize = cmp.Or(d.MemtableSize, min(max(part, minMemtable), maxMemtable))
		d.Compactions = cmp.Or(d.Compactions, 1)
	} else if d.Resources == nil {
		d.MemoryBudget = cmp.Or(d.MemoryBudget, filterplan.DefaultBudget)
		d.MemtableSize = cmp.Or(d.MemtableSize, min(d.MemoryBudget/4, maxMemtable))
		d.MaxMappedBytes = cmp.Or(d.MaxMappedBytes, defaultMapped)
		d.MaxOpenFiles = cmp.Or(d.MaxOpenFiles, defaultOpenFiles)
		d.Compactions = cmp.Or(d.Compactions, min(runtime.GOMAXPROCS(0), 4))
	}
	tables := d.tableOptions().WithDefaults()
	d.BlockSize, d.TableSize = tables.BlockSize, tables.TableSize
	full := triggerRuns / 2 * int64(d.LevelRatio) * d.MemtableSize // a run has about half the size of a memtable
	d.BaseLevelSize = cmp.Or(d.BaseLevelSize, min(max(full, minBaseLevel), maxBaseLevel))
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// pool returns the shared memory and descriptors, or new ones for this store alone. Options have been checked.
func (o *Options) pool() *budget.Pool {
	if o.Resources != nil {
		return o.Resources.pool
	}
	return newPool(o.MemoryBudget, o.MaxMappedBytes, o.MaxOpenFiles)
}

// check returns an error if an option is invalid, before any file is touched. Options have their defaults.
func (o *Options) check() error {
	memory, mapped, files := o.MemoryBudget, o.MaxMappedBytes, o.MaxOpenFiles
	if shared := o.Resources; shared != nil {
		switch {
		case shared.pool == nil:
			return errors.New("option Resources: not made by NewResources")
		case memory != 0:
			return fmt.Errorf("option MemoryBudget: %d, want 0 with Resources, which have %d",
				memory, shared.pool.Memory)
		case mapped != 0:
			return fmt.Errorf("option MaxMappedBytes: %d, want 0 with Resources, which have %d",
				mapped, shared.pool.Files.MaxMapped)
		case files != 0:
			return fmt.Errorf("option MaxOpenFiles: %d, want 0 with Resources, which have %d",
				files, shared.pool.Files.Limit)
		}
		memory, files = shared.pool.Memory, shared.pool.Files.Limit
	}
	err := checkLimits([]limit{
		{"Durability", int64(o.Durability), int64(DurabilitySync), int64(DurabilityNoSync)},
		{"FilterKind", int64(o.FilterKind), int64(FilterAuto), int64(FilterBloom)},
		{"MemoryBudget", memory, filterplan.MinBudget, maxMemory},
		{"MaxMappedBytes", max(mapped, -1), -1, maxMemory},
		{"MemtableSize", o.MemtableSize, minMemtable, min(memory/4, maxMemtable)},
		{"BaseLevelSize", o.BaseLevelSize, minBaseLevel, maxBaseLevel},
		{"Compactions", int64(o.Compactions), 1, 64},
		{"CompactionRate", o.CompactionRate, 0, 1 << 40},
		{"MaxOpenFiles", int64(files), minOpenFiles, maxOpenFiles},
	})
	if err != nil {
		return err
	}
	if err := o.FilterPrefix.rule.Check(); err != nil {
		return fmt.Errorf("option FilterPrefix: %w", err)
	}
	if err := cmp.Or(o.tableOptions().Check(), o.planOptions().Check(memory)); err != nil {
		return err
	}
	if o.ErrorIfExists && (o.ErrorIfMissing || o.ReadOnly) {
		return errors.New("option ErrorIfExists: not together with ErrorIfMissing or ReadOnly")
	}
	return nil
}

// A limit is an option and the range of its values.
type limit struct {
	name           string
	got, low, high int64
}

func checkLimits(limits []limit) error {
	for _, l := range limits {
		if l.got < l.low || l.got > l.high {
			return fmt.Errorf("option %s: %d, want %d to %d", l.name, l.got, l.low, l.high)
		}
	}
	return nil
}

// policy returns the policy that chooses compactions. Every part of the store that depends on the shape of the tree
// uses it.
func (o *Options) policy() compaction.Policy {
	return compaction.Leveled{
		Trigger: triggerRuns, Slow: slowRuns, Stop: filterplan.Level0Runs,
		Ratio:         o.LevelRatio,
		TableSize:     uint64(o.TableSize),     //nolint:gosec // checked: positive
		BaseLevelSize: uint64(o.BaseLevelSize), //nolint:gosec // checked: positive
	}
}

// planOptions returns the options that plans of filters depend on.
func (o *Options) planOptions() filterplan.Options {
	return filterplan.Options{
		FPR: o.FilterFPR, Memory: o.FilterMemory, Kind: filterplan.Kind(o.FilterKind), Ratio: o.LevelRatio,
	}
}

// planner returns the planner of the filters of a store with these options.
func (o *Options) planner() filterplan.Planner { return o.planOptions().Planner() }

// tableOptions returns the options that tables depend on.
func (o *Options) tableOptions() compaction.Options {
	return compaction.Options{
		BlockSize: o.BlockSize, TableSize: o.TableSize, Compression: compaction.Compression(o.Compression),
	}
}
