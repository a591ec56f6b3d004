package bloomkv_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

const modulePath = "github.com/bloomkv/bloomkv"

// A room is a directory with Go files. It may import only the rooms that it lists: those on a lower floor, or on its
// own floor where the drawing has an arrow, never above.
type room struct {
	floor int
	knows []string
}

// rooms is the drawing of ARCHITECTURE.md. The root package is ".".
var rooms = map[string]room{
	// the programs, and examples that need modules which the store does not
	"tools/bloomkv": {9, []string{
		".", "backup", "salvage", "tools/debug", "digest", "bloomblock", "internal/sstable", "vfs", "vfs/vfstest",
		"internal/manifest", "internal/filterplan", "internal/forecast", "internal/filename", "tools/cli",
		"internal/compaction", "internal/httpguard", "internal/recovery",
		"tools/internal/inspect", "tools/internal/foreign/minlz", "tools/outfile", "tools/picture",
		"tools/picture/save", "internal/words", "tools/workload", "tools/workload/own",
	}},
	"tools/bloomkv-import":          {9, []string{".", "vfs", "examples/bucket", "tools/cli", "internal/words"}},
	"tools/examples":                {9, []string{".", "bloom", "internal/httpguard", "tools/cli"}},
	"tools/internal/foreign/stores": {9, nil}, // tests of tools/internal/foreign, with the stores' own code
	"replica/cmd/bloomkvd":          {9, []string{"replica", "tools/cli", "internal/httpguard"}},
	"bench": {9, []string{
		".", "internal/forecast", "tools/machine", "tools/cli", "tools/outfile", "tools/picture",
		"tools/picture/save",
		"tools/workload", "tools/workload/own",
	}},
	"bench/compare": {9, []string{
		".", "bloomblock", "tools/machine", "tools/cli", "tools/outfile", "tools/workload", "tools/workload/own",
	}},
	"bench/sets": {9, []string{
		"bloomblock", "bloom", "tools/machine", "tools/cli", "tools/outfile", "tools/picture", "tools/picture/save",
		"tools/workload",
	}},

	// what programs are made of
	"tools/debug": {8, []string{".", "vfs", "tools/internal/inspect", "tools/picture", "internal/words"}},
	"tools/internal/inspect": {8, []string{
		".", "bloomblock", "internal/sstable", "tools/internal/filterexam", "tools/internal/foreign", "vfs",
		"internal/recovery",
		"internal/manifest", "internal/compaction", "internal/filterplan", "internal/forecast", "internal/wal",
		"internal/batch",
		"internal/ikey", "internal/filename", "internal/corrupt", "internal/words", "tools/picture",
	}},
	"tools/workload/own":       {8, []string{".", "tools/workload"}}, // the DB as a workload.Store
	"replica":                  {8, []string{".", "digest", "vfs", "internal/httpguard", "internal/words"}},
	"replica/internal/history": {0, nil}, // what clients saw; only tests import it

	// those that know no store
	"tools/workload":     {7, []string{"internal/words"}},                  // keys, choices and phases of any store
	"tools/picture":      {7, nil},                                         // charts and pages: it measures nothing
	"tools/picture/save": {7, []string{"tools/outfile", "tools/picture"}},  // charts as files, with fonts
	"tools/outfile":      {7, []string{"internal/filename", "vfs"}},        // files named by the user of a program
	"tools/cli":          {7, []string{"internal/words", "tools/outfile"}}, // shared by the command-line programs
	"tools/machine":      {7, nil},                                         // a description of the machine

	"tools/internal/filterexam": {7, []string{"bloomblock"}}, // filter blocks and what they should be

	"tools/internal/foreign":       {7, []string{"internal/corrupt", "internal/words"}}, // tables of other stores
	"tools/internal/foreign/minlz": {7, []string{"tools/internal/foreign"}},             // its module is for a tool

	// The store. "examples" is for the directories below it, of which a program imports one.
	"examples":        {8, []string{".", "backup", "digest", "internal/httpguard"}},
	"examples/bucket": {0, nil},

	"salvage": {7, []string{
		".", "internal/compaction", "internal/recovery", "internal/newstore", "internal/filterplan",
		"internal/manifest", "internal/wal", "internal/sstable", "bloomblock", "vfs", "internal/batch",
		"internal/rangedel", "internal/ikey", "internal/filename", "internal/corrupt", "internal/words",
	}},
	"backup": {7, []string{".", "internal/check", "internal/stream", "internal/corrupt", "internal/words", "vfs"}},

	".": {6, []string{
		"internal/step",
		"internal/intake", "internal/stream",
		"internal/scheduler", "internal/commit", "internal/check", "internal/newstore", "internal/read",
		"internal/budget", "internal/tree", "internal/filterplan", "internal/compaction", "internal/recovery",
		"internal/manifest", "internal/sstable", "digest",
		"bloomblock", "vfs", "internal/batch", "internal/ikey",
		"internal/filename", "internal/corrupt", "internal/words",
	}},

	"internal/read": {4, []string{
		"internal/step",
		"internal/tree", "internal/filterplan", "internal/tablefile", "internal/deadkeys",
		"internal/sstable", "internal/memtable", "digest", "bloomblock", "internal/batch", "internal/merge",
		"internal/rangedel", "internal/epoch", "internal/ikey", "internal/corrupt",
	}},
	"internal/scheduler": {5, []string{
		"internal/step",
		"internal/budget", "internal/tree", "internal/filterplan", "internal/compaction", "internal/manifest",
		"internal/sstable", "bloomblock", "vfs", "internal/batch", "internal/merge", "internal/rangedel",
		"internal/ikey", "internal/filename", "internal/corrupt",
	}},
	"internal/commit": {4, []string{
		"internal/step",
		"internal/tree", "internal/compaction", "internal/manifest", "internal/wal", "internal/memtable",
		"internal/deadkeys", "bloomblock", "vfs", "internal/batch", "internal/ikey", "internal/filename",
		"internal/pages",
	}},
	"internal/check": {4, []string{
		"internal/words",
		"internal/tree", "internal/recovery", "internal/tablefile", "internal/manifest",
		"internal/sstable", "vfs", "internal/merge", "internal/rangedel", "internal/cache", "internal/epoch",
		"internal/ikey", "internal/corrupt",
	}},
	"internal/budget": {4, []string{
		"internal/step",
		"internal/tree", "internal/filterplan", "internal/tablefile", "internal/manifest",
		"internal/sstable", "bloomblock", "vfs", "internal/cache", "internal/epoch", "internal/pages",
	}},

	"internal/intake": {4, []string{
		"internal/tree", "internal/recovery", "internal/newstore", "internal/stream", "internal/tablefile",
		"internal/compaction", "internal/manifest", "internal/sstable", "vfs", "internal/cache", "internal/epoch",
		"internal/filename", "internal/corrupt", "internal/batch", "internal/ikey", "internal/rangedel",
		"internal/words",
	}},

	"internal/forecast": {3, []string{"internal/filterplan", "internal/manifest", "bloomblock"}},

	"internal/tree": {3, []string{
		"internal/step",
		"internal/tablefile", "internal/compaction", "internal/stream", "internal/manifest",
		"internal/sstable", "internal/memtable", "bloomblock", "vfs", "internal/batch", "internal/cache",
		"internal/epoch", "internal/ikey", "internal/filename", "internal/pages",
	}},

	"internal/tablefile":  {2, []string{"internal/step", "vfs", "internal/epoch", "internal/filename"}},
	"internal/filterplan": {2, []string{"internal/manifest", "bloomblock"}},

	"sstable":  {2, []string{"internal/sstable", "bloomblock", "internal/ikey", "internal/corrupt"}},
	"memtable": {2, []string{"internal/memtable", "bloomblock", "internal/ikey"}},

	"internal/compaction": {2, []string{
		"internal/step",
		"internal/manifest", "internal/sstable", "bloomblock", "vfs",
		"internal/merge", "internal/rangedel", "internal/ikey", "internal/filename", "internal/corrupt",
	}},

	"internal/stream": {2, []string{
		"internal/step",
		"internal/manifest", "internal/wal", "bloomblock", "internal/corrupt", "internal/words",
	}},
	"internal/newstore": {2, []string{"internal/manifest", "vfs", "internal/filename", "internal/corrupt"}},
	"internal/recovery": {2, []string{
		"internal/compaction", "internal/memtable", "bloomblock",
		"internal/manifest", "internal/wal", "vfs", "internal/batch", "internal/ikey",
		"internal/filename", "internal/corrupt",
	}},

	"internal/manifest": {1, []string{
		"internal/wal", "vfs", "internal/batch", "internal/ikey", "internal/filename", "internal/corrupt",
		"internal/words",
	}},
	"internal/wal": {1, []string{"internal/step", "internal/corrupt"}},
	"internal/sstable": {1, []string{
		"internal/step",
		"bloomblock", "internal/cache", "internal/epoch", "internal/merge",
		"internal/pages", "internal/prefetch", "internal/rangedel", "internal/ikey", "internal/corrupt",
		"internal/words", "vfs",
	}},
	"internal/memtable": {1, []string{
		"bloomblock", "internal/merge", "internal/prefetch", "internal/rangedel", "internal/ikey", "internal/pages",
	}},
	"bloom":  {1, []string{"bloomblock"}},
	"digest": {1, []string{"bloomblock", "internal/corrupt", "internal/words"}},

	"bloomblock":         {0, nil},
	"vfs":                {0, nil},
	"vfs/vfstest":        {1, []string{"vfs"}}, // file systems for tests
	"internal/deadkeys":  {1, []string{"internal/step", "internal/batch", "internal/ikey"}},
	"internal/merge":     {0, []string{"internal/ikey"}},
	"internal/batch":     {0, []string{"internal/ikey"}},
	"internal/rangedel":  {0, []string{"internal/ikey"}},
	"internal/cache":     {0, []string{"internal/step", "internal/epoch", "internal/pages"}},
	"internal/ikey":      {0, nil},
	"internal/epoch":     {0, []string{"internal/step"}},
	"internal/step":      {-1, nil}, // moments at which goroutines meet
	"internal/prefetch":  {0, nil},
	"internal/filename":  {0, nil},
	"internal/pages":     {0, nil},
	"internal/corrupt":   {0, nil},
	"internal/words":     {0, nil}, // facts as readable text
	"internal/httpguard": {0, nil}, // which requests HTTP servers answer, and for how long
}

