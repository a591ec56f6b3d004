package tests

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/storetest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// eachTable calls change with each table added by an edit of the manifest, and writes the result back.
func (s *forgedStore) eachTable(change func(a *manifest.Added)) {
	s.edit(func(e *manifest.Edit) {
		for i := range e.Added {
			change(&e.Added[i])
		}
	})
}

// added returns the last addition of a table in the manifest.
func (s *forgedStore) added(number uint64) (found manifest.Added) {
	s.eachTable(func(a *manifest.Added) {
		if a.Table.Number == number {
			found = *a
		}
	})
	return found
}

// bottom returns the number of the i-th largest table of the last level; top that of a table of the newest run.
func (s *forgedStore) bottom(i int) uint64 {
	var tables []*manifest.Table
	s.eachTable(func(a *manifest.Added) {
		if a.Level == manifest.NumLevels-1 && s.tables[a.Table.Number] != nil {
			tables = append(tables, a.Table)
		}
	})
	slices.SortFunc(tables, func(a, b *manifest.Table) int { return cmp.Compare(b.Entries, a.Entries) })
	return tables[i].Number
}

func (s *forgedStore) top() (number uint64) {
	run := uint64(0)
	s.eachTable(func(a *manifest.Added) {
		if a.Level == 0 && a.Run >= run {
			run, number = a.Run, a.Table.Number
		}
	})
	return number
}

// swapBlocks swaps two blocks and keeps the separators in their positions.
func (t *forgedTable) swapBlocks(i, j int) {
	a, b := &t.blocks[i], &t.blocks[j]
	a.suffix, b.suffix = b.suffix, a.suffix
	*a, *b = *b, *a
}

func (t *forgedTable) sameSeparator(i, j int) bool {
	return bytes.Equal(t.blocks[i].suffix, t.blocks[j].suffix)
}

// raiseKey makes the first of two keys with equal heads greater than the second, in a block with offsets. It reports
// whether it found such keys.
func (t *forgedTable) raiseKey() bool {
	for i := range t.blocks {
		b := &t.blocks[i]
		data, err := b.decode()
		if err != nil || data[7] != 2 {
			continue
		}
		n, heads := int(binary.LittleEndian.Uint32(data)), 8+(int(binary.LittleEndian.Uint32(data[4:])&0xffffff)+7)&^7
		for j := range n - 1 {
			offset := int(binary.LittleEndian.Uint16(data[heads+8*n+2*j:]))
			entry := data[heads+10*n+offset:]
			if at := bytes.Index(entry, []byte("f-some-length")); at >= 0 &&
				bytes.Equal(data[heads+8*j:][:8], data[heads+8*j+8:][:8]) {
				entry[at] = 'z'
				b.encode(data, b.codec)
				return true
			}
		}
	}
	return false
}

