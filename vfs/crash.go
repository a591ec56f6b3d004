package vfs

import (
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// Keep decides what a crash keeps of what was not synced. It is asked about each part, one at a time and always in the same
// order for the same history, and says whether the part survives. It must not use the Mem that asks it.
//
// [KeepNothing] and [KeepAll] are the extremes and [KeepSome] lies between; a function of one's own can lose just one thing:
//
//	func(u vfs.Unsynced) bool { return u.Op != vfs.OpRename }            // the names before each rename
//	func(u vfs.Unsynced) bool { return u.What != vfs.UnsyncedSector }    // all sizes, but zeros in place of content
type Keep func(Unsynced) bool

// Unsynced is a part that a crash may lose on its own.
type Unsynced struct {
	What UnsyncedPart
	// Op is the operation on names: [OpCreate], [OpRemove], [OpRename], [OpLink] or [OpMkdir]. Else zero.
	Op OpKind
	// Name is what the operation was called with, or else a path of the file.
	Name string
	// To is the new name of a rename or a link.
	To string
	// Offset and End are bytes of the file. For a sector: does what was written from Offset, where the sector begins, up to
	// End survive? For a size: does the file, of which Offset bytes are synced, grow to at least End? Of one sector or size
	// several ends may be asked about, since a crash can fall between two writes; an answer for a smaller End should not be
	// no where that for a larger one would be yes.
	Offset, End int64
}

// UnsyncedPart is a kind of [Unsynced].
type UnsyncedPart uint8

// The parts of a file system that a crash may lose, each on its own.
const (
	UnsyncedName   UnsyncedPart = iota + 1 // an operation on names, in directories that were not synced since
	UnsyncedSize                           // growth of a file, by writes or by a Reserve
	UnsyncedSector                         // content of a sector of 512 bytes
)

// KeepNothing loses all that was not synced.
func KeepNothing(Unsynced) bool { return false }

// KeepAll loses nothing, as a power cut does that comes after the system wrote all back.
func KeepAll(Unsynced) bool { return true }

// KeepSome keeps each part with a probability in percent, 0 to 100, by random numbers from the seed. A size that does not
// survive as a whole is the synced one or anything between. The result is for one crash at a time.
func KeepSome(seed uint64, percent int) Keep {
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(Unsynced) bool { return rng.IntN(100) < percent }
}

// Crash returns the file system that is found after a loss of power at this moment: all that is durable, and of the rest
// what keep says. Of the changes of each single name a prefix survives, and a rename is one change of two names. What a
// lost sector held before its loss is kept, the rest of it up to the size of the file reads as zeros. In the result all is
// durable and nothing is locked or open.
//
// m is not changed and stays in use: a test may crash at every operation while the work goes on, from the hook of
// [NewHook] or another goroutine. It costs little, since content is shared.
func (m *Mem) Crash(keep Keep) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := crash{keep: keep, kept: m.survivors(keep), done: map[*inode]*inode{}}
	found := NewMem()
	found.root = c.dir(m.root, string(filepath.Separator))
	return found
}

// Crashes visits every file system that a loss of power at this moment may leave, some more than once, each like the result
// of a [Mem.Crash]; the first keeps nothing of what was not synced and the last keeps all. There are about two to the power
// of the unsynced parts, so it is for small histories; the caller may stop at any time. Changes of m meanwhile do not matter.
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
			// The next answers in order, as a counter counts: the last no becomes a yes, and what followed is asked anew.
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

// Kill returns the file system that the next process finds when this one dies and the system stays up: all that was
// written, whether synced or not, and not locked. Unlike after a Crash that keeps all, what was not synced is not durable
// yet, and a Crash of the result may lose it: a store that reads it and builds upon it must sync it first.
//
// m is not changed and stays in use, as with Crash.
func (m *Mem) Kill() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	done := map[*inode]*inode{nil: nil}
	found := NewMem()
	found.root = m.root.clone(done)
	for _, c := range m.pending {
		for i := range c.sets {
			s := &c.sets[i]
			s.at.dir, s.node = s.at.dir.clone(done), s.node.clone(done)
		}
		found.pending = append(found.pending, c)
	}
	return found
}