// arrows are the imports between two rooms of one floor.
var arrows = [][2]string{
	{"tools/debug", "tools/internal/inspect"},
	{"internal/recovery", "internal/compaction"},
	{"internal/manifest", "internal/wal"},
	{"tools/picture/save", "tools/picture"},
	{"tools/picture/save", "tools/outfile"},
	{"tools/cli", "tools/outfile"},
	{"tools/internal/foreign/minlz", "tools/internal/foreign"},
	{"internal/merge", "internal/ikey"},
	{"internal/rangedel", "internal/ikey"},
	{"internal/batch", "internal/ikey"},
	{"internal/cache", "internal/epoch"},
	{"internal/cache", "internal/pages"},
}

// doors lists where imports from outside the module are allowed: for a module with its packages, or for one package of
// the standard library. A door is a directory with all below it, or one file. A module without a door is for tests
// only.
var doors = map[string][]string{
	"github.com/cespare/xxhash/v2":  {"bloomblock", "tools/internal/foreign"},
	"github.com/google/btree":       {"internal/memtable"},
	"github.com/klauspost/compress": {"internal/sstable/codec.go", "tools/internal/foreign/codec.go"},
	"github.com/minio/minlz":        {"tools/internal/foreign/minlz"},
	"golang.org/x/sys":              {"vfs", "internal/pages", "tools/machine"},
	"golang.org/x/term":             {"tools/cli"},
	"github.com/spf13/cobra": {
		"tools/bloomkv", "tools/bloomkv-import", "tools/cli", "bench", "replica/cmd",
	},
	"github.com/spf13/pflag":              {"tools/cli"},
	"github.com/schollz/progressbar/v3":   {"tools/cli"},
	"gonum.org/v1/plot":                   {"tools/picture/save"},
	"github.com/cockroachdb/pebble/v2":    {"bench/compare", "tools/bloomkv-import"},
	"github.com/syndtr/goleveldb":         {"bench/compare", "tools/bloomkv-import"},
	"github.com/prometheus/client_golang": {"tools/examples/prometheus"},
	"github.com/dgraph-io/badger/v4":      {"bench/compare", "tools/bloomkv-import"},
	"github.com/bits-and-blooms/bloom/v3": {"bench/sets"},
	"github.com/dgraph-io/ristretto/v2":   {"bench/sets"},
	"github.com/holiman/bloomfilter/v2":   {"bench/sets"},
	"go.etcd.io/bbolt":                    {"bench/compare", "tools/bloomkv-import"},
	"github.com/hashicorp/raft":           {"replica"},
	"github.com/hashicorp/go-hclog":       {"replica/options.go"},
	"github.com/anishathalye/porcupine":   {"replica/internal/history"},
	"syscall": {
		"tools/bloomkv", "tools/bloomkv-import", "tools/cli", "tools/machine", "bench", "vfs/errors.go",
		"vfs/lock_unix.go",
	},
	"net/http": {
		"tools/debug", "tools/bloomkv", "examples", "tools/examples", "replica", "internal/httpguard",
	},
	"log": {"examples", "tools/examples", "internal/httpguard"},
	// a library logs only through Options.Logger (log/slog)
	"flag":      {"bench", "examples", "tools/examples"},
	"os/exec":   {"tools/bloomkv", "tools/bloomkv-import", "tools/cli"},
	"os/signal": {"bench", "examples", "tools/cli"},
	"io/ioutil": {},
}

