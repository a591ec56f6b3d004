package tablefile

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/internal/epoch"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// newMappingPool returns a pool of at most limit descriptors and maxMapped bytes of mapped files.
func newMappingPool(limit int, maxMapped int64) *Pool {
	p := NewPool(limit)
	p.MaxMapped = maxMapped
	return p
}

// createFile returns a new file with the given contents.
func createFile(t *testing.T, files *Dir, number uint64, contents string) *File {
	t.Helper()
	f := files.File(number)
	made, err := files.fs.Create(f.Path)
	if err == nil {
		_, err = made.Write([]byte(contents))
	}
	must(t, err)
	return f
}

// openFile returns a new file with the given contents, which is open.
func openFile(t *testing.T, files *Dir, number uint64, contents string) *File {
	t.Helper()
	f := createFile(t, files, number, contents)
	if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
		t.Fatal(err)
	}
	return f
}

// openABC returns a new file with the contents "abc", which is open.
func openABC(t *testing.T, files *Dir) *File {
	t.Helper()
	return openFile(t, files, 1, "abc")
}

func TestAMappingNeedsNoDescriptor(t *testing.T) {
	mem := vfstest.NewMem()
	d := new(epoch.Domain)
	files := newMappingPool(1, 100).NewDir(mem, ".", d)
	var of [2]*File
	for i := range of {
		of[i] = createFile(t, files, uint64(i)+1, string(rune('a'+i))+"bc")
	}
	read := func(f *File) {
		if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
			t.Error(err)
		}
	}
	if b := of[0].Mapped(0, 1, false); b != nil {
		t.Errorf("a file that is not open is in memory: %q", b)
	}
	read(of[0])
	b := of[0].Mapped(0, 2, true)
	if string(b) != "ab" || cap(b) != 2 {
		t.Errorf("got %q of capacity %d, want the first two bytes", b, cap(b))
	}
	for _, outside := range [][2]int{{2, 2}, {0, 4}, {4, 0}} {
		if b := of[0].Mapped(int64(outside[0]), outside[1], false); b != nil {
			t.Errorf("%d bytes at %d, beyond the end: %q", outside[1], outside[0], b)
		}
	}
	read(of[1]) // takes the descriptor
	d.Wait()
	if again := of[0].Mapped(1, 2, true); of[0].IsOpen() || string(again) != "bc" || string(b) != "ab" {
		t.Errorf("without a descriptor: %q and %q, open: %v", again, b, of[0].IsOpen())
	}
	must(t, of[0].Close())
	must(t, of[0].Close())
	if n, _ := files.Count(); of[0].Mapped(0, 1, false) != nil || string(b) == "ab" || n != 1 {
		t.Errorf("after Close of the file, twice: %q, %d files, want 1", b, n)
	}
	c := of[1].Mapped(0, 1, false)
	must(t, files.Close())
	if of[1].Mapped(0, 1, false) != nil || string(c) == "b" {
		t.Errorf("after Close of the directory: %q", c)
	}
}

// A denier has files that cannot be mapped while denied is true.
type denier struct {
	vfs.FS

	denied bool
	asked  int    // calls of Map
	sized  int    // calls of Size
	last   [2]int // what InMemory was asked for last
}

type denierFile struct {
	vfs.File

	d *denier
}

func (d *denier) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return denierFile{f, d}, err
}

func (f denierFile) Map(n int) (vfs.Mapping, error) {
	f.d.asked++
	if f.d.denied {
		return nil, errors.New("no memory")
	}
	m, err := f.File.(vfs.Mapper).Map(n) //nolint:errcheck // files in memory can be mapped
	return denierMapping{m, f.d}, err
}

func (f denierFile) Size() (int64, error) {
	f.d.sized++
	return f.File.Size()
}

type denierMapping struct {
	vfs.Mapping

	d *denier
}

func (m denierMapping) InMemory(from, to int) bool {
	m.d.last = [2]int{from, to}
	return m.Mapping.InMemory(from, to)
}

