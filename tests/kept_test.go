package tests

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/testkit"
)

// keep is set by make kept.
var keep = flag.String("keep", "", "make the kept stores in this new `directory`")

// whatToDo ends the failures of stores that can no longer be read.
const whatToDo = "\nStores in testdata open forever. A changed format has a version of its own and stores of its own " +
	"(make kept DIR=…), and the old ones still open: see testdata/README.md."

// keptDirs returns the directories of kept stores, oldest first.
func keptDirs(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("../testdata/v*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no kept stores in testdata: %v", err)
	}
	number := func(dir string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "v"))
		if err != nil {
			t.Fatalf("%s: want v and a number", dir)
		}
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return number(a) - number(b) })
	return dirs
}

// readTree returns the files below a directory by their paths from there, with slashes.
func readTree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	root := os.DirFS(dir)
	for _, pattern := range []string{"*", "*/*"} {
		names, err := fs.Glob(root, pattern)
		must(t, err)
		for _, name := range names {
			info, err := fs.Stat(root, name)
			must(t, err)
			if info.IsDir() {
				continue
			}
			files[name], err = fs.ReadFile(root, name)
			must(t, err)
		}
	}
	return files
}

func writeTree(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, b := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(name), 0o777)
		if err == nil {
			err = os.WriteFile(name, b, 0o666)
		}
		must(t, err)
	}
}

// storesIn returns the files of the stores in a tree, by the names of the stores.
func storesIn(files map[string][]byte) map[string]map[string][]byte {
	stores := make(map[string]map[string][]byte)
	for name, b := range files {
		if store, file, ok := strings.Cut(name, "/"); ok {
			if stores[store] == nil {
				stores[store] = make(map[string][]byte)
			}
			stores[store][file] = b
		}
	}
	return stores
}

// contentsOf returns the versions and features of all stores of a tree, and of the batch.
func contentsOf(files map[string][]byte) keptContents {
	all := keptContents{versions: make(map[string]int), features: make(map[string]int)}
	for _, store := range storesIn(files) {
		all.add(readContents(store))
	}
	if b := files["batch"]; strings.HasPrefix(string(b), "bkb") {
		all.versions[batchFormat] = int(b[3] - '0')
		all.has("batch in bytes")
		if bytes.HasSuffix(b, []byte("\x04\x0ca short mark")) {
			all.has("mark in a batch in bytes")
		}
	}
	return all
}

// sums returns the list of the files' checksums, as sha256sum prints it.
func sums(files map[string][]byte) []byte {
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != sumsName {
			fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(files[name]), name)
		}
	}
	return out.Bytes()
}

const sumsName = "SHA256SUMS"

// TestMakeKeptStores makes a directory of kept stores with -keep, and does nothing without.
func TestMakeKeptStores(t *testing.T) {
	if *keep == "" {
		t.Skip("without -keep")
	}
	if _, err := os.Lstat(*keep); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is there already, and kept stores do not change: %v", *keep, err)
	}
	files := makeKept(t)
	files[sumsName] = sums(files)
	writeTree(t, *keep, files)
}

// TestKeptStoresAreAsTheyWere compares the bytes of the kept stores with their checksums.
func TestKeptStoresAreAsTheyWere(t *testing.T) {
	for _, dir := range keptDirs(t) {
		files := readTree(t, dir)
		if got, want := sums(files), files[sumsName]; !bytes.Equal(got, want) {
			t.Errorf("%s was changed; git checkout %[1]s restores it. Its files have the sums\n%s\nwant\n%s",
				dir, got, want)
		}
	}
}