// osNames are the names of package os that touch no file. The others may be used only in vfs.
var osNames = []string{"FileInfo", "FileMode", "LinkError", "ErrNotExist", "ErrClosed", "Hostname"}

// programs are the directories whose packages are not the library: they may open files, print, log and exit.
var programs = []string{
	"tools/bloomkv", "tools/bloomkv-import", "tools/cli", "tools/examples", "tools/machine", "tools/outfile",
	"bench", "examples", "replica/cmd",
}

// unsafePlaces may use package unsafe beyond sizes: internal/epoch to choose a stripe by the address of a local, vfs
// for a system call that takes an address, internal/pages for memory outside the collector's heap, internal/prefetch
// for addresses of memory that may be gone, tools/internal/foreign/stores for C. Sizes are allowed anywhere.
var unsafePlaces = []string{
	"internal/epoch", "internal/pages", "internal/prefetch", "vfs", "tools/internal/foreign/stores",
}

// exampleRooms are rooms whose directories are examples, each a program or a package of its own.
var exampleRooms = []string{"examples", "tools/examples"}

// testOnly are the packages that only tests import. They are no rooms, as tests are none, so no room may import them.
var testOnly = []string{"internal/storetest", "internal/testkit"}

// source is one parsed file other than a test.
type source struct {
	name      string // from the root, with slashes
	room      string // its directory
	generator bool   // "//go:build ignore": run by hand to write a generated file
	file      *ast.File
}

