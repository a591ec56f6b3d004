package tests

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/digest"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

var (
	digestKeys      = flag.Int("digestkeys", 100_000, "keys of the stores whose digests are measured")
	digestPositives = flag.Int("digestpositives", 500, "false positives to see when the rate of a digest is measured")
)

// digestKey returns key i. Even ones are present in these tests, odd ones are absent, and both lie among each other.
func digestKey(i uint64) []byte { return binary.BigEndian.AppendUint64([]byte("k"), i) }

// digestStore returns a store in which every fourth of n keys is in a run of its own.
func digestStore(t *testing.T, o *bloomkv.Options, n uint64) *bloomkv.DB {
	t.Helper()
	db := storetest.Open(t, "db", o)
	for run := range uint64(4) {
		err := db.Ingest(t.Context(), func(yield func(bloomkv.KV, error) bool) {
			for i := run; i < n && yield(bloomkv.KV{Key: digestKey(2 * i)}, nil); i += 4 {
			}
		}, bloomkv.IngestOptions{})
		if err == nil && run == 0 {
			err = db.Compact(t.Context(), bloomkv.CompactOptions{})
		}
		must(t, err)
	}
	return db
}

func digestOf(t *testing.T, db *bloomkv.DB, opts bloomkv.DigestOptions) *digest.Digest {
	t.Helper()
	d, err := db.Digest(t.Context(), opts)
	must(t, err)
	return d
}

// travelled returns the digest after it was written and read.
func travelled(t *testing.T, d *digest.Digest) *digest.Digest {
	t.Helper()
	var b bytes.Buffer
	if n, err := d.WriteTo(&b); err != nil || n != d.Size() || n != int64(b.Len()) {
		t.Fatalf("wrote %d of %d bytes, %d by Size: %v", n, b.Len(), d.Size(), err)
	}
	b.WriteString("behind")
	got, err := digest.Read(&b)
	if err != nil || b.String() != "behind" || got.ID() != d.ID() || got.Size() != d.Size() {
		t.Fatalf("read digest %v, left %q: %v", got, b.String(), err)
	}
	return got
}

// falsePositives checks that no key below n is denied, and asks for absent keys that lie among them until it has seen
// some false positives.
func falsePositives(t *testing.T, d *digest.Digest, n uint64, some int) (asked, wrong int) {
	t.Helper()
	for i := range n {
		if !d.MayContain(digestKey(2 * i)) {
			t.Fatalf("key %d of %d is denied", i, n)
		}
	}
	for ; wrong < some; asked++ {
		if i := uint64(asked); d.MayContain(append(digestKey(2*(i%n)), byte(i/n))) {
			wrong++
		}
	}
	return asked, wrong
}