func TestAFileThatCannotBeMappedIsTriedAgain(t *testing.T) {
	defer func(last time.Duration) { mapAgain = last }(mapAgain)
	mapAgain = time.Hour
	fsys := &denier{FS: vfstest.NewMem(), denied: true}
	pool := newMappingPool(1, 6)
	files := pool.NewDir(fsys, ".", new(epoch.Domain))
	f := openABC(t, files)
	for range 3 {
		if b := f.Mapped(0, 3, false); b != nil || fsys.asked != 1 || pool.Mapped() != 0 {
			t.Errorf("got %q, asked %d times, want once", b, fsys.asked)
		}
	}
	f.mapping.Load().again = time.Now().Add(-1) // nobody else reads the file
	mapAgain = -1
	for n := range 3 {
		if b := f.Mapped(0, 3, false); b != nil || fsys.asked != n+2 {
			t.Errorf("got %q, asked %d times, want %d", b, fsys.asked, n+2)
		}
	}
	fsys.denied = false
	for range 3 {
		if b := f.Mapped(0, 3, false); string(b) != "abc" || fsys.asked != 5 || pool.Mapped() != 3 {
			t.Errorf("got %q, asked %d times, want 5", b, fsys.asked)
		}
	}
	if err := files.Close(); err != nil || pool.Mapped() != 0 || pool.mappings.Load() != 0 {
		t.Errorf("%v, %d mappings of %d bytes", err, pool.mappings.Load(), pool.Mapped())
	}
}

// TestAReaderThatComesLateMapsNothing is of readers that found no mapping, and then waited for another reader or Close.
func TestAReaderThatComesLateMapsNothing(t *testing.T) {
	fsys := &denier{FS: vfstest.NewMem()}
	pool := newMappingPool(1, 9)
	files := pool.NewDir(fsys, ".", new(epoch.Domain))
	f := openABC(t, files)
	if b := f.Mapped(1, 2, true); string(b) != "bc" || fsys.last != [2]int{1, 3} {
		t.Errorf("got %q, asked whether %v is in memory, want 1 to 3", b, fsys.last)
	}
	if m := f.tryMap(nil); m != f.mapping.Load() || fsys.asked != 1 {
		t.Errorf("got %v, asked %d times, want the mapping that there is", m, fsys.asked)
	}
	closed := createFile(t, files, 2, "abc")
	must(t, closed.Close())
	other := createFile(t, files, 3, "abc")
	must(t, files.Close())
	for name, f := range map[string]*File{"file": closed, "directory": other} {
		opened, err := fsys.Open(f.Path)
		must(t, err)
		f.handle.Store(&handle{opened}) // as such a reader has seen it
		if b := f.Mapped(0, 1, false); b != nil || pool.Mapped() != 0 || len(pool.mapped) != 0 {
			t.Errorf("the %s is closed, and in memory: %q, %d bytes", name, b, pool.Mapped())
		}
	}
	if fsys.asked != 2 {
		t.Errorf("%d files were mapped, want none that was closed", fsys.asked)
	}
}

func TestMappingsAreBoundedInNumberToo(t *testing.T) {
	pool := newMappingPool(1, 6)
	pool.mappings.Store(maxMappings - 1)
	one, two := pool.fits(1, 0, 0), pool.fits(1, -1, 0)
	pool.mappings.Store(maxMappings)
	if three := pool.fits(1, 1, 0); !one || two || !three {
		t.Errorf("one more fits: %v, two more: %v, one in place of another: %v", one, two, three)
	}
	pool.mappings.Store(0)
	d := pool.NewDir(vfstest.NewMem(), ".", new(epoch.Domain))
	if first, second := d.reserveMapping(6, true), d.reserveMapping(1, true); !first || second {
		t.Errorf("reserved: %v and %v, want the first alone, which another reader is about to map", first, second)
	}
}

func TestAMappingOutlivesCloseUntilItsReadersHaveLeft(t *testing.T) {
	d := new(epoch.Domain)
	files := newMappingPool(1, 3).NewDir(vfstest.NewMem(), ".", d)
	f := openABC(t, files)
	g := d.Enter()
	b := f.Mapped(0, 3, true)
	must(t, files.Close())
	if f.Mapped(0, 3, false) != nil || string(b) != "abc" {
		t.Errorf("after Close the mapping is found, or was taken from its reader: %q", b)
	}
	g.Leave()
	testkit.Soon(t, "the mapping leaves after its reader", func() bool { return files.Mapped() == 0 })
	if string(b) == "abc" {
		t.Error("the mapping stays after its reader has left")
	}
}

