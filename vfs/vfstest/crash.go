package vfstest

import (
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// Keep decides what a crash keeps of what was not synced. It is called for each part, one call at a time and always in
// the same order for the same history, and reports whether the part survives. It must not use the Mem that calls it.
//
// [KeepNothing] and [KeepAll] are the extremes and [KeepSome] lies between. A function of your own can lose just one
// thing:
//
//	func(u vfstest.Unsynced) bool { return u.Op != vfstest.OpRename }         // loses each rename
//	func(u vfstest.Unsynced) bool { return u.What != vfstest.UnsyncedSector } // keeps sizes, zeros replace content
type Keep func(Unsynced) bool

// Unsynced is a part that a crash may lose on its own.
type Unsynced struct {
	What UnsyncedPart
	// Op is the operation on names: [OpCreate], [OpRemove], [OpRename], [OpLink] or [OpMkdir]. Otherwise zero.
	Op OpKind
	// Name is the name passed to the operation, or otherwise a path of the file.
	Name string
	// To is the new name of a rename or a link.
	To string
	// Offset and End are bytes of the file. For a sector, which begins at Offset: does the content written up to End
	// survive? For a size: does the file, which has Offset durable bytes, grow to at least End? Keep may be asked about
	// several ends of one sector or size, since a crash can fall between two writes; if it answers yes for one End, it
	// should answer yes for each smaller one.
	Offset, End int64
}

// UnsyncedPart is a kind of [Unsynced].
type UnsyncedPart uint8

// The parts of a file system that a crash may lose, each on its own.
const (
	UnsyncedName   UnsyncedPart = iota + 1 // an operation on names in directories that were not synced afterwards
	UnsyncedSize                           // growth of a file by writes or by Reserve
	UnsyncedSector                         // content of a sector of 512 bytes
)

// KeepNothing loses all that was not synced.
func KeepNothing(Unsynced) bool { return false }

// KeepAll loses nothing, like a power cut after the system wrote everything back.
func KeepAll(Unsynced) bool { return true }

// KeepSome keeps each part with a probability in percent, 0 to 100, using random numbers from the seed. A size that
// does not survive as a whole becomes the synced size or one in between. Use the result for one crash at a time.
func KeepSome(seed uint64, percent int) Keep {
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(Unsynced) bool { return rng.IntN(100) < percent }
}

// Crash returns the file system after a loss of power at this moment: everything durable, and the rest as keep decides.
// For each single name a prefix of its changes survives; a rename changes two names at once. A lost sector keeps the
// content of its surviving writes; the rest of it, up to the size of the file, reads as zeros. In the result everything
// is durable and nothing is locked or open.
//
// m is not changed and stays in use: a test may crash at every operation while the work continues, from the hook of
// [NewHook] or another goroutine. A crash is cheap, since content is shared.
func (m *Mem) Crash(keep Keep) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := crash{keep: keep, kept: m.survivors(keep), done: map[*inode]*inode{}}
	found := NewMem()
	found.root = c.dir(m.root, string(filepath.Separator))
	return found
}

// Crashes iterates over every file system that a loss of power at this moment may leave, some more than once, each like
// a result of [Mem.Crash]. The first keeps nothing of what was not synced and the last keeps everything. There are
// about two to the power of the number of unsynced parts, so it suits small histories; the caller may stop at any time.
// Later changes of m have no effect.
func (m *Mem) Crashes() iter.Seq[*Mem] {
	return func(yield func(*Mem) bool) {
		still := m.Kill()
		var answers []bool
		for {
			asked := 0
			found := still.Crash(func(Unsynced) bool {
				if asked == len(answers) {
					answers = append(answers, false)
				}
				asked++
				return answers[asked-1]
			})
			if !yield(found) {
				return
			}
			// The next sequence of answers, as a counter counts: the last no becomes a yes, and the answers after it
			// start anew.
			for asked > 0 && answers[asked-1] {
				asked--
			}
			if asked == 0 {
				return
			}
			answers = append(answers[:asked-1], true)
		}
	}
}

// Kill returns the file system that the next process finds if this one dies and the system stays up: everything
// written, whether synced or not, and no locks. Unlike after a Crash that keeps everything, unsynced parts are still
// not durable, and a Crash of the result may lose them: a store that reads them and builds upon them must sync them
// first.
//
// m is not changed and stays in use, as with Crash.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	done := map[*inode]*inode{nil: nil}
	found := NewMem()
	found.root = m.root.clone(done)
	for _, c := range m.pending {
		c.sets = slices.Clone(c.sets)
		for i := range c.sets {
			s := &c.sets[i]
			s.at.dir, s.node, s.before = s.at.dir.clone(done), s.node.clone(done), s.before.clone(done)
		}
		found.pending = append(found.pending, c)
	}
	return found
}