// TestFoundByAttacks contains stores with changed files and correct checksums that once caused failures. Each must be
// refused with the file's name and the reason, and must do no harm if it is used anyway.
func TestFoundByAttacks(t *testing.T) {
	testkit.LongUnderRace(t)
	const small, large, plain = 0, 3, 4 // kinds with range deletes
	for _, find := range []struct {
		name   string
		kind   int
		change func(s *forgedStore)
		open   bool   // Open refuses it; otherwise only Check and reads of the changed part do
		want   string // part of the error's text
	}{
		// A forward scan skipped the keys that the range delete covers, into the table whose bounds began too early,
		// and back. It never ended, and if all entries on the way were deleted, a single Next did not return.
		{"bounds that begin after the table's first keys, with a range delete", small, func(s *forgedStore) {
			n := s.bottom(0)
			s.eachTable(func(a *manifest.Added) {
				if a.Table.Number == n {
					a.Table.Smallest = []byte("bb")
				}
			})
		}, false, "the manifest has"},
		{"bounds that end before the table's last keys, with a range delete", small, func(s *forgedStore) {
			n := s.bottom(0)
			s.eachTable(func(a *manifest.Added) {
				if a.Table.Number == n {
					a.Table.Largest = []byte("ab")
				}
			})
		}, false, "the manifest has"},
		// Two tables of a run had their bounds swapped: a backward scan began in the wrong one.
		{"tables with swapped bounds", large, func(s *forgedStore) {
			x, y := s.added(s.bottom(0)).Table, s.added(s.bottom(1)).Table
			s.eachTable(func(a *manifest.Added) {
				switch a.Table.Number {
				case x.Number:
					a.Table.Smallest, a.Table.Largest = y.Smallest, y.Largest
				case y.Number:
					a.Table.Smallest, a.Table.Largest = x.Smallest, x.Largest
				}
			})
		}, false, "the manifest has"},
		// The index listed the blocks in the wrong order: scans returned keys twice, and went backward.
		{"swapped blocks", small, func(s *forgedStore) {
			s.change(s.bottom(0), func(t *forgedTable) {
				t.swapBlocks(1, 3)
			})
		}, false, "key"},
		{"swapped separators", small, func(s *forgedStore) {
			s.change(s.bottom(0), func(t *forgedTable) { t.blocks[1].suffix = t.blocks[2].suffix })
		}, false, "separator"},
		// A key in the middle was greater than all others of its table: the heads were in order, and nothing checked
		// the rest of the keys.
		{"a key that is greater than those after it", plain, func(s *forgedStore) {
			done := false
			for n := range s.tables {
				if s.change(n, func(t *forgedTable) { done = done || t.raiseKey() }); done {
					return
				}
			}
		}, false, "order"},
		{"a duplicated entry", small, func(s *forgedStore) {
			s.change(s.bottom(0), func(t *forgedTable) {
				b := &t.blocks[len(t.blocks)-1]
				t.blocks = append(t.blocks, *b)
				binary.LittleEndian.PutUint64(t.props[8*5:], uint64(len(t.blocks)))
			})
			s.agree(s.bottom(0))
		}, false, "in neighbouring blocks"},
		// The versions of one key filled two blocks, whose separators are equal.
		{"versions of one key in the wrong order, over two blocks", small, func(s *forgedStore) {
			for n, t := range s.tables {
				for i := 1; i < len(t.blocks); i++ {
					if i+1 < len(t.blocks) && t.sameSeparator(i-1, i) && t.sameSeparator(i, i+1) {
						s.change(n, func(t *forgedTable) { t.swapBlocks(i, i+1) })
						return
					}
				}
			}
		}, false, "in neighbouring blocks"},
		// Versions with sequence numbers above those of the table became visible later, and a compaction dropped newer
		// writes.
		{"a version with a sequence number that its table does not have", small, func(s *forgedStore) {
			s.change(s.bottom(0), func(t *forgedTable) {
				binary.LittleEndian.PutUint64(t.props[8*8:], 1)
				binary.LittleEndian.PutUint64(t.props[8*9:], 1)
			})
			s.agree(s.bottom(0))
		}, false, "want 1 to 1"},
		// The first read of a block allocated the length in the index: 20 lookups allocated 1.3 GB.
		{"a decoded length that no codec reaches", small, func(s *forgedStore) {
			s.change(s.bottom(0), func(t *forgedTable) { t.blocks[0].decoded = 64 << 20 })
		}, false, "decoded"},
		{"a decoded length that differs from the codec's", small, func(s *forgedStore) {
			s.change(s.bottom(0), func(t *forgedTable) {
				b := &t.blocks[0]
				data, err := b.decode()
				if err != nil {
					panic(err) // broken logic of the test
				}
				b.payload, b.codec = s2.Encode(nil, data), sstable.S2
				b.decoded = uint32(len(b.payload)) * 1024
			})
		}, false, "decoded length differs from the index"},
		// The length of both headers overflowed, and Check panicked.
		{"a prefix filter of almost 2⁶⁴ bytes", 2, func(s *forgedStore) {
			s.change(s.bottom(0), func(t *forgedTable) {
				binary.LittleEndian.PutUint64(t.props[secondAt(t.props):], math.MaxUint64-63)
			})
		}, false, "prefix filter of 18446744073709551552 bytes"},
		// Check continues with the other tables after a file of the wrong size, and allocated the tail length of the
		// manifest.
		{"a size and a tail that the file does not have", small, func(s *forgedStore) {
			n := s.bottom(0)
			s.eachTable(func(a *manifest.Added) {
				if a.Table.Number == n {
					a.Table.Size, a.Table.TailLen = 900<<20, 800<<20
				}
			})
		}, true, "the manifest wants 943718400"},
		// Flush and Compact succeeded, but a later Put was acknowledged and then dropped, as its run had a lower
		// number.
		{"a run with a number that was never assigned", small, func(s *forgedStore) {
			n := s.top()
			s.eachTable(func(a *manifest.Added) {
				if a.Table.Number == n {
					a.Run = 1 << 40
				}
			})
		}, true, "next file"},
		{"two tables with one id", small, func(s *forgedStore) {
			n, b := s.top(), s.added(s.bottom(0)).Table
			s.eachTable(func(a *manifest.Added) {
				if a.Table.Number == n {
					a.Table.ID = b.ID
				}
			})
		}, true, "the same id"},
		{"two runs in the last level", small, func(s *forgedStore) {
			n := s.top()
			s.eachTable(func(a *manifest.Added) {
				if a.Table.Number == n {
					a.Level = manifest.NumLevels - 1
				}
			})
		}, true, "want one run at most"},
		// Lookups returned the old value and scans the new one, and Check found nothing.
		{"runs of level 0 in the wrong order", plain, func(s *forgedStore) {
			n, least := s.top(), uint64(math.MaxUint64)
			s.eachTable(func(a *manifest.Added) {
				if a.Level == 0 {
					least = min(least, a.Run)
				}
			})
			s.eachTable(func(a *manifest.Added) {
				if a.Table.Number == n {
					a.Run = least - 1
				}
			})
		}, true, "the older run"},
		{"a newer run below an older one", plain, func(s *forgedStore) {
			n, b := s.top(), s.bottom(0)
			for m := range s.tables {
				if a := s.added(m); a.Level == 0 && m != n && a.Table.Entries > 10 {
					n = m
				}
			}
			x, y := s.added(n), s.added(b)
			s.eachTable(func(a *manifest.Added) {
				switch a.Table.Number {
				case n:
					a.Level, a.Run = manifest.NumLevels-1, y.Run
				case b:
					a.Level, a.Run = 5, x.Run
				}
			})
		}, false, "the older run"},
		// The first write made the store read-only, or Open reported an error of the program.
		{"sequence numbers exhausted", small, func(s *forgedStore) {
			s.edit(func(e *manifest.Edit) { e.LastSeq = ikey.MaxSeq })
		}, true, "the sequence numbers are exhausted"},
		{"sequence numbers exhausted by a table", small, func(s *forgedStore) {
			n := s.top()
			s.eachTable(func(a *manifest.Added) {
				if a.Table.Number == n {
					a.Table.MinSeq, a.Table.MaxSeq = ikey.MaxSeq, ikey.MaxSeq
				}
			})
		}, true, "the sequence numbers are exhausted"},
		{"numbers of files exhausted", small, func(s *forgedStore) {
			s.edit(func(e *manifest.Edit) { e.NextFile = manifest.MaxNumber })
		}, true, "the numbers of files are exhausted"},
		// The compaction failed with an error that was not ErrCorruption and named no file.
		{"entries that the table does not have", small, func(s *forgedStore) {
			s.change(s.bottom(0), func(t *forgedTable) { binary.LittleEndian.PutUint64(t.props, 1000) })
			s.agree(s.bottom(0))
		}, false, "properties differ"},
		{"range deletes that the table does not have", small, func(s *forgedStore) {
			s.eachTable(func(a *manifest.Added) {
				if a.Table.RangeDeletes > 0 {
					a.Table.RangeDeletes++
				}
			})
		}, false, "the manifest has"},
	} {
		t.Run(find.name, func(t *testing.T) {
			defer watch(timeLimit)()
			kind := hostileKinds[find.kind]
			s := kind.store(t)
			find.change(s)
			files := s.join()
			fsys := vfstest.NewMem()
			must(t, writeFiles(fsys, "db", files))
			damage := func(call string, err error) {
				if !errors.Is(err, bloomkv.ErrCorruption) || !strings.Contains(err.Error(), find.want) {
					t.Errorf("%s: %v, want damage with %q", call, err, find.want)
				}
			}
			_, err := bloomkv.Check(t.Context(), "db", bloomkv.CheckOptions{FS: fsys})
			damage("Check", err)
			db, err := bloomkv.Open("db", kind.options(fsys))
			if err == nil {
				_ = db.Close()
			}
			if find.open {
				damage("Open", err)
			}
			for _, readOnly := range []bool{false, true} {
				watched.begin(find.name)
				if r := hostileRun(kind, files, readOnly, false, 1); r.err != nil || !r.damage {
					t.Errorf("in use: %v, damage %v", r.err, r.damage)
				}
				watched.end()
			}
		})
	}
}