func (s source) program() bool { return s.generator || within(s.name, programs...) }

// within reports whether name is one of the paths or below one.
func within(name string, paths ...string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") })
}

func parseSources(t *testing.T, fset *token.FileSet) []source {
	t.Helper()
	var sources []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if slices.Contains(testOnly, filepath.ToSlash(name)) || name != "." && (base == "testdata" ||
				base == "vendor" || base == "bin" || base[0] == '.' || base[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s := source{name: filepath.ToSlash(name), file: f}
		s.room = path.Dir(s.name)
		for _, dir := range exampleRooms {
			if within(s.room, dir) {
				s.room = dir
			}
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				if c.Pos() < f.Package && constraint.IsGoBuild(c.Text) {
					s.generator = s.generator || strings.TrimSpace(strings.TrimPrefix(c.Text, "//go:build")) == "ignore"
				}
			}
		}
		sources = append(sources, s)
		return nil
	})
	must(t, err)
	if len(sources) == 0 {
		t.Fatal("no Go files found: the test must run in the module's root")
	}
	return sources
}

func TestTheDrawingIsADrawing(t *testing.T) {
	sideways := make(map[[2]string]bool)
	for _, a := range arrows {
		sideways[a] = true
	}
	for name, r := range rooms {
		for _, below := range r.knows {
			to, ok := rooms[below]
			switch {
			case !ok:
				t.Errorf("%s knows %s, which is not a room", name, below)
			case to.floor > r.floor:
				t.Errorf("%s on floor %d may not import %s on floor %d above it", name, r.floor, below, to.floor)
			case to.floor == r.floor && !sideways[[2]string{name, below}]:
				t.Errorf("%s knows %s on the same floor, and there is no arrow", name, below)
			}
			delete(sideways, [2]string{name, below})
		}
	}
	for a := range sideways {
		t.Errorf("the arrow from %s to %s is not needed: the room does not list it", a[0], a[1])
	}
	// If every other import points down, only arrows could form a cycle.
	for _, a := range arrows {
		for _, b := range arrows {
			if a[1] == b[0] {
				t.Errorf("consecutive arrows could form a cycle: %s, %s, %s", a[0], a[1], b[1])
			}
		}
	}
	for _, bad := range []string{"common", "base", "util", "types"} {
		for name := range rooms {
			if path.Base(name) == bad {
				t.Errorf("a room must not be called %s: the name says nothing", name)
			}
		}
	}
}