// TestKeptStoresHaveAllOfTheFormat checks that the newest kept stores have every feature of the format and are small.
func TestKeptStoresHaveAllOfTheFormat(t *testing.T) {
	dirs := keptDirs(t)
	newest := dirs[len(dirs)-1]
	files := readTree(t, newest)
	size := 0
	for _, b := range files {
		size += len(b)
	}
	if size > keptSize {
		t.Errorf("%s has %d bytes, want at most %d", newest, size, keptSize)
	}
	c := contentsOf(files)
	if missing := c.lacks(wantedFeatures); len(missing) > 0 {
		t.Errorf("%s lacks: %s", newest, strings.Join(missing, ", "))
	}
	for feature := range c.features {
		if !slices.Contains(wantedFeatures, feature) {
			t.Errorf("%s has a feature that wantedFeatures lacks: %s", newest, feature)
		}
	}
	for _, name := range []string{"closed", "killed"} {
		list := string(files[name+".txt"])
		for _, line := range []string{"\"\" = \"the empty key\"\n", "\"empty value\" = \"\"\n"} {
			if !strings.Contains(list, line) {
				t.Errorf("%s: %s.txt has no line %s", newest, name, line)
			}
		}
	}
	for _, key := range []string{fmt.Sprintf("\n%d:", bloomkv.MaxKeySize), " = 49152:"} {
		if !strings.Contains(string(files["closed.txt"]), key) {
			t.Errorf("%s: closed.txt has no %q: a key of maximal length, a large value", newest, key)
		}
	}
}

// TestAChangedFormatBringsKeptStoresOfItsOwn builds new stores and checks that they have no version and no feature that
// the newest kept stores lack, and that testdata/README.md lists the versions of the formats.
func TestAChangedFormatBringsKeptStoresOfItsOwn(t *testing.T) {
	testkit.LongUnderRace(t)
	dirs := keptDirs(t)
	newest := dirs[len(dirs)-1]
	kept, made := contentsOf(readTree(t, newest)), contentsOf(makeKept(t))
	if !maps.Equal(kept.versions, made.versions) {
		t.Errorf("%s has the formats %v, and new stores have %v%s", newest, kept.versions, made.versions, whatToDo)
	}
	if missing := kept.lacks(slices.Collect(maps.Keys(made.features))); len(missing) > 0 {
		t.Errorf("new stores have what %s lacks: %s%s", newest, strings.Join(missing, ", "), whatToDo)
	}
	if missing := made.lacks(wantedFeatures); len(missing) > 0 {
		t.Errorf("the stores that makeKept makes lack: %s", strings.Join(missing, ", "))
	}
	readme, err := os.ReadFile("../testdata/README.md")
	must(t, err)
	for i, dir := range dirs {
		for format, version := range contentsOf(readTree(t, dir)).versions {
			if got := versionInTable(string(readme), format, i); got != strconv.Itoa(version) {
				t.Errorf("testdata/README.md: %s of %s has version %q, want %d", format, dir, got, version)
			}
		}
	}
}

// versionInTable returns the version in the row of a format, in the column of the directory with that index.
func versionInTable(text, format string, dir int) string {
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) > 3+dir && strings.TrimSpace(cells[1]) == format {
			return strings.TrimSpace(cells[3+dir])
		}
	}
	return ""
}

// TestKeptStoresOpen opens every kept store where it is, to read, and a copy of it, to write.
func TestKeptStoresOpen(t *testing.T) {
	testkit.LongUnderRace(t)
	for _, dir := range keptDirs(t) {
		files := readTree(t, dir)
		for name, store := range storesIn(files) {
			list := string(files[name+".txt"])
			t.Run(filepath.Base(dir)+"/"+name+"/to read", func(t *testing.T) {
				keptReads(t, filepath.Join(dir, name), list, readContents(store).features)
				if now := storesIn(readTree(t, dir))[name]; !maps.EqualFunc(store, now, bytes.Equal) {
					t.Error("a store that was opened with ReadOnly has changed")
				}
			})
			t.Run(filepath.Base(dir)+"/"+name+"/to write", func(t *testing.T) {
				at := filepath.Join(t.TempDir(), "db")
				writeTree(t, at, store)
				keptWrites(t, at, list, nil)
			})
		}
		t.Run(filepath.Base(dir)+"/batch", func(t *testing.T) {
			var b bloomkv.Batch
			if err := b.UnmarshalBinary(files["batch"]); err != nil {
				t.Fatalf("%v%s", err, whatToDo)
			}
			if got, want := string(listOps(&b)), string(files["batch.txt"]); got != want {
				t.Errorf("the batch has\n%s\nwant\n%s%s", got, want, whatToDo)
			}
		})
	}
}