// TestADigestKeepsThePromiseOfItsRate makes digests of four runs: with the store's filters, with fewer units of them,
// and rebuilt. It reads the filters alone unless it is rebuilt.
func TestADigestKeepsThePromiseOfItsRate(t *testing.T) {
	testkit.Long(t)
	n := uint64(*digestKeys)
	for _, kind := range []bloomkv.FilterKind{bloomkv.FilterBloom, bloomkv.FilterRibbon} {
		t.Run(fmt.Sprint("kind ", kind), func(t *testing.T) {
			var reads atomic.Int64
			o := &bloomkv.Options{FS: vfstest.NewHook(vfstest.NewMem(), func(op vfstest.Op) error {
				if op.Kind == vfstest.OpReadAt {
					reads.Add(1)
				}
				return nil
			}), FilterKind: kind, FilterFPR: 0.002, FilterSeed: 1}
			db := digestStore(t, o, n)
			defer db.Close()
			testkit.Soon(t, "warming up has failed", func() bool { return db.Metrics().Warm })
			filters := float64(db.Metrics().Memory.Filters)
			for _, test := range []struct {
				opts  bloomkv.DigestOptions
				bytes float64 // at most, except for the header and a few bounds
			}{
				{bloomkv.DigestOptions{}, filters},
				{bloomkv.DigestOptions{FPR: 0.1}, 0.8 * filters},
				{bloomkv.DigestOptions{FPR: 0.01, Rebuild: true}, 10 * float64(n) / 8},
				{bloomkv.DigestOptions{FPR: 0.01, Rebuild: true, Kind: bloomkv.FilterRibbon}, 7.1 * float64(n) / 8},
			} {
				opts := test.opts
				before, start := reads.Load(), time.Now()
				d := digestOf(t, db, opts)
				took, read := time.Since(start), reads.Load()-before
				asked, wrong := falsePositives(t, travelled(t, d), n, *digestPositives)
				t.Logf("FPR %v, rebuilt %v as %v: %v, %d reads, %d bytes (%.2f bits a key), promised %.5f, "+
					"measured %.5f", opts.FPR, opts.Rebuild, opts.Kind, took, read, d.Size(),
					float64(d.Size())*8/float64(n), d.Rate(), float64(wrong)/float64(asked))
				// 4.8 standard deviations are exceeded once in a million times.
				most := d.Rate() * float64(asked)
				if float64(wrong) > most+4.8*math.Sqrt(most) || opts.FPR > 0 && d.Rate() > opts.FPR || d.Keys() != n {
					t.Errorf("promised %v, %d of %d false positives; %d keys", d.Rate(), wrong, asked, d.Keys())
				}
				// A Bloom filter of that rate has more than nine bits a key, a Ribbon filter less than eight.
				if bloom := opts.Rebuild && opts.Kind != bloomkv.FilterRibbon; float64(d.Size()) > test.bytes+1500 ||
					bloom && float64(d.Size()) < 9*float64(n)/8 {
					t.Errorf("%d bytes, want %.0f", d.Size(), test.bytes)
				}
				// A digest has filters as the files have them: the header and at most three units of each.
				if tables := int64(db.Metrics().Files.Tables); !opts.Rebuild && (read == 0 || read > 4*tables) {
					t.Errorf("%d reads of the filters of %d tables", read, tables)
				}
			}
		})
	}
}

// TestAPatchIsTheSizeOfWhatIsNew flushes keys into a store, and brings an older digest up to date.
func TestAPatchIsTheSizeOfWhatIsNew(t *testing.T) {
	testkit.Long(t)
	n := uint64(*digestKeys)
	db := digestStore(t, &bloomkv.Options{FS: vfstest.NewMem()}, n)
	defer db.Close()
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{})) // so that no compaction begins below
	peer := travelled(t, digestOf(t, db, bloomkv.DigestOptions{}))
	filters := db.Metrics().Memory.Filters
	var b bloomkv.Batch
	for i := range n / 20 {
		b.Put(digestKey(2*(n+i)), nil)
	}
	must(t, errors.Join(db.Apply(&b), db.Flush(t.Context())))
	testkit.Soon(t, "the filter is not loaded", func() bool { return db.Metrics().Warm })
	filters = db.Metrics().Memory.Filters - filters
	fresh := digestOf(t, db, bloomkv.DigestOptions{})
	patch, err := fresh.Since(peer)
	must(t, err)
	var wire bytes.Buffer
	if m, err := patch.WriteTo(&wire); err != nil || m != patch.Size() || m != int64(wire.Len()) {
		t.Fatalf("wrote %d of %d bytes, %d by Size: %v", m, wire.Len(), patch.Size(), err)
	}
	t.Logf("digest %d bytes, patch %d, new filters %d", fresh.Size(), patch.Size(), filters)
	if patch.Size() > int64(float64(filters)*1.1) {
		t.Errorf("patch of %d bytes, the new filters have %d", patch.Size(), filters)
	}
	patch, err = digest.ReadPatch(&wire)
	must(t, err)
	patched, err := peer.Apply(patch)
	must(t, err)
	if patched.ID() != fresh.ID() || patched.ID() == peer.ID() || patched.Rate() != fresh.Rate() {
		t.Errorf("patched %016x, fresh %016x, older %016x", patched.ID(), fresh.ID(), peer.ID())
	}
	for i := range uint64(1_000_000) {
		if key := digestKey(3 * i); patched.MayContain(key) != fresh.MayContain(key) {
			t.Fatalf("key %d: %v, want %v", i, patched.MayContain(key), fresh.MayContain(key))
		}
	}
	if _, err := fresh.Apply(patch); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("patch of another digest: %v", err)
	}
	other := storetest.OpenTiny(t)
	defer other.Close()
	if _, err := digestOf(t, other, bloomkv.DigestOptions{}).Since(fresh); !errors.Is(err, digest.ErrMismatch) {
		t.Errorf("digest of another store: %v", err)
	}
}