// clone copies an inode and all that can be reached from it, unless it is done already.
func (n *inode) clone(done map[*inode]*inode) *inode {
	if twin, ok := done[n]; ok {
		return twin
	}
	twin := &inode{made: n.made}
	done[n] = twin
	if n.names != nil {
		twin.names = make(map[string]dirent, len(n.names))
		for name, e := range n.names {
			twin.names[name] = dirent{e.now.clone(done), e.durable.clone(done)}
		}
		return twin
	}
	n.file.mu.RLock()
	defer n.file.mu.RUnlock()
	n.file.share(&twin.file, n.file.size)
	twin.file.synced, twin.file.durable = n.file.synced, n.file.durable
	twin.file.ends, twin.file.rooms = slices.Clone(n.file.ends), slices.Clone(n.file.rooms)
	return twin
}

// crash is a crash under way.
type crash struct {
	keep Keep
	kept map[*inode]map[string]*inode // what surviving changes make of names
	done map[*inode]*inode            // files copied already, which have several names
}

// dir returns what is left of a directory and of all in it, whose path is for the questions.
func (c *crash) dir(old *inode, path string) *inode {
	left := newDir(old.made)
	kept := c.kept[old]
	for _, name := range slices.Sorted(maps.Keys(old.names)) {
		node, ok := kept[name]
		if !ok {
			node = old.names[name].durable
		}
		switch {
		case node == nil:
			continue
		case node.names != nil:
			node = c.dir(node, filepath.Join(path, name))
		default:
			node = c.file(node, path, name)
		}
		left.names[name] = dirent{node, node}
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

// torn makes left what is left of a file that is not synced. First the size is found, then what each unsynced sector within
// it holds.
func (c *crash) torn(old, left *memFile, path string) {
	u := Unsynced{What: UnsyncedSize, Name: path, Offset: old.durable}
	size := old.durable
	if old.size > old.durable {
		size = c.reach(u, old.durable, old.sizes)
	}
	old.share(left, size)
	if left.written <= old.synced {
		return
	}

	u.What = UnsyncedSector
	ends := old.ends
	var within []int64
	copied := int64(-1) // the last chunk that left does not share
	for start := old.synced / sectorSize * sectorSize; start < left.written; start += sectorSize {
		// What this sector held after each write to it. One that went on beyond it filled it.
		limit := min(start+sectorSize, old.written)
		within = within[:0]
		for ; len(ends) > 0 && ends[0] <= limit; ends = ends[1:] {
			if ends[0] < limit {
				within = append(within, ends[0])
			}
		}
		within = append(within, limit)
		u.Offset = start
		end := c.reach(u, max(start, old.synced), func() []int64 { return within })
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

// sizes returns the sizes, ascending, that the file may have had on the medium since its size was synced, the one it has
// last: after a write or a Reserve, at the end of a sector that was written, or somewhere in what was only reserved.
func (f *memFile) sizes() []int64 {
	var all []int64
	for _, ends := range [][]int64{f.ends, f.rooms} {
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

// reach returns how far u survives: one of the candidates, which ascend from above least, or least itself. It asks about
// the last, then about the first, and halves what is left between; so a coin for each answer makes both extremes likely
// and each candidate possible.
func (c *crash) reach(u Unsynced, least int64, candidates func() []int64) int64 {
	all := candidates()
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

// share makes g the first size bytes of f, without copying them.
func (f *memFile) share(g *memFile, size int64) {
	g.size, g.written = size, min(size, f.written)
	for at := int64(0); at < g.written; at += chunkSize {
		n := min(g.written-at, chunkSize)
		g.chunks = append(g.chunks, f.chunks[at/chunkSize][:n:n])
	}
}