func TestImportsFollowTheDrawing(t *testing.T) {
	testkit.Long(t)
	fset := token.NewFileSet()
	used := make(map[[2]string]bool)    // by importing room and imported room
	entered := make(map[[2]string]bool) // by key and place of doors
	for _, s := range parseSources(t, fset) {
		r, ok := rooms[s.room]
		if !ok {
			t.Errorf("%s: the directory is not a room of the drawing", s.name)
			continue
		}
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("%s: %v", fset.Position(spec.Pos()), err)
			}
			if imported == modulePath || strings.HasPrefix(imported, modulePath+"/") {
				below := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(imported, modulePath), "/"), ".")
				if ofOneExample(s.name, below) {
					continue
				}
				used[[2]string{s.room, below}] = true
				if !slices.Contains(r.knows, below) && !(s.generator && below == s.room) {
					t.Errorf("%s: %s must not import %s", fset.Position(spec.Pos()), s.room, below)
				}
				continue
			}
			if !mayEnter(s, imported, entered) {
				t.Errorf("%s: %s must not be imported here", fset.Position(spec.Pos()), imported)
			}
		}
	}
	for name, r := range rooms {
		for _, below := range r.knows {
			if !used[[2]string{name, below}] {
				t.Errorf("%s knows %s, and imports it nowhere", name, below)
			}
		}
	}
	for from, places := range doors {
		for _, at := range places {
			if !entered[[2]string{from, at}] {
				t.Errorf("%s may be imported in %s, and is not", from, at)
			}
		}
	}
}

// ofOneExample reports whether a file and a package belong to one example: a directory in a room of examples, with all
// below it.
func ofOneExample(file, pkg string) bool {
	return slices.ContainsFunc(exampleRooms, func(dir string) bool {
		below, ok := strings.CutPrefix(pkg, dir+"/")
		example, _, _ := strings.Cut(below, "/")
		return ok && within(file, path.Join(dir, example))
	})
}

// mayEnter reports whether the file may import a package from outside the module, and marks the doors that allow it.
func mayEnter(s source, imported string, entered map[[2]string]bool) bool {
	door := func(from string) (open bool) {
		for _, at := range doors[from] {
			if within(s.name, at) {
				open, entered[[2]string{from, at}] = true, true
			}
		}
		return open
	}
	if _, ok := doors[imported]; ok && !s.generator {
		return door(imported)
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the first element of a standard library path has no dot
	}
	for module := range doors {
		if within(imported, module) {
			return door(module)
		}
	}
	return false
}

// TestTheStoreRequiresFourModules reads go.mod, which lists what packages and tests of the store need, at any depth.
func TestTheStoreRequiresFourModules(t *testing.T) {
	want := []string{
		"github.com/cespare/xxhash/v2", "github.com/google/btree", "github.com/klauspost/compress", "golang.org/x/sys",
	}
	if got := linesOf(t, "go.mod", `(?m)^(?:require)?\s+(\S+) v`); !slices.Equal(got, want) {
		t.Errorf("the store requires %v, want %v", got, want)
	}
}