// TestADigestFollowsTheStore compares digests with the store through writes, deletes of keys and ranges, flushes,
// compactions and a reopen. A copy is kept up to date by patches alone.
func TestADigestFollowsTheStore(t *testing.T) {
	testkit.Long(t)
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	db, err := bloomkv.Open("db", o)
	must(t, err)
	defer func() { _ = db.Close() }()
	key := func(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }
	var copied *digest.Digest
	for round := range 60 {
		for i := range 100 {
			n := (round*7919 + i*104729) % 5000
			var err error
			switch i % 10 {
			case 0:
				err = db.Delete(key(n))
			case 1:
				if i == 1 {
					err = db.DeleteRange(bloomkv.KeyRange{Lower: key(n), Upper: key(n + 300)})
				}
			default:
				err = db.Put(key(n), bytes.Repeat([]byte("v"), i))
			}
			must(t, err)
		}
		switch round % 10 {
		case 3, 6:
			err = db.Flush(t.Context())
		case 8:
			err = db.Compact(t.Context(), bloomkv.CompactOptions{})
		case 9:
			if err = db.Close(); err == nil {
				db, err = bloomkv.Open("db", o)
			}
		}
		must(t, err)
		d := digestOf(t, db, bloomkv.DigestOptions{FPR: []float64{0, 0.1, 1, 0.001}[round%4], Rebuild: round%11 == 10})
		if copied == nil {
			copied = travelled(t, d)
		} else {
			patch, err := d.Since(copied)
			must(t, err)
			var wire bytes.Buffer
			_, err = patch.WriteTo(&wire)
			if err == nil {
				patch, err = digest.ReadPatch(&wire)
			}
			if err == nil {
				copied, err = copied.Apply(patch)
			}
			if err != nil || copied.ID() != d.ID() {
				t.Fatalf("round %d: patched %v, want %v: %v", round, copied, d, err)
			}
		}
		maybe, present := 0, 0
		for i := range 5300 {
			has, err := db.Has(key(i))
			may := copied.MayContain(key(i))
			if err != nil || has && !may || may != d.MayContain(key(i)) {
				t.Fatalf("round %d, key %d: has %v, may contain %v: %v", round, i, has, may, err)
			}
			if may {
				maybe++
			}
			if has {
				present++
			}
		}
		if copied.MayContainAny([][]byte{[]byte("absent"), []byte("zebra")}) {
			t.Errorf("round %d: keys outside of all bounds may be there", round)
		}
		t.Logf("round %d: %d keys, %d maybe, rate %.4f, %d bytes", round, present, maybe, d.Rate(), d.Size())
	}
	must(t, db.Close())
	if _, err := db.Digest(t.Context(), bloomkv.DigestOptions{}); err != bloomkv.ErrClosed { //nolint:errorlint // bare
		t.Errorf("after Close: %v", err)
	}
}

// TestTheBoundsOfADigestHoldKeysNextToRangeDeletes asks before and after a flush.
func TestTheBoundsOfADigestHoldKeysNextToRangeDeletes(t *testing.T) {
	for _, keys := range [][]string{nil, {"m"}, {"c", "m"}, {"c"}, {""}, {"l", "n"}, {"a", "b"}, {"", "z"}} {
		for _, upper := range []string{"m", "\xff", ""} { // the last one is none
			db := storetest.OpenTiny(t)
			r := bloomkv.KeyRange{Lower: []byte("c")}
			if upper != "" {
				r.Upper = []byte(upper)
			}
			must(t, db.DeleteRange(r))
			for _, k := range keys {
				must(t, db.Put([]byte(k), nil))
			}
			for _, state := range []string{"unflushed", "flushed"} {
				d := travelled(t, digestOf(t, db, bloomkv.DigestOptions{}))
				for _, k := range keys {
					if !d.MayContain([]byte(k)) {
						t.Errorf("keys %q over a delete from c to %q, %s: %q is denied", keys, upper, state, k)
					}
				}
				if d.MayContain([]byte("d")) && len(keys) == 0 {
					t.Errorf("a delete from c to %q, %s: d may be there", upper, state)
				}
				must(t, db.Flush(t.Context()))
			}
			must(t, db.Close())
		}
	}
}