// manyUses are enough uses of a file without a mapping to evict others, with a probability of nearly 1.
const manyUses = 50 * remapOdds

// use uses a file as a lookup does, and returns a copy of its contents, or "" if it is not mapped.
func use(f *File, n int) string {
	g := f.dir.Domain.Enter()
	defer g.Leave()
	return string(f.Mapped(0, n, true))
}

// isMapped reports which files are mapped. It uses none.
func isMapped(files ...*File) (mapped []bool) {
	for _, f := range files {
		m := f.mapping.Load()
		mapped = append(mapped, m != nil && m.Mapping != nil)
	}
	return mapped
}

func wantMapped(t *testing.T, pool *Pool, files []*File, want ...bool) {
	t.Helper()
	bytes, got := int64(0), isMapped(files...)
	for i := range files {
		if got[i] {
			bytes += int64(len(files[i].mapping.Load().bytes))
		}
	}
	if !slices.Equal(got, want) || pool.Mapped() != bytes || bytes > pool.MaxMapped {
		t.Errorf("mapped: %v, %d bytes of at most %d; want %v and %d", got, pool.Mapped(), pool.MaxMapped, want, bytes)
	}
}

func TestMappedFilesStayWithinTheirBound(t *testing.T) {
	for _, tt := range []struct {
		name      string
		maxMapped int64
		sizes     []int
		used      []int // files that are used in turn, many times
		want      []bool
		maps      int // calls of Map
	}{
		{"all fit", 9, []int{3, 3, 3}, []int{0, 1, 2}, []bool{true, true, true}, 3},
		{"with a bound of 0 nothing is mapped", 0, []int{3}, []int{0}, []bool{false}, 0},
		{"files in use stay, others are read", 8, []int{3, 3, 3}, []int{0, 1, 2}, []bool{true, true, false}, 2},
		{"a file out of use leaves", 8, []int{3, 3, 3}, []int{1, 2}, []bool{false, true, true}, 3},
		{"two small ones leave for a large one", 8, []int{3, 3, 7}, []int{2}, []bool{false, false, true}, 3},
		{"a file in use stops a large one", 8, []int{3, 3, 7}, []int{1, 2}, []bool{false, true, false}, 2},
		{"one out of use leaves, not one before it", 8, []int{3, 3, 3}, []int{0, 2}, []bool{true, false, true}, 3},
		{"a file that never fits evicts nothing", 8, []int{3, 3, 9}, []int{2}, []bool{true, true, false}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys, pool := &denier{FS: vfstest.NewMem()}, newMappingPool(8, tt.maxMapped)
			dir := pool.NewDir(fsys, ".", new(epoch.Domain))
			var files []*File
			for i, size := range tt.sizes {
				files = append(files, openFile(t, dir, uint64(i), strings.Repeat("x", size)))
				use(files[i], 1)
			}
			for range manyUses {
				for _, i := range tt.used {
					use(files[i], 1)
				}
			}
			dir.Domain.Wait()
			for range 2 { // of those that have left
				for _, i := range tt.used {
					use(files[i], 1)
				}
			}
			wantMapped(t, pool, files, tt.want...)
			if fsys.asked != tt.maps || dir.Mapped() != pool.Mapped() || fsys.sized > manyUses/4 {
				t.Errorf("%d calls of Map, want %d, and %d of Size; %d bytes of %d are the only store's", fsys.asked,
					tt.maps, fsys.sized, dir.Mapped(), pool.Mapped())
			}
			if err := dir.Close(); err != nil || pool.Mapped() != 0 || dir.Mapped() != 0 {
				t.Errorf("%v; after Close %d bytes stay, %d of the store", err, pool.Mapped(), dir.Mapped())
			}
		})
	}
}