// TestTheWorkspaceHasAllModules compares go.work with the go.mod files that there are.
func TestTheWorkspaceHasAllModules(t *testing.T) {
	used := linesOf(t, "go.work", `(?m)^\s+\./?(\S*)$`)
	var modules []string
	must(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "bin" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if path.Base(filepath.ToSlash(name)) == "go.mod" {
			modules = append(modules, strings.TrimPrefix(path.Dir(filepath.ToSlash(name)), "."))
		}
		return err
	}))
	slices.Sort(modules)
	if !slices.Equal(used, modules) {
		t.Errorf("go.work uses %q, and the modules are %q", used, modules)
	}
}

// linesOf returns what the group of the pattern matches in a file.
func linesOf(t *testing.T, name, pattern string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		found = append(found, string(m[1]))
	}
	return found
}

func TestFilesAreTouchedInVFSOnly(t *testing.T) {
	testkit.Long(t)
	fset := token.NewFileSet()
	var used []string // names of package os outside vfs, and the files of programs that touch files
	for _, s := range parseSources(t, fset) {
		if s.room == "vfs" || s.generator {
			continue
		}
		eachSelector(s.file, func(pkg string, sel *ast.SelectorExpr) {
			switch {
			case pkg == "os" && slices.Contains(osNames, sel.Sel.Name):
				used = append(used, sel.Sel.Name)
			case pkg != "os" && (pkg != "path/filepath" ||
				!slices.Contains([]string{"Walk", "WalkDir", "Glob", "EvalSymlinks", "Abs"}, sel.Sel.Name)):
			case s.program():
				used = append(used, s.name)
			default:
				t.Errorf("%s: %s.%s outside vfs", fset.Position(sel.Pos()), path.Base(pkg), sel.Sel.Name)
			}
		})
	}
	allUsed(t, osNames, used)
	allUsed(t, programs, used)
}

// allUsed checks that each permission is one of the used ones, or a directory of some.
func allUsed(t *testing.T, permissions, used []string) {
	t.Helper()
	for _, p := range permissions {
		if !slices.ContainsFunc(used, func(name string) bool { return within(name, p) }) {
			t.Errorf("the permission of %s is used nowhere", p)
		}
	}
}

// A server without limits is kept busy by clients that send nothing, and one that answers for any host is open to the
// pages of all sites.
func TestHTTPServersAreMadeInOnePlace(t *testing.T) {
	testkit.Long(t)
	fset := token.NewFileSet()
	for _, s := range parseSources(t, fset) {
		if s.room == "internal/httpguard" {
			continue
		}
		var timed, guarded bool
		eachSelector(s.file, func(pkg string, sel *ast.SelectorExpr) {
			switch what := sel.Sel.Name; {
			case pkg == modulePath+"/internal/httpguard":
				timed, guarded = timed || what == "Server", guarded || what == "Handler"
			case pkg == "net/http" && slices.Contains([]string{
				"ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS", "Server",
			}, what):
				t.Errorf("%s: http.%s outside internal/httpguard", fset.Position(sel.Pos()), what)
			case pkg == "net/http" && slices.Contains([]string{
				"DefaultClient", "Get", "Head", "Post", "PostForm",
			}, what):
				t.Errorf("%s: http.%s waits for an answer for ever", fset.Position(sel.Pos()), what)
			}
		})
		if timed && !guarded && s.room != "replica/cmd/bloomkvd" { // Node.Handler does it, unless there is a token
			t.Errorf("%s: httpguard.Server without httpguard.Handler", s.name)
		}
	}
}