// TestAColdDigestReadsOnlyTailsAndFilters opens a store without loading its tables. Each byte that a digest reads is
// counted as one of a tail or filter, and none is in front of the filter, where the data blocks are.
func TestAColdDigestReadsOnlyTailsAndFilters(t *testing.T) {
	fsys := vfstest.NewMem()
	db := digestStore(t, &bloomkv.Options{FS: fsys}, 20_000)
	want := digestOf(t, db, bloomkv.DigestOptions{}).ID()
	blocks := map[string]int64{} // where the data blocks of a table end, at most
	for _, table := range db.Tables() {
		for _, runs := range storetest.Recorded(t, fsys, "db").Version.Levels {
			for _, run := range runs {
				for _, m := range run.Tables {
					if m.Number == numberOf(table) {
						blocks[table.File] = int64(m.Size - m.TailLen - m.FilterLen)
					}
				}
			}
		}
	}
	must(t, db.Close())
	var bytesRead, early atomic.Int64
	db = storetest.OpenCold(t, &bloomkv.Options{ReadOnly: true, FS: vfstest.NewHook(fsys, func(op vfstest.Op) error {
		if end, isTable := blocks[filepath.Base(op.Name)]; isTable && op.Kind == vfstest.OpReadAt {
			bytesRead.Add(int64(op.Size))
			if op.Offset < end {
				early.Add(1)
			}
		}
		return nil
	})})
	defer db.Close()
	bytesRead.Store(0)
	d := digestOf(t, db, bloomkv.DigestOptions{})
	got := bytesRead.Load()
	if m := db.Metrics(); d.ID() != want || early.Load() > 0 || got == 0 ||
		uint64(got) != m.Lookups.TailBytes {
		t.Errorf("digest %016x, want %016x; %d bytes read, %d counted, %d reads of blocks", d.ID(), want, got,
			m.Lookups.TailBytes, early.Load())
	}
}

// TestADigestOfADamagedStoreDeniesNoKey flips bytes in a table before the store is opened. A damaged filter answers
// maybe and is reported; damage elsewhere in the tail is an error.
func TestADigestOfADamagedStoreDeniesNoKey(t *testing.T) {
	testkit.Long(t)
	const n = 2000
	fsys := vfstest.NewMem()
	db := digestStore(t, &bloomkv.Options{FS: fsys, FilterSeed: 1, FilterFPR: 0.001}, n)
	file := "db/" + db.Tables()[0].File
	size := int(db.Tables()[0].Bytes)
	better := bloomkv.DigestOptions{FPR: 0.001} // needs units that the store below does not load for itself
	whole := digestOf(t, db, better).Rate()
	must(t, db.Close())
	errs, digests := 0, 0
	for at := 0; at < size; at += 41 {
		flip := func(b []byte) []byte {
			b[at] ^= 0x10
			return b
		}
		storetest.Rewrite(t, fsys, file, flip)
		var reported atomic.Int64
		db := storetest.OpenCold(t, &bloomkv.Options{
			FS: fsys, ReadOnly: true, FilterFPR: 0.5, Events: bloomkv.Events{Damaged: func(error) { reported.Add(1) }},
		})
		d, err := db.Digest(t.Context(), better)
		if err == nil {
			digests++
			if worse := d.Rate() > whole; worse != (reported.Load() > 0) {
				t.Errorf("byte %d: rate %v of a whole %v, %d reports", at, d.Rate(), whole, reported.Load())
			}
			for i := range uint64(n) {
				if !d.MayContain(digestKey(2 * i)) {
					t.Fatalf("byte %d: key %d is denied", at, i)
				}
			}
		} else if errs++; !errors.Is(err, bloomkv.ErrCorruption) {
			t.Fatalf("byte %d: %v", at, err)
		}
		must(t, db.Close())
		storetest.Rewrite(t, fsys, file, flip)
	}
	if errs == 0 || digests == 0 {
		t.Errorf("%d errors, %d digests", errs, digests)
	}
}