// clone copies an inode and everything reachable from it, unless done already has it.
func (n *inode) clone(done map[*inode]*inode) *inode {
	if twin, ok := done[n]; ok {
		return twin
	}
	twin := &inode{made: n.made}
	done[n] = twin
	if n.names != nil {
		twin.names = make(map[string]*inode, len(n.names))
		for name, node := range n.names {
			twin.names[name] = node.clone(done)
		}
		return twin
	}
	n.file.mu.RLock()
	defer n.file.mu.RUnlock()
	n.file.share(&twin.file, n.file.size)
	twin.file.synced, twin.file.durable = n.file.synced, n.file.durable
	twin.file.ends, twin.file.reserves = slices.Clone(n.file.ends), slices.Clone(n.file.reserves)
	return twin
}

// crash is a crash under way.
type crash struct {
	keep Keep
	kept map[*inode]map[string]*inode // meaning of the names with pending changes
	done map[*inode]*inode            // files copied already, since a file may have several names
}

// dir returns what is left of a directory and everything in it. The path is used in the questions to keep.
func (c *crash) dir(old *inode, path string) *inode {
	left := newDir(old.made)
	kept := c.kept[old]
	names := slices.AppendSeq(slices.Collect(maps.Keys(old.names)), maps.Keys(kept))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		node, ok := kept[name]
		if !ok {
			node = old.names[name]
		}
		switch {
		case node == nil:
			continue
		case node.names != nil:
			node = c.dir(node, filepath.Join(path, name))
		default:
			node = c.file(node, path, name)
		}
		left.names[name] = node
	}
	return left
}

// file returns what is left of a file.
func (c *crash) file(old *inode, dir, name string) *inode {
	if left := c.done[old]; left != nil {
		return left
	}
	left := &inode{made: old.made}
	c.done[old] = left
	old.file.mu.RLock()
	defer old.file.mu.RUnlock()
	if old.file.written == old.file.synced && old.file.size == old.file.durable {
		old.file.share(&left.file, old.file.size)
	} else {
		c.torn(&old.file, &left.file, filepath.Join(dir, name))
	}
	left.file.synced, left.file.durable = left.file.written, left.file.size
	return left
}

// torn sets left to what is left of a file that is not synced: first its size, then the content of each unsynced sector
// within that size.
func (c *crash) torn(old, left *memFile, path string) {
	u := Unsynced{What: UnsyncedSize, Name: path, Offset: old.durable}
	size := old.durable
	if old.size > old.durable {
		size = c.reach(u, old.durable, old.sizes())
	}
	old.share(left, size)
	if left.written <= old.synced {
		return
	}

	u.What = UnsyncedSector
	ends := old.ends
	var within []int64
	copied := int64(-1) // the last chunk that left does not share with old
	for start := old.synced / sectorSize * sectorSize; start < left.written; start += sectorSize {
		// The ends of the writes within this sector. A write that continued beyond it filled it.
		limit := min(start+sectorSize, old.written)
		within = within[:0]
		for ; len(ends) > 0 && ends[0] <= limit; ends = ends[1:] {
			if ends[0] < limit {
				within = append(within, ends[0])
			}
		}
		within = append(within, limit)
		u.Offset = start
		end := c.reach(u, max(start, old.synced), within)
		if limit = min(limit, left.written); end >= limit {
			continue
		}
		if at := start / chunkSize; at != copied {
			left.chunks[at] = slices.Clone(left.chunks[at])
			copied = at
		}
		clear(left.chunks[start/chunkSize][end%chunkSize:][:limit-end])
	}
}

// sizes returns the sizes, ascending, that the file may have had on the medium since its size was synced; the last is
// the current one. Candidates are the size after each write or Reserve, each end of a written sector, and steps within
// the part that was only reserved.
func (f *memFile) sizes() []int64 {
	var all []int64
	for _, ends := range [][]int64{f.ends, f.reserves} {
		for _, end := range ends {
			if end > f.durable {
				all = append(all, end)
			}
		}
	}
	for end := (f.durable/sectorSize + 1) * sectorSize; end < f.written; end += sectorSize {
		all = append(all, end)
	}
	for end := (max(f.durable, f.written)/chunkSize + 1) * chunkSize; end < f.size; end += chunkSize {
		all = append(all, end)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reach returns how far u survives: one of all, which ascend from above least, or least itself. It asks about the last,
// then about the first, and then bisects. So a coin toss for each answer makes both extremes likely and each of all
// possible.
func (c *crash) reach(u Unsynced, least int64, all []int64) int64 {
	ask := func(i int) bool {
		u.End = all[i]
		return c.keep(u)
	}
	last := len(all) - 1
	switch {
	case ask(last):
		return all[last]
	case last == 0 || !ask(0):
		return least
	}
	low, high := 0, last // all[low] survives and all[high] does not
	for high-low > 1 {
		if mid := int(uint(low+high) >> 1); ask(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return all[low]
}

// share sets g to the first size bytes of f, without copying them.
func (f *memFile) share(g *memFile, size int64) {
	g.size, g.written = size, min(size, f.written)
	for at := int64(0); at < g.written; at += chunkSize {
		n := min(g.written-at, chunkSize)
		g.chunks = append(g.chunks, f.chunks[at/chunkSize][:n:n])
	}
}