// TestAnEvictedMappingCountsUntilItsReadersHaveLeft also checks that nothing more is evicted meanwhile.
func TestAnEvictedMappingCountsUntilItsReadersHaveLeft(t *testing.T) {
	pool := newMappingPool(8, 6)
	one := pool.NewDir(vfstest.NewMem(), ".", new(epoch.Domain))
	other := pool.NewDir(vfstest.NewMem(), ".", new(epoch.Domain))
	files := []*File{
		openFile(t, one, 1, "abc"), openFile(t, one, 2, "def"), openFile(t, other, 1, "ghi"),
		openFile(t, other, 2, "jkl"),
	}
	use(files[0], 3)
	use(files[1], 3)
	g := one.Domain.Enter()
	seen := [][]byte{files[0].Mapped(0, 3, false), files[1].Mapped(0, 3, false)}
	for range manyUses {
		if use(files[2], 3)+use(files[3], 3) != "" {
			t.Fatal("a file is mapped while others have the space")
		}
	}
	if got := slices.Index(isMapped(files[:2]...), false); got < 0 || isMapped(files[1-got])[0] == false ||
		string(seen[0])+string(seen[1]) != "abcdef" || pool.Mapped() != 6 || one.Mapped() != 6 {
		t.Errorf("mapped: %v, %q and %q, %d bytes; want one evicted that still counts", isMapped(files...), seen[0],
			seen[1], pool.Mapped())
	}
	g.Leave()
	testkit.Soon(t, "a mapping leaves after its reader", func() bool { return pool.leaving.Load() == 0 })
	if string(seen[0])+string(seen[1]) == "abcdef" || pool.Mapped() != 3 || one.Mapped() != 3 {
		t.Errorf("%q and %q, %d bytes; want one that has left", seen[0], seen[1], pool.Mapped())
	}
	if got := use(files[2], 3); got != "ghi" || pool.Mapped() != 6 || other.Mapped() != 3 {
		t.Errorf("got %q, %d bytes of %d; want the space of the one that has left", got, other.Mapped(), pool.Mapped())
	}
	for _, d := range []*Dir{one, other} {
		if err := d.Close(); err != nil || d.Mapped() != 0 {
			t.Errorf("%v; %d bytes stay mapped", err, d.Mapped())
		}
	}
	if pool.Mapped() != 0 || pool.mappings.Load() != 0 || pool.leaving.Load() != 0 {
		t.Errorf("%d bytes of %d files stay mapped", pool.Mapped(), pool.mappings.Load())
	}
}

// TestReadersOfMappedFilesSeeNoOthersLeave has goroutines use the files of two stores, popular ones for a while, while
// the pool has space for a few and files are replaced.
func TestReadersOfMappedFilesSeeNoOthersLeave(t *testing.T) {
	const size, each = 64, 8
	pool := newMappingPool(2*each, 5*size+1)
	var dirs [2]*Dir
	var files [2][each]atomic.Pointer[File]
	for d := range dirs {
		dirs[d] = pool.NewDir(vfstest.NewMem(), ".", new(epoch.Domain))
		for i := range each {
			files[d][i].Store(openFile(t, dirs[d], uint64(i), strings.Repeat(string(rune('a'+i)), size)))
		}
	}
	var mapped, wrong, most atomic.Int64
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			for n := range 30_000 {
				d := (worker + n) % 2
				i := (n/5000 + rng.IntN(3)) % each
				g := dirs[d].Domain.Enter()
				b := files[d][i].Load().Mapped(0, size, true)
				if b != nil {
					mapped.Add(1)
					if b[0] != 'a'+byte(i) || b[size-1] != 'a'+byte(i) {
						wrong.Add(1)
					}
				}
				g.Leave()
				if got := pool.Mapped(); got > most.Load() {
					most.Store(got)
				}
				if worker == 0 && n%1000 == 999 { // replaces a file, as a compaction does
					old := files[d][i].Load()
					next := dirs[d].File(uint64(i))
					if _, err := next.ReadAt(make([]byte, 1), 0); err != nil {
						t.Error(err)
					}
					files[d][i].Store(next)
					dirs[d].Domain.Wait()
					if err := old.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if wrong.Load() != 0 || mapped.Load() == 0 || most.Load() > pool.MaxMapped {
		t.Errorf("%d of %d uses saw memory of others; at most %d bytes were mapped, want at most %d", wrong.Load(),
			mapped.Load(), most.Load(), pool.MaxMapped)
	}
	for _, d := range dirs {
		must(t, d.Close())
		d.Domain.Wait()
	}
	if pool.Mapped() != 0 || pool.mappings.Load() != 0 || pool.leaving.Load() != 0 || len(pool.mapped) != 0 {
		t.Errorf("%d bytes of %d files stay mapped", pool.Mapped(), pool.mappings.Load())
	}
}