// TestKeptStoresOpenWithLittleMemory does the same with memory for parts of the filters, and for none at all: then they
// are asked in their files.
func TestKeptStoresOpenWithLittleMemory(t *testing.T) {
	testkit.Long(t)
	for _, dir := range keptDirs(t) {
		files := readTree(t, dir)
		for name, store := range storesIn(files) {
			t.Run(filepath.Base(dir)+"/"+name, func(t *testing.T) {
				list := string(files[name+".txt"])
				for _, left := range []int64{0, 2 << 10, 8 << 10} {
					r := littleMemory(t, left)
					db := openKept(t, filepath.Join(dir, name), &bloomkv.Options{ReadOnly: true, Resources: r})
					compareKept(t, db, list)
					m := filtersExclude(t, db)
					if got := db.Metrics().Memory.Filters; got > left || left == 0 && m.Lookups.FilterParts == 0 {
						t.Errorf("%d bytes left: filters take %d, and %d pages were asked", left, got,
							m.Lookups.FilterParts)
					}
					must(t, db.Close())
				}
				at := filepath.Join(t.TempDir(), "db")
				writeTree(t, at, store)
				keptWrites(t, at, list, &bloomkv.Options{
					Resources: littleMemory(t, 256<<10), MemtableSize: 128 << 10,
					FilterKind: bloomkv.FilterBloom,
				})
			})
		}
	}
}

// keptReads opens a store with ReadOnly, with and without the rules of its prefix filters.
func keptReads(t *testing.T, dir, list string, features map[string]int) {
	t.Helper()
	for rule, feature := range map[bloomkv.PrefixRule]string{
		{}:                              "",
		bloomkv.PrefixLen(5):            "prefix filter by length",
		bloomkv.PrefixSeparator('/', 1): "prefix filter by separator",
	} {
		db := openKept(t, dir, &bloomkv.Options{ReadOnly: true, FilterPrefix: rule})
		compareKept(t, db, list)
		filtersAnswer(t, db)
		prefixFiltersAnswer(t, db, features[feature] > 0)
		must(t, db.Close())
	}
	if _, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{}); err != nil {
		t.Errorf("Check: %v%s", err, whatToDo)
	}
}

// keptWrites opens a copy of a store to write, with the given options, changes and compacts it, and opens it with the
// default options at last.
func keptWrites(t *testing.T, dir, list string, o *bloomkv.Options) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v%s", err, whatToDo)
		}
	}
	for _, work := range []func(db *bloomkv.DB) error{
		func(db *bloomkv.DB) error { _, err := db.Check(t.Context(), bloomkv.CheckOptions{}); return err },
		func(db *bloomkv.DB) error { return errors.Join(db.Put([]byte("new"), nil), db.Delete([]byte("new"))) },
		func(db *bloomkv.DB) error { return db.Compact(t.Context(), bloomkv.CompactOptions{}) },
		func(db *bloomkv.DB) error { return db.Compact(t.Context(), bloomkv.CompactOptions{Rewrite: true}) },
	} {
		db := openKept(t, dir, o)
		compareKept(t, db, list)
		must(work(db))
		compareKept(t, db, list)
		must(db.Close())
		_, err := bloomkv.Check(t.Context(), dir, bloomkv.CheckOptions{})
		must(err)
	}
	db := openKept(t, dir, &bloomkv.Options{ErrorIfMissing: true})
	compareKept(t, db, list)
	filtersAnswer(t, db)
	must(db.Close())
}

func openKept(t *testing.T, dir string, o *bloomkv.Options) *bloomkv.DB {
	t.Helper()
	db, err := bloomkv.Open(dir, o)
	if err != nil {
		t.Fatalf("%v%s", err, whatToDo)
	}
	return db
}