// Keys have up to 64 KiB, and an error that quotes several takes a quarter of a MiB for each. The magic of a format has
// a fixed length.
func TestErrorsQuoteDataByOneFunctionThatShortensIt(t *testing.T) {
	testkit.Long(t)
	verb := regexp.MustCompile(`%[^a-zA-Z%]*q`)
	fset := token.NewFileSet()
	for _, s := range parseSources(t, fset) {
		if s.program() || within(s.room, "tools/picture", "tools/internal/foreign/stores") {
			continue // names of charts, and keys of tests
		}
		eachCall(s.file, func(name string, args []ast.Expr) {
			for _, arg := range args {
				lit, ok := arg.(*ast.BasicLit)
				if ok && slices.Contains([]string{"Errorf", "Newf", "damaged", "unknown", "wrong"}, name) &&
					verb.MatchString(lit.Value) && !strings.Contains(lit.Value, "magic") {
					t.Errorf("%s: %s, want words.Quoted", fset.Position(lit.Pos()), lit.Value)
				}
			}
		})
	}
}

// A panic is for broken logic, never for data, and names the room that is at fault: its argument begins with a literal
// "room: ", or the comment on its line or the line above contains "broken logic". panic(err) and the like are refused.
func TestTheLibraryIsCalm(t *testing.T) {
	testkit.Long(t)
	fset := token.NewFileSet()
	var unsafely []string // the files that use package unsafe beyond sizes
	for _, s := range parseSources(t, fset) {
		if s.program() {
			continue
		}
		annotated := make(map[int]bool)
		for _, group := range s.file.Comments {
			if strings.Contains(group.Text(), "broken logic") {
				end := fset.Position(group.End()).Line
				annotated[end], annotated[end+1] = true, true
			}
		}
		eachSelector(s.file, func(pkg string, sel *ast.SelectorExpr) {
			what := fmt.Sprintf("%s.%s", path.Base(pkg), sel.Sel.Name)
			switch what {
			case "runtime.Goexit":
				if s.name != "replica/guard.go" { // ends goroutines of raft, which would panic
					t.Errorf("%s: %s in the library", fset.Position(sel.Pos()), what)
				}
			case "os.Exit", "fmt.Print", "fmt.Println", "fmt.Printf":
				t.Errorf("%s: %s in the library", fset.Position(sel.Pos()), what)
			}
			if pkg == "unsafe" && sel.Sel.Name != "Sizeof" {
				unsafely = append(unsafely, s.name)
				if !within(s.name, unsafePlaces...) {
					t.Errorf("%s: %s outside %s", fset.Position(sel.Pos()), what, strings.Join(unsafePlaces, ", "))
				}
			}
		})
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			fun, ok := call.Fun.(*ast.Ident)
			if !ok {
				return true
			}
			switch fun.Name {
			case "print", "println":
				t.Errorf("%s: %s in the library", fset.Position(call.Pos()), fun.Name)
			case "panic":
				if !annotated[fset.Position(call.Pos()).Line] && !namesItsRoom(s.file.Name.Name, call) {
					t.Errorf("%s: a panic must name its room or be marked as broken logic", fset.Position(call.Pos()))
				}
			}
			return true
		})
	}
	allUsed(t, unsafePlaces, unsafely)
}

// namesItsRoom reports whether the first operand of a panic's argument is a string literal that begins with "room: ".
func namesItsRoom(room string, call *ast.CallExpr) bool {
	if len(call.Args) != 1 {
		return false
	}
	arg := call.Args[0]
	if sprintf, ok := arg.(*ast.CallExpr); ok && len(sprintf.Args) > 0 {
		arg = sprintf.Args[0]
	}
	for {
		sum, ok := arg.(*ast.BinaryExpr)
		if !ok {
			break
		}
		arg = sum.X
	}
	lit, ok := arg.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING && strings.HasPrefix(lit.Value[1:], room+": ")
}

// eachCall calls each for every call, with the last name of its function.
func eachCall(f *ast.File, each func(name string, args []ast.Expr)) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			switch fun := call.Fun.(type) {
			case *ast.Ident:
				each(fun.Name, call.Args)
			case *ast.SelectorExpr:
				each(fun.Sel.Name, call.Args)
			}
		}
		return true
	})
}

// eachSelector calls each for every use of a name from an imported package.
func eachSelector(f *ast.File, each func(pkg string, sel *ast.SelectorExpr)) {
	imported := make(map[string]string) // by the name used in this file
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has already refused it
		}
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = p
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok {
			if p, ok := imported[x.Name]; ok {
				each(p, sel)
			}
		}
		return true
	})
}