// TestWhatABlockClaimsIsNotAllocated measures the allocations of lookups in a table whose index claims much larger
// blocks than it has.
func TestWhatABlockClaimsIsNotAllocated(t *testing.T) {
	kind := hostileKinds[0]
	for _, claim := range []uint32{64 << 20, 1 << 20} {
		s := kind.store(t)
		s.change(s.bottom(0), func(t *forgedTable) {
			for i := range t.blocks {
				b := &t.blocks[i]
				data, err := b.decode()
				if err != nil {
					panic(err) // broken logic of the test
				}
				b.payload, b.codec, b.decoded = s2.Encode(nil, append(data, make([]byte, 2000)...)), sstable.S2, claim
			}
		})
		files := s.join()
		fsys, size := vfstest.NewMem(), uint64(0)
		for _, b := range files {
			size += uint64(len(b))
		}
		must(t, writeFiles(fsys, "db", files))
		opts := kind.options(fsys)
		opts.ReadOnly = true
		const gets = 20
		lookups := func() uint64 {
			db := storetest.Open(t, "db", opts)
			alloc := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
			metrics.Read(alloc)
			before := alloc[0].Value.Uint64()
			for i := range gets {
				if _, err := db.Get(kind.keys[i]); err != nil && !errors.Is(err, bloomkv.ErrCorruption) &&
					!errors.Is(err, bloomkv.ErrNotFound) {
					t.Error(err)
				}
			}
			metrics.Read(alloc)
			must(t, db.Close())
			return alloc[0].Value.Uint64() - before
		}
		got, most := uint64(math.MaxUint64), uint64(1<<20)+gets*size
		for try := 0; try < 3 && got > most; try++ { // what other goroutines of the process allocate counts too
			got = lookups()
		}
		if got > most {
			t.Errorf("claimed length %d: %d lookups allocate %d bytes, want at most %d", claim, gets, got, most)
		}
		t.Logf("claimed length %d in a store of %d bytes: %d lookups allocate %d bytes", claim, size, gets, got)
	}
}
