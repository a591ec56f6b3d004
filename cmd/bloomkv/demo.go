package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/workload"
	"github.com/bloomkv/bloomkv/vfs"
)

// errWrongAnswers means that the store failed the demo.
var errWrongAnswers = errors.New("wrong answers")

const (
	demoSeed    = 20260917 // of every choice the demo makes: it repeats itself
	demoAbsents = 400_000  // lookups of absent keys, as many without filters
	demoRun     = 500      // keys in a run of level 0, at least
	demoFlushes = 24       // about so many, where there are keys enough
	compactRuns = 4        // runs of level 0 that the store begins to compact
	demoFewest  = 8 * demoRun // four runs to compact, and three that stay in level 0
)

func (a *app) demoCommand() *cobra.Command {
	var data, keep string
	var asJSON bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show what the filters are worth, on real keys",
		Long: `demo stores the files of the Go source tree (path: size, hash, first line) in shuffled order, through many flushes and
compactions, opens the store again, and looks up every path and ` + strconv.Itoa(demoAbsents) + ` absent ones that fall between real paths: with the
filters, and again on the same tree with none loaded. Every answer is checked. It prints what the lookups cost, and draws
one filter block. Blocks are counted where they are searched, whether they were in the cache or read from a file.

Everything is chosen with a fixed seed, so that little but the times differs from run to run. The store is made in a temporary directory and
removed, unless --keep says where to make it. With --data the pairs are lines of your own, key TAB value, ` + strconv.Itoa(demoFewest) + ` different
keys at least; they are held in memory. The exit status is 1 if any answer was wrong.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			set, title, err := a.demoInput(c.Context(), data)
			if err != nil {
				return err
			}
			dir, remove, err := demoDir(keep)
			if err != nil {
				return err
			}
			d := demo{app: a, set: set, dir: dir, options: demoOptions(set)}
			r, err := d.run(c.Context())
			if err == nil {
				r.Input, r.Seed, r.Kept = title, demoSeed, keep
				if asJSON {
					err = a.printJSON(r)
				} else {
					err = a.printDemo(r)
				}
			}
			err = errors.Join(err, remove())
			if err == nil && r.WrongAnswers > 0 {
				err = fmt.Errorf("%d %w; the first: %s", r.WrongAnswers, errWrongAnswers, r.firstWrong)
			}
			return err
		},
	}
	c.Flags().StringVar(&data, "data", "", "use the lines of FILE, key TAB value, instead of the Go source tree")
	c.Flags().StringVar(&keep, "keep", "", "make the store in DIR, which is new or empty, and keep it")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// demoInput reads the pairs: those of a file, or of the Go source tree without one. title says what they are.
func (a *app) demoInput(ctx context.Context, data string) (set *workload.Pairs, title string, err error) {
	var pairs []workload.Pair
	if data != "" {
		title = "lines of " + data
		pairs, err = readPairs(ctx, data)
	} else {
		var root string
		if root, err = goRoot(ctx); err != nil {
			return nil, "", err
		}
		title = "files of " + root
		bar := a.newProgress("reading the Go source tree", -1, false)
		pairs, err = readTree(ctx, root, func(files int) { bar.set(int64(files), -1) })
		bar.end()
	}
	if err == nil && len(pairs) < demoFewest {
		err = fmt.Errorf("%s: %d keys, want at least %d for a tree of runs of %d", title, len(pairs), demoFewest, demoRun)
	}
	if err == nil {
		set, err = workload.NewPairs(pairs)
	}
	if err == nil && set.Absents() < demoAbsents {
		err = fmt.Errorf("%s: room for %d absent keys between them, want %d", title, set.Absents(), demoAbsents)
	}
	return set, title, err
}

// demoDir is where the store is made, and what removes it.
func demoDir(keep string) (dir string, remove func() error, err error) {
	if keep == "" {
		dir, err = os.MkdirTemp("", "bloomkv-demo-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	entries, err := os.ReadDir(keep)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = nil
	case err == nil && len(entries) > 0:
		err = fmt.Errorf("--keep: %s is not empty", keep)
	}
	return keep, func() error { return nil }, err
}

// partKeys is how many keys are flushed at once.
func partKeys(n int) int { return max(demoRun, n/demoFlushes) }

// demoOptions makes everything small in proportion, so that a set of any size becomes a tree of several levels.
func demoOptions(set *workload.Pairs) bloomkv.Options {
	total, largest, part, inPart := int64(0), int64(0), int64(0), partKeys(set.Len())
	var buf []byte
	order := workload.NewPermutation(set.Len(), demoSeed)
	for i := range set.Len() {
		buf = set.AppendValue(set.AppendKey(buf[:0], order.At(i)), order.At(i))
		total += int64(len(buf))
		part += int64(len(buf))
		if (i+1)%inPart == 0 {
			part = 0
		}
		largest = max(largest, part)
	}
	o := bloomkv.Options{
		Durability:    bloomkv.NoSync, // a demo may be lost in a power cut
		TableSize:     min(max(total/16, 16<<10), 8<<20),
		BaseLevelSize: max(total/16, 64<<10),
		LevelRatio:    3,
		// A part, or the five that may be flushed together, always fits: each flush makes one run.
		MemtableSize: min(6*(largest+int64(inPart)*256)+64<<10, 1<<30),
	}
	o.MemoryBudget = max(64<<20, 4*o.MemtableSize)
	return o
}

// demo is one store on its way through the demo.
type demo struct {
	*app
	set     *workload.Pairs
	dir     string
	options bloomkv.Options
}

// demoResult is what the demo found out. The names are what --json prints.
type demoResult struct {
	Input       string       `json:"input"`
	Seed        uint64       `json:"seed"`
	Kept        string       `json:"kept,omitempty"`
	Keys        int          `json:"keys"`
	Absents     int          `json:"absent_lookups"`
	Flushes     uint64       `json:"flushes"`
	Compactions uint64       `json:"compactions"`
	Moves       uint64       `json:"moves"`
	Runs        int          `json:"runs"`
	Levels      []levelStats `json:"levels"`

	FilterBytes int64   `json:"filter_bytes"` // in memory
	BitsPerKey  float64 `json:"bits_per_key"`
	FPRPromised float64 `json:"fpr_promised"`
	FPRMeasured float64 `json:"fpr_measured"` // wasted reads per absent lookup
	FPRPerProbe float64 `json:"fpr_per_probe"`

	with, without demoCosts
	demoFlat
	WrongAnswers int `json:"wrong_answers"`
	firstWrong   string

	block       []byte // one filter block, to be drawn
	blockTable  string
	blockLevel  int
	blockAbsent float64 // rate measured on it alone
}

// demoFlat names the costs for JSON.
type demoFlat struct {
	WastedReads        float64 `json:"wasted_reads_per_absent"`
	WastedReadsWithout float64 `json:"wasted_reads_per_absent_without_filters"`
	WastedPerRun       float64 `json:"wasted_reads_per_overlapping_run_without_filters"`
	BlocksPresent      float64 `json:"blocks_per_present"`
	BlocksAbsent       float64 `json:"blocks_per_absent"`
	BlocksPresentNo    float64 `json:"blocks_per_present_without_filters"`
	BlocksAbsentNo     float64 `json:"blocks_per_absent_without_filters"`
	AbsentNs           float64 `json:"absent_ns"`
	PresentNs          float64 `json:"present_ns"`
	AbsentNsNo         float64 `json:"absent_ns_without_filters"`
	PresentNsNo        float64 `json:"present_ns_without_filters"`
	AbsentPerSecond    float64 `json:"absent_per_second"`
	PresentPerSecond   float64 `json:"present_per_second"`
}

// demoCosts is what lookups cost in one way to open the store.
type demoCosts struct {
	wasted, wastedPerRun          float64 // per absent lookup; per run whose bounds hold the key
	blocksPresent, blocksAbsent   float64
	readPresent, readAbsent       float64 // of these blocks, from files
	absent, present               workload.Figures
	metrics                       bloomkv.Metrics // at the end
	wrong                         int
	firstWrong                    string
	presentLookups, absentLookups bloomkv.LookupMetrics
}

func (d *demo) run(ctx context.Context) (*demoResult, error) {
	r := &demoResult{Keys: d.set.Len(), Absents: demoAbsents}
	if err := d.fill(ctx, r); err != nil {
		return nil, err
	}
	var err error
	if r.with, err = d.measure(ctx, d.options, "with filters"); err != nil {
		return nil, err
	}
	bare := d.options
	bare.FilterFPR = 1
	if r.without, err = d.measure(ctx, bare, "without filters"); err != nil {
		return nil, err
	}
	with, without := &r.with, &r.without
	if !slices.EqualFunc(with.metrics.Levels, without.metrics.Levels, sameShape) {
		return nil, errors.New("the tree changed while it was measured")
	}
	r.Levels = levelsOf(&with.metrics)
	for _, l := range r.Levels {
		r.Runs += l.Runs
		r.FilterBytes += l.FilterBytesHeld
	}
	r.BitsPerKey = 8 * float64(r.FilterBytes) / float64(r.Keys)
	r.FPRPromised, r.FPRMeasured, r.FPRPerProbe = with.metrics.FilterFPR, with.wasted, with.absentLookups.FPR()
	r.demoFlat = demoFlat{
		with.wasted, without.wasted, without.wastedPerRun,
		with.blocksPresent, with.blocksAbsent, without.blocksPresent, without.blocksAbsent,
		with.absent.MedianNs, with.present.MedianNs, without.absent.MedianNs, without.present.MedianNs,
		1e9 / with.absent.MedianNs, 1e9 / with.present.MedianNs,
	}
	r.WrongAnswers = with.wrong + without.wrong
	r.firstWrong = with.firstWrong
	if r.firstWrong == "" {
		r.firstWrong = without.firstWrong
	}
	return r, d.pickBlock(r)
}

func sameShape(a, b bloomkv.LevelMetrics) bool {
	return a.Level == b.Level && a.Runs == b.Runs && a.Tables == b.Tables && a.Bytes == b.Bytes && a.Entries == b.Entries
}

// fill stores the set in shuffled order, a flush for each part, and leaves a tree that is at rest: three runs in level 0 and
// whatever compaction made below.
func (d *demo) fill(ctx context.Context, r *demoResult) error {
	db, err := bloomkv.Open(d.dir, &d.options)
	return with(db, err, func(db *bloomkv.DB) error {
		n := d.set.Len()
		f := filler{set: d.set, db: db, order: workload.NewPermutation(n, demoSeed), bar: d.newProgress("storing", int64(n), false)}
		defer f.bar.end()
		in := partKeys(n)
		for n-f.done >= 5*in {
			if err := f.part(ctx, in); err != nil {
				return err
			}
			if levelZero(db) >= compactRuns {
				if err := settle(ctx, db); err != nil {
					return err
				}
			}
		}
		// What is left, four parts and a bit, is divided so that level 0 ends with one run less than would be compacted.
		if err := settle(ctx, db); err != nil {
			return err
		}
		if levelZero(db) == compactRuns-1 {
			if err := f.part(ctx, in); err != nil {
				return err
			}
			if err := settle(ctx, db); err != nil {
				return err
			}
		}
		for parts := max(1, compactRuns-1-levelZero(db)); parts > 0; parts-- {
			if err := f.part(ctx, (n-f.done)/parts); err != nil {
				return err
			}
		}
		if err := settle(ctx, db); err != nil {
			return err
		}
		m := db.Metrics()
		r.Flushes, r.Compactions, r.Moves = m.Writes.Flushes, m.Writes.Compactions, m.Writes.Moves
		return nil
	})
}

// filler puts a set into a store, part by part.
type filler struct {
	set   *workload.Pairs
	db    *bloomkv.DB
	order workload.Permutation
	bar   progress
	done  int
}

// part stores the next n keys and flushes them.
func (f *filler) part(ctx context.Context, n int) error {
	var b bloomkv.Batch
	var key, value []byte
	for range n {
		i := f.order.At(f.done)
		key, value = f.set.AppendKey(key[:0], i), f.set.AppendValue(value[:0], i)
		b.Put(key, value)
		f.done++
		if b.Len() < 64 && b.Size() < batchBytes {
			continue
		}
		if err := errors.Join(ctx.Err(), f.db.Apply(&b, bloomkv.NoSync)); err != nil {
			return err
		}
		b.Reset()
		f.bar.set(int64(f.done), int64(f.set.Len()))
	}
	return errors.Join(f.db.Apply(&b, bloomkv.NoSync), f.db.Flush(ctx))
}

func levelZero(db *bloomkv.DB) int {
	for _, l := range db.Metrics().Levels {
		if l.Level == 0 {
			return l.Runs
		}
	}
	return 0
}

// settle waits until the tree has not changed for a while: nothing is compacting any more.
func settle(ctx context.Context, db *bloomkv.DB) error {
	const step, still = 20 * time.Millisecond, 8
	last := db.Metrics()
	for same := 0; same < still; same++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(step):
		}
		now := db.Metrics()
		if !slices.EqualFunc(last.Levels, now.Levels, sameShape) {
			last, same = now, 0
		}
	}
	return nil
}

// measure opens the store, looks everything up and closes it again.
func (d *demo) measure(ctx context.Context, o bloomkv.Options, how string) (c demoCosts, err error) {
	o.ErrorIfMissing = true
	db, err := bloomkv.Open(d.dir, &o)
	return c, with(db, err, func(db *bloomkv.DB) error {
		look := func(kind workload.Kind, ops int) (workload.Figures, bloomkv.LookupMetrics, error) {
			bar := d.newProgress(fmt.Sprintf("%s keys %s", kind, how), int64(ops), false)
			defer bar.end()
			before := db.Metrics().Lookups
			f, err := workload.Run(ctx, demoStore{db}, d.set, workload.Phase{Kind: kind, Ops: ops, Choice: workload.Shuffled, Seed: demoSeed + 1},
				func(done, total int) { bar.set(int64(done), int64(total)) })
			c.wrong += f.Wrong
			if c.firstWrong == "" {
				c.firstWrong = f.FirstWrong
			}
			return f, lookupsSince(before, db.Metrics().Lookups), err
		}
		n := d.set.Len()
		if _, _, err := look(workload.Present, n); err != nil { // also warms the cache up
			return err
		}
		if c.absent, c.absentLookups, err = look(workload.Absent, demoAbsents); err != nil {
			return err
		}
		if c.present, c.presentLookups, err = look(workload.Present, n); err != nil {
			return err
		}
		absent, present := &c.absentLookups, &c.presentLookups
		c.wasted = float64(absent.WastedReads) / float64(c.absent.Ops)
		c.wastedPerRun = float64(absent.WastedReads) / float64(max(absent.TablesInRange, 1))
		c.blocksAbsent, c.readAbsent = float64(absent.Blocks)/float64(c.absent.Ops), float64(absent.BlocksRead)/float64(c.absent.Ops)
		c.blocksPresent, c.readPresent = float64(present.Blocks)/float64(c.present.Ops), float64(present.BlocksRead)/float64(c.present.Ops)
		c.metrics = db.Metrics()
		return nil
	})
}

// lookupsSince is what was counted between two moments, of what the demo prints.
func lookupsSince(before, now bloomkv.LookupMetrics) bloomkv.LookupMetrics {
	now.Gets -= before.Gets
	now.TablesInRange -= before.TablesInRange
	now.FilterProbes -= before.FilterProbes
	now.FilterNegatives -= before.FilterNegatives
	now.TruePositives -= before.TruePositives
	now.FalsePositives -= before.FalsePositives
	now.TableSearches -= before.TableSearches
	now.WastedReads -= before.WastedReads
	now.Blocks -= before.Blocks
	now.BlocksRead -= before.BlocksRead
	now.BytesRead -= before.BytesRead
	return now
}

// pickBlock reads the filter block of the largest table of the last level, and measures its rate alone.
func (d *demo) pickBlock(r *demoResult) error {
	s, err := manifest.Load(vfs.OS, d.dir)
	if err != nil {
		return err
	}
	var pick *manifest.Table
	for level, t := range s.Version.Tables() {
		if pick == nil || level > r.blockLevel || level == r.blockLevel && t.Entries > pick.Entries {
			pick, r.blockLevel = t, level
		}
	}
	if pick == nil {
		return errors.New("the store has no table")
	}
	facts, err := inspectTable(filename.Make(d.dir, filename.Table, pick.Number))
	if err != nil {
		return err
	}
	if facts.Damage != nil {
		return facts.Damage.err
	}
	r.block, r.blockTable = facts.block, facts.File
	f, err := bloomblock.Parse(r.block)
	if err != nil {
		return err
	}
	maybe := 0
	var key []byte
	for i := range demoAbsents {
		key = d.set.AppendAbsent(key[:0], i)
		if f.MayContain(bloomblock.HashKey(key)) {
			maybe++
		}
	}
	r.blockAbsent = float64(maybe) / demoAbsents
	return nil
}

// printDemo prints the page for people.
func (a *app) printDemo(r *demoResult) error {
	fmt.Fprintf(a.out, "%s %s (seed %d)\n", count(r.Keys), escaped([]byte(r.Input), 200), r.Seed)
	fmt.Fprintf(a.out, "stored in shuffled order through %d flushes, %d compactions and %d moves, then opened again:\n\n", r.Flushes, r.Compactions, r.Moves)
	a.printLevels(r.Levels)
	fmt.Fprintf(a.out, "\nfilters: %s bytes in memory, %.1f bits per key\n", count(int(r.FilterBytes)), r.BitsPerKey)
	fmt.Fprintf(a.out, "promised %.4f wasted reads per absent lookup over the whole tree, measured %.4f\n\n", r.FPRPromised, r.FPRMeasured)
	w := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "%s present and %s absent keys\twith filters\twithout\n", count(r.Keys), count(r.Absents))
	for _, l := range []struct {
		what string
		form string
		of   func(c *demoCosts) float64
	}{
		{"wasted reads per absent lookup", "%.4f", func(c *demoCosts) float64 { return c.wasted }},
		{"  per run that its key could be in", "%.4f", func(c *demoCosts) float64 { return c.wastedPerRun }},
		{"blocks per absent lookup", "%.4f", func(c *demoCosts) float64 { return c.blocksAbsent }},
		{"  of these read from files", "%.4f", func(c *demoCosts) float64 { return c.readAbsent }},
		{"blocks per present lookup", "%.4f", func(c *demoCosts) float64 { return c.blocksPresent }},
		{"  of these read from files", "%.4f", func(c *demoCosts) float64 { return c.readPresent }},
		{"absent lookup, ns", "%.0f", func(c *demoCosts) float64 { return c.absent.MedianNs }},
		{"present lookup, ns", "%.0f", func(c *demoCosts) float64 { return c.present.MedianNs }},
		{"absent lookups per second", "", func(c *demoCosts) float64 { return 1e9 / c.absent.MedianNs }},
		{"present lookups per second", "", func(c *demoCosts) float64 { return 1e9 / c.present.MedianNs }},
		{"wrong answers", "%.0f", func(c *demoCosts) float64 { return float64(c.wrong) }},
	} {
		fmt.Fprintf(w, "%s", l.what)
		for _, c := range []*demoCosts{&r.with, &r.without} {
			if l.form == "" {
				fmt.Fprintf(w, "\t%s", count(int(l.of(c))))
				continue
			}
			fmt.Fprintf(w, "\t"+l.form, l.of(c))
		}
		fmt.Fprintln(w)
	}
	w.Flush()

	fmt.Fprintf(a.out, "\nthe filter block of table %s on level %d:\n", r.blockTable, r.blockLevel)
	if r.block == nil {
		fmt.Fprintln(a.out, "none")
	} else if err := drawFilter(a.out, r.block, a.color); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "\nof %s absent keys it let %.4f through\n", count(r.Absents), r.blockAbsent)
	if r.Kept != "" {
		fmt.Fprintf(a.out, "\nkept: bloomkv inspect %s\n", escaped([]byte(filepath.Clean(r.Kept)), 4096))
	}
	return nil
}

// count prints a number, 0 or more, with its thousands apart.
func count(n int) string {
	s := []byte(strconv.Itoa(n))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = slices.Insert(s, i, ',')
	}
	return string(s)
}

// demoStore is a store as the workload knows one.
type demoStore struct{ *bloomkv.DB }

func (s demoStore) AppendGet(dst, key []byte) (out []byte, found bool, err error) {
	out, err = s.DB.AppendGet(dst, key)
	if errors.Is(err, bloomkv.ErrNotFound) {
		return out, false, nil
	}
	return out, err == nil, err
}

func (s demoStore) Apply(pairs workload.Batch) error {
	var b bloomkv.Batch
	for key, value := range pairs.All() {
		b.Put(key, value)
	}
	return s.DB.Apply(&b, bloomkv.DefaultDurability)
}

func (s demoStore) Scan(from []byte, limit int, each func(key, value []byte) error) error {
	n := 0
	for kv, err := range s.DB.Scan(bloomkv.ScanOptions{Lower: from}) {
		if err == nil {
			err = each(kv.Key, kv.Value)
		}
		if err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return nil
}

func (s demoStore) Settle(ctx context.Context) error { return settle(ctx, s.DB) }

func (s demoStore) Compact(ctx context.Context) error { return s.DB.Compact(ctx, nil, nil) }