// TestADigestBesideWriters makes digests while keys are written, flushed and compacted. Each has all keys whose write
// had returned before.
func TestADigestBesideWriters(t *testing.T) {
	o := storetest.Tiny(vfstest.NewMem())
	o.Durability = bloomkv.DurabilityNoSync
	db := storetest.Open(t, "db", o)
	defer db.Close()
	var written atomic.Uint64
	done := make(chan error, 1)
	go func() {
		for i := range uint64(20_000) {
			if err := db.Put(digestKey(i), []byte("value")); err != nil {
				done <- err
				return
			}
			written.Store(i + 1)
		}
		done <- nil
	}()
	for made := 0; ; made++ {
		select {
		case err := <-done:
			if err != nil || made == 0 {
				t.Fatalf("%d digests: %v", made, err)
			}
			return
		default:
		}
		n := written.Load()
		d := digestOf(t, db, bloomkv.DigestOptions{FPR: 0.05})
		for i := range n {
			if !d.MayContain(digestKey(i)) {
				t.Fatalf("key %d of %d is denied", i, n)
			}
		}
	}
}

// TestDigestErrorsOfReaders distinguishes damage from an error of the reader.
func TestDigestErrorsOfReaders(t *testing.T) {
	if _, err := digest.Read(strings.NewReader("")); !errors.Is(err, bloomkv.ErrCorruption) {
		t.Errorf("no bytes: %v", err)
	}
	broken := errors.New("broken")
	if _, err := digest.Read(io.MultiReader(strings.NewReader("bloomdig"), errReader{broken})); !errors.Is(err,
		broken) || errors.Is(err, bloomkv.ErrCorruption) {
		t.Errorf("a reader that fails: %v", err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestADigestOfAnImpossibleRateIsRefused(t *testing.T) {
	db := storetest.OpenTiny(t)
	defer db.Close()
	for _, opts := range []bloomkv.DigestOptions{
		{FPR: -1},
		{FPR: 2},
		{FPR: math.NaN()},
		{FPR: 1e-30},
		{FPR: 1e-30, Rebuild: true},
		{FPR: 1e-30, Rebuild: true, Kind: bloomkv.FilterRibbon},
	} {
		if d, err := db.Digest(t.Context(), opts); !errors.Is(err, bloomkv.ErrFilterRate) || d != nil ||
			!strings.HasPrefix(err.Error(), "bloomkv: digest: ") {
			t.Errorf("%+v: %v, want ErrFilterRate", opts, err)
		}
	}
}

// TestARebuildReportsItsProgress counts the keys that Rebuild has read, of versions in tables.
func TestARebuildReportsItsProgress(t *testing.T) {
	db := storetest.OpenTiny(t)
	defer db.Close()
	const keys = 20_000
	var b bloomkv.Batch
	for i := range keys {
		b.Put(fmt.Appendf(nil, "key%05d", i), nil)
	}
	must(t, db.Apply(&b))
	must(t, db.Compact(t.Context(), bloomkv.CompactOptions{}))
	var done []uint64
	_, err := db.Digest(t.Context(), bloomkv.DigestOptions{Rebuild: true, Progress: func(n, total uint64) {
		if done = append(done, n); total != keys {
			t.Errorf("progress: %d of %d keys, want of %d", n, total, keys)
		}
	}})
	must(t, err)
	if len(done) < 2 || !slices.IsSorted(done) || done[len(done)-1] > keys {
		t.Errorf("progress: %d of %d keys", done, keys)
	}
}
