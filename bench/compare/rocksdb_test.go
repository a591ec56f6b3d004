//go:build rocksdb

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bloomkv/bloomkv/tools/workload"
)

func openNative(t *testing.T) *rocksdbStore {
	t.Helper()
	e, err := openRocksdb(filepath.Join(t.TempDir(), "store"), settings{cache: 8 << 20, memtable: memtableBytes})
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	s, ok := e.(*rocksdbStore)
	if !ok {
		t.Fatalf("the engine is %T", e)
	}
	return s
}

// sized returns the value of a key, of n bytes.
func sized(key string, n int) []byte { return bytes.Repeat([]byte(key), n/len(key)+1)[:n] }

// sizes are those of values that fit where they are copied to, and of others.
var sizes = []int{0, 1, 100, partBytes - packHead - len("k00"), partBytes, 3 * partBytes, 5}

func sizedKey(i int) string { return fmt.Sprintf("k%02d", i) }

func putSizes(t *testing.T, s *rocksdbStore) {
	t.Helper()
	for i, n := range sizes {
		must(t, s.Put([]byte(sizedKey(i)), sized(sizedKey(i), n)))
	}
}

func TestRocksdbSettingsAreThoseOfAll(t *testing.T) {
	s := openNative(t)
	files, err := filepath.Glob(filepath.Join(s.dir, "OPTIONS-*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of options, %v", len(files), err)
	}
	page, err := os.ReadFile(files[len(files)-1])
	must(t, err)
	set := make(map[string]string)
	for line := range strings.Lines(string(page)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			set[name] = value
		}
	}
	for name, want := range map[string]string{
		"write_buffer_size":                  strconv.Itoa(memtableBytes),
		"max_write_buffer_number":            "2",
		"level0_file_num_compaction_trigger": strconv.Itoa(levelZeroRuns),
		"max_bytes_for_level_base":           strconv.Itoa(baseLevelBytes),
		"max_bytes_for_level_multiplier":     "10.000000",
		"target_file_size_base":              strconv.Itoa(tableBytes),
		"target_file_size_multiplier":        "1",
		"max_background_jobs":                strconv.Itoa(background),
		"compression":                        "kNoCompression",
		"block_size":                         strconv.Itoa(blockBytes),
		"filter_policy":                      "bloomfilter",
		"optimize_filters_for_hits":          "false",
		"no_block_cache":                     "false",
		"manual_wal_flush":                   "false",
	} {
		if got := set[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	// What the options leave out, bits per key, from the properties at the end of a table. There "rocksdb.filter.size",
	// as what it does not share with the name before it, follows the policy: lengths, the rest of the name, and a
	// varint.
	const keys = 10_000
	for i := range keys {
		must(t, s.Put(fmt.Appendf(nil, "%05d", i), nil))
	}
	must(t, s.Flush(t.Context()))
	_, page = onlyTable(t, s)
	_, property, found := bytes.Cut(page, []byte("policybloomfilter\x0f\x04\x02size"))
	filter, n := binary.Uvarint(property)
	if bits := float64(filter) * 8 / keys; !found || n <= 0 || bits < filterBits || bits > filterBits+0.2 {
		t.Errorf("%v bits per key, want %d", bits, filterBits)
	}
}

// onlyTable returns the only table of a store.
func onlyTable(t *testing.T, s *rocksdbStore) (file string, page []byte) {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(s.dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatalf("%d tables, want 1; %v", len(tables), err)
	}
	page, err = os.ReadFile(tables[0])
	must(t, err)
	return tables[0], page
}

func TestRocksdbVersionSaysWhatACallTakes(t *testing.T) {
	version := rocksdbEngines()[0].version()
	var release, ns int
	rest := version
	if at := strings.LastIndex(version, "takes "); at >= 0 {
		rest = version[at:]
	}
	_, err := fmt.Sscanf(version, "%d.", &release)
	if _, also := fmt.Sscanf(rest, "takes %d ns", &ns); err != nil || also != nil || release < 7 || ns <= 0 {
		t.Errorf("version %q", version)
	}
}

func TestRocksdbValuesFitOrAreFetched(t *testing.T) {
	s := openNative(t)
	putSizes(t, s)
	for i, n := range sizes {
		key := sizedKey(i)
		for _, free := range []int{0, 1, n, n + 1} {
			dst := append(make([]byte, 0, 4+free), "head"...)
			got, found, err := s.AppendGet(dst, []byte(key))
			if want := append([]byte("head"), sized(key, n)...); err != nil || !found || !bytes.Equal(got, want) {
				t.Errorf("%d bytes with space for %d: %d bytes, %t, %v", n, free, len(got), found, err)
			}
		}
	}
	if got, found, err := s.AppendGet([]byte("head"), []byte("k")); err != nil || found || string(got) != "head" {
		t.Errorf("an absent key: %q, %t, %v", got, found, err)
	}
}

func TestRocksdbScansGoOverTheEndsOfParts(t *testing.T) {
	s := openNative(t)
	putSizes(t, s)
	const small = 2000 // pairs, which take some parts
	for i := range small {
		must(t, s.Put(fmt.Appendf(nil, "m%05d", i), sized("m", 100)))
	}
	all := small + len(sizes)
	name := func(i int) string {
		if i < len(sizes) {
			return sizedKey(i)
		}
		return fmt.Sprintf("m%05d", i-len(sizes))
	}
	kept, err := s.kept()
	must(t, err)
	if err := s.Put([]byte("n"), nil); err != nil { // not seen by what is kept
		t.Fatal(err)
	}
	for _, store := range []struct {
		name string
		workload.Store
		len int
	}{{"the store", s, all + 1}, {"what is kept", kept, all}} {
		for _, from := range []int{all - 1, 0, 3, len(sizes), all - 1} {
			for _, limit := range []int{0, 1, 2, 10, 600, 100_000} {
				n, stop := 0, errors.New("stop")
				err := store.Scan([]byte(name(from)), limit, func(key, value []byte) error {
					at := from + n
					n++
					switch {
					case at == all:
						if string(key) != "n" || len(value) > 0 {
							t.Errorf("%s: at %d %q, %d bytes, want n", store.name, at, key, len(value))
						}
					case string(key) != name(at) ||
						at < len(sizes) && !bytes.Equal(value, sized(name(at), sizes[at])) ||
						at >= len(sizes) && !bytes.Equal(value, sized("m", 100)):
						t.Errorf("%s: at %d %q, %d bytes", store.name, at, key, len(value))
						return stop
					}
					return nil
				})
				want := store.len - from
				if limit > 0 {
					want = min(want, limit)
				}
				if err != nil || n != want {
					t.Errorf("%s from %d, limit %d: %d pairs, want %d; %v", store.name, from, limit, n, want, err)
				}
				n = 0
				err = store.Scan([]byte(name(from)), limit, func([]byte, []byte) error { n++; return stop })
				if !errors.Is(err, stop) || n != 1 {
					t.Errorf("%s: after %d calls %v, want one and %v", store.name, n, err, stop)
				}
			}
		}
	}
	if err := kept.end(); err != nil {
		t.Error(err)
	}
}

func TestRocksdbWritesAreThereAfterReopen(t *testing.T) {
	s := openNative(t)
	var wait sync.WaitGroup
	set, err := workload.NewGenerated(workload.Random, 4000, 1, 100)
	must(t, err)
	for _, batch := range []int{0, 300} { // one by one, and in batches
		wait.Go(func() {
			if _, err := workload.Run(t.Context(), s, set,
				workload.Phase{Kind: workload.Load, Batch: batch, Workers: 4}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	must(t, errors.Join(s.PutSync([]byte("b"), []byte("durable")), s.Put([]byte("c"), nil)))
	opening, err := s.Reopen()
	if err != nil || opening <= 0 {
		t.Fatalf("opened again in %v, %v", opening, err)
	}
	for key, want := range map[string]string{"b": "durable", "c": "", "d": ""} {
		got, found, err := s.AppendGet(nil, []byte(key))
		if err != nil || found != (key != "d") || string(got) != want {
			t.Errorf("%s: %q, %t, %v, want %q", key, got, found, err, want)
		}
	}
	if err := errors.Join(s.Flush(t.Context()), s.Compact(t.Context()), s.Settle(t.Context())); err != nil {
		t.Error(err)
	}
	f, err := workload.Run(t.Context(), s, set, workload.Phase{Kind: workload.Present}, nil)
	if err != nil || f.Wrong > 0 || f.Ops != 4000 {
		t.Errorf("%d looked up, %d wrong, %v", f.Ops, f.Wrong, err)
	}
}

func TestRocksdbBatchesHoldWhatIsTheirOwn(t *testing.T) {
	s := openNative(t)
	var sets [2]*workload.Generated
	for i := range sets { // the second load uses the batches of the first again
		set, err := workload.NewGenerated(workload.Random, 30, uint64(i), 10)
		must(t, err)
		_, err = workload.Run(t.Context(), s, set, workload.Phase{Kind: workload.Load, Batch: 10}, nil)
		must(t, err)
		sets[i] = set
		for k := range sets[0].Len() {
			if key := sets[0].AppendKey(nil, k); i == 0 {
				must(t, s.Put(key, []byte("newer")))
			} else if got, _, err := s.AppendGet(nil, key); string(got) != "newer" || err != nil {
				t.Errorf("key %d: %q, %v, want newer: a batch put the pairs of the one before again", k, got, err)
			}
		}
	}
}

func TestRocksdbCompactsIntoOneTable(t *testing.T) {
	s := openNative(t)
	for range 3 {
		putSizes(t, s)
		must(t, s.Flush(t.Context()))
	}
	if tables, err := filepath.Glob(filepath.Join(s.dir, "*.sst")); err != nil || len(tables) != 3 {
		t.Errorf("%d tables, want 3; %v", len(tables), err)
	}
	if err := errors.Join(s.Compact(t.Context()), s.Settle(t.Context())); err != nil {
		t.Error(err)
	}
	onlyTable(t, s)
}

func TestRocksdbErrorsAreReturned(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := openRocksdb(file, settings{cache: 1 << 20, memtable: memtableBytes}); err == nil ||
		!strings.Contains(err.Error(), "rocksdb: ") {
		t.Errorf("a file where the directory should be: %v", err)
	}
	s := openNative(t)
	second, err := openRocksdb(s.dir, settings{cache: 1 << 20, memtable: memtableBytes})
	if err == nil || second != nil || !strings.Contains(err.Error(), "LOCK") {
		t.Errorf("a store that is open: %v", err)
	}

	// A block that was changed on disk.
	putSizes(t, s)
	must(t, s.Flush(t.Context()))
	table, page := onlyTable(t, s)
	must(t, s.Close())
	page[10] ^= 1
	must(t, os.WriteFile(table, page, 0o600))
	must(t, s.open())
	key := []byte(sizedKey(0))
	each := func([]byte, []byte) error { return nil }
	_, _, got := s.AppendGet(nil, key)
	for what, err := range map[string]error{
		"AppendGet": got,
		"Scan":      s.Scan(nil, 0, each),
	} {
		if err == nil || !strings.Contains(err.Error(), "orruption") {
			t.Errorf("%s in a damaged table: %v", what, err)
		}
	}
	putSizes(t, s)
	if err := errors.Join(s.Flush(t.Context()), s.Compact(t.Context())); err != nil {
		t.Error(err)
	}
	if err := s.Settle(t.Context()); err == nil || !strings.Contains(err.Error(), "in the background") {
		t.Errorf("a compaction of a damaged table: %v", err)
	}
}

func TestLoopsInCAnswerLikeCalls(t *testing.T) {
	s := openNative(t)
	putSizes(t, s)
	keys := workload.Packed{KeyEnds: []int{0}}
	for _, key := range []string{"absent", "k06", "k05", "k00", "k015", "k01"} {
		keys.Keys = append(keys.Keys, key...)
		keys.KeyEnds = append(keys.KeyEnds, len(keys.Keys))
	}
	for _, kept := range []bool{false, true} {
		v := s.loops(kept)
		l, ok := v.Store.(workload.Looper)
		if !ok {
			t.Fatalf("%T has no loops", v.Store)
		}
		answers := workload.Packed{KeyEnds: []int{0}, ValueEnds: []int{0}}
		found := make([]bool, 6)
		must(t, l.LoopGet(&keys, &answers, found))
		if want := []bool{false, true, true, true, false, true}; !slices.Equal(found, want) {
			t.Errorf("found %v, want %v", found, want)
		}
		for i, key := range []string{"", "k06", "k05", "k00", "", "k01"} {
			got, want := valueAt(&answers, i), ""
			if key != "" {
				want = string(sized(key, sizes[key[2]-'0']))
			}
			if got != want {
				t.Errorf("value %d has %d bytes, want %d", i, len(got), len(want))
			}
		}
		answers = workload.Packed{KeyEnds: []int{0}, ValueEnds: []int{0}}
		counts := make([]int, 6)
		must(t, l.LoopSeek(&keys, &answers, 3, counts))
		if want := []int{3, 1, 2, 3, 3, 3}; !slices.Equal(counts, want) {
			t.Errorf("counts %v, want %v", counts, want)
		}
		want := "k00k01k02" + "k06" + "k05k06" + "k00k01k02" + "k02k03k04" + "k01k02k03"
		if string(answers.Keys) != want {
			t.Errorf("sought %q, want %q", answers.Keys, want)
		}
		for i := range 3 {
			if got, want := valueAt(&answers, i), sized(sizedKey(i), sizes[i]); got != string(want) {
				t.Errorf("pair %d: a value of %d bytes, want %d", i, len(got), len(want))
			}
		}
		for _, n := range []int{1, 2, 7, 8} {
			var scanned string
			answers = workload.Packed{KeyEnds: []int{0}, ValueEnds: []int{0}}
			must(t, l.LoopScan(&answers, n, func() error {
				if len(answers.KeyEnds) > n+1 {
					t.Errorf("%d pairs at once, want at most %d", len(answers.KeyEnds)-1, n)
				}
				scanned += string(answers.Keys) + strconv.Itoa(len(answers.Values)) + " "
				answers = workload.Packed{KeyEnds: answers.KeyEnds[:1], ValueEnds: answers.ValueEnds[:1]}
				return nil
			}))
			want := fmt.Sprintf("k000 k011 k02100 k03%d k04%d k05%d k065 0 ", sizes[3], sizes[4], sizes[5])
			if n == 1 && scanned != want {
				t.Errorf("scanned %q, want %q", scanned, want)
			}
			if keys := strings.Count(scanned, "k"); keys != len(sizes) {
				t.Errorf("%d at once: %d keys, want %d", n, keys, len(sizes))
			}
		}
		must(t, v.end())
	}
}

// valueAt returns value i.
func valueAt(p *workload.Packed, i int) string {
	return string(p.Values[p.ValueEnds[i]:p.ValueEnds[i+1]])
}