// compareKept compares what a store holds with its list: by a scan in each direction, and by lookups.
func compareKept(t *testing.T, db *bloomkv.DB, list string) {
	t.Helper()
	var keys [][]byte
	held := listPairs(func(yield func(key, value string) bool) {
		for kv, err := range db.Scan(bloomkv.IterOptions{}) {
			if err != nil {
				t.Fatalf("%v%s", err, whatToDo)
			}
			keys = append(keys, bytes.Clone(kv.Key))
			if !yield(string(kv.Key), string(kv.Value)) {
				return
			}
		}
	})
	var gone strings.Builder
	for line := range strings.Lines(list) {
		quoted, absent := strings.CutSuffix(line, " absent\n")
		if !absent {
			continue
		}
		gone.WriteString(line)
		key, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if _, err := db.Get([]byte(key)); !errors.Is(err, bloomkv.ErrNotFound) {
			t.Errorf("Get of %q: %v, want it absent%s", key, err, whatToDo)
		}
	}
	mark, err := db.Mark()
	if err != nil {
		t.Fatalf("%v%s", err, whatToDo)
	}
	if all := held + gone.String() + listMark(string(mark)); all != list {
		t.Fatalf("the store holds\n%s\nwant\n%s%s", all, list, whatToDo)
	}

	i := 0
	found := listPairs(func(yield func(key, value string) bool) {
		for ; i < len(keys); i++ {
			value, err := db.Get(keys[i])
			if err != nil {
				t.Fatalf("Get of %q: %v%s", shown(string(keys[i])), err, whatToDo)
			}
			yield(string(keys[i]), string(value))
		}
	})
	if found != held {
		t.Errorf("lookups return\n%s\nwant\n%s%s", found, held, whatToDo)
	}
	it := db.Iter(bloomkv.IterOptions{})
	for key := range it.Backward() {
		if i--; i < 0 || !bytes.Equal(key, keys[i]) {
			t.Fatalf("backward, key %q is out of order%s", key, whatToDo)
		}
	}
	if err := it.Close(); err != nil || i != 0 {
		t.Errorf("backward, %d keys are missing: %v%s", i, err, whatToDo)
	}
}

// filtersAnswer checks that the filters of a store are in memory and exclude most absent keys.
func filtersAnswer(t *testing.T, db *bloomkv.DB) {
	t.Helper()
	filtersExclude(t, db)
	for _, table := range db.Tables() {
		if table.FilterBytes > 0 && table.FilterUnits == 0 {
			t.Errorf("%s: nothing of its filter is in memory", table.File)
		}
	}
}

// filtersExclude checks that the filters of a store exclude most absent keys, wherever they are asked, and returns what
// that took.
func filtersExclude(t *testing.T, db *bloomkv.DB) bloomkv.Metrics {
	t.Helper()
	for !db.Metrics().Warm {
		time.Sleep(time.Millisecond)
	}
	before := db.Metrics()
	const lookups = 2000
	for i := range lookups {
		if ok, err := db.Has(fmt.Appendf(nil, "banana/%04d/absent", i)); ok || err != nil {
			t.Fatalf("an absent key: %v, %v", ok, err)
		}
	}
	m := db.Metrics().Since(before)
	for _, table := range db.Tables() {
		if table.FilterDamaged {
			t.Errorf("%s: its filter is damaged", table.File)
		}
	}
	if l := m.Lookups; l.FilterNegatives < lookups/2 || l.FalsePositives > l.FilterProbes/20 {
		t.Errorf("filters gave %d negatives and %d false positives in %d answers%s",
			l.FilterNegatives, l.FalsePositives, l.FilterProbes, whatToDo)
	}
	return m
}

// prefixFiltersAnswer checks that the prefix filters exclude absent prefixes, and whether there are any.
func prefixFiltersAnswer(t *testing.T, db *bloomkv.DB, has bool) {
	t.Helper()
	before := db.Metrics()
	for i := range 50 {
		for kv, err := range db.Scan(bloomkv.IterOptions{Prefix: fmt.Appendf(nil, "b%04d/", i)}) {
			t.Fatalf("a key of an absent prefix: %q, %v", kv.Key, err)
		}
	}
	p := db.Metrics().Since(before).Prefixes
	if has && p.Probes == 0 || p.Negatives < p.Probes*9/10 {
		t.Errorf("prefix filters excluded %d of %d absent prefixes; the files have such filters: %v%s",
			p.Negatives, p.Probes, has, whatToDo)
	}
}
