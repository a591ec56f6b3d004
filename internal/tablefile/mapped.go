package tablefile

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv/vfs"
)

// Mapped returns the bytes of files that are mapped. It never exceeds MaxMapped.
func (p *Pool) Mapped() int64 { return p.mappedBytes.Load() }

// maxMappings bounds the mapped files of a pool. Linux allows a process 65,530 mappings, and the Go runtime needs some.
const maxMappings = 16 << 10

// remapOdds is the number of uses of files without a mapping for each that may evict mappings if there is no space.
const remapOdds = 256

// A mapping is a file in memory, which it stays without a descriptor, or says why the file is not: it is too large, or
// cannot be mapped; that failed, and is tried again; or the pool had no space for it.
type mapping struct {
	vfs.Mapping // nil if the file is not mapped

	bytes []byte
	used  atomic.Bool // since the clock's hand passed
	size  int64       // of the file; 0 if there is no reason to try again when there is space
	again time.Time   // when to try again after a failure
}

// mapAgain is the time after which a file that could not be mapped is tried again: the process may have had too many
// mappings, or too little memory.
var mapAgain = 10 * time.Second

// Mapped returns n bytes of the file from off on as memory, to be read inside [vfs.ReadMapped] and before the caller
// leaves the guard of the Dir's domain that it is in. The result is nil if the file cannot be mapped, or was not open
// when it was first asked for; if the files that are mapped take the space; or, if inMemory is true, if the system
// would have to read the bytes from the disk.
func (f *File) Mapped(off int64, n int, inMemory bool) []byte {
	m := f.mapping.Load()
	if m == nil || m.Mapping == nil {
		if m = f.tryMap(m); m == nil {
			return nil
		}
	}
	if !m.used.Load() {
		m.used.Store(true)
	}
	if off > int64(len(m.bytes)-n) || inMemory && !m.InMemory(int(off), int(off)+n) {
		return nil
	}
	return m.bytes[off : off+int64(n) : off+int64(n)]
}

// tryMap maps the file if that is possible and worth a try. It returns nil if the file is not mapped. last is what the
// caller found.
func (f *File) tryMap(last *mapping) *mapping {
	p, h := f.dir.pool, f.handle.Load()
	if p.MaxMapped == 0 || h == nil {
		return nil
	}
	if last != nil {
		noSpace := last.size > 0 && !p.fits(last.size, 0, 0) && rand.Uint32()%remapOdds != 0
		if noSpace || last.size == 0 && (last.again.IsZero() || time.Now().Before(last.again)) {
			return nil
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.mapping.Load()
	if m == last && !f.gone {
		m = f.mapHandle(h, last != nil)
	}
	if m == nil || m.Mapping == nil {
		return nil
	}
	return m
}

// mapHandle maps the file, whose handle is h, and makes the result its mapping: see newMapping. f.mu is held.
func (f *File) mapHandle(h *handle, evict bool) *mapping {
	m, p := f.newMapping(h, evict), f.dir.pool
	p.mu.Lock()
	closed := f.dir.closed
	if !closed {
		f.mapping.Store(m)
		if m.Mapping != nil {
			p.mapped = append(p.mapped, f)
		}
	}
	p.mu.Unlock()
	if closed {
		f.dir.unmap(m) // nobody has seen it
		return nil
	}
	return m
}

// newMapping maps the file, or returns why it does not. If evict is true, it may evict mappings that were not used
// lately, but their space is free only once their readers have left.
func (f *File) newMapping(h *handle, evict bool) *mapping {
	mapper, ok := h.File.(vfs.Mapper)
	if !ok {
		return new(mapping)
	}
	failed := &mapping{again: time.Now().Add(mapAgain)}
	size, err := h.Size()
	switch {
	case err != nil:
		return failed
	case size > min(f.dir.pool.MaxMapped, math.MaxInt):
		return new(mapping)
	case !f.dir.reserveMapping(size, evict):
		return &mapping{size: size}
	}
	k, err := mapper.Map(int(size))
	if err != nil {
		f.dir.freeMapping(size)
		return failed
	}
	return &mapping{Mapping: k, bytes: k.Bytes(), size: size}
}

// fits reports whether a file of the given size can be mapped besides those that are mapped, less the given number of
// files and of bytes.
func (p *Pool) fits(size int64, files int, bytes int64) bool {
	return p.mappedBytes.Load()-bytes+size <= p.MaxMapped && p.mappings.Load()-int64(files) < maxMappings
}

// reserveMapping reserves space for the mapping of a file of the given size. If there is none and evict is true, it
// evicts mappings until there will be enough, or until it comes to one that was used since it came there last. So
// files that are all in use stay mapped, however many others are, too: a mapping costs more than many reads. Nothing is
// evicted while readers keep what was evicted before.
func (d *Dir) reserveMapping(size int64, evict bool) bool {
	p := d.pool
	type victim struct {
		dir     *Dir
		mapping *mapping
	}
	var evicted []victim
	p.mu.Lock()
	ok, free := p.fits(size, 0, 0), int64(0)
	if ok {
		p.mappings.Add(1)
		p.mappedBytes.Add(size)
		d.mappedBytes.Add(size)
	}
	evict = evict && !ok && p.leaving.Load() == 0
	for evict && len(p.mapped) > 0 && !p.fits(size, len(evicted), free) {
		p.mapsHand %= len(p.mapped)
		f := p.mapped[p.mapsHand]
		m := f.mapping.Load()
		if m.used.Swap(false) {
			p.mapsHand++
			break
		}
		p.leaving.Add(1)
		free += m.size
		evicted = append(evicted, victim{f.dir, p.dropMapping(p.mapsHand, &mapping{size: m.size})})
	}
	p.mu.Unlock()
	for _, v := range evicted { // without the lock: Retire may release other things here
		v.dir.Domain.Retire(func() {
			v.dir.unmap(v.mapping)
			p.leaving.Add(-1)
		})
		v.dir.Domain.WaitLater()
	}
	return ok
}

// dropMapping takes file i out of the clock of mapped files and replaces its mapping, which it returns. mu is held.
func (p *Pool) dropMapping(i int, by *mapping) *mapping {
	f, last := p.mapped[i], len(p.mapped)-1
	p.mapped[i], p.mapped[last] = p.mapped[last], nil
	p.mapped = p.mapped[:last]
	return f.mapping.Swap(by)
}

// freeMapping gives back what reserveMapping reserved.
func (d *Dir) freeMapping(size int64) {
	d.mappedBytes.Add(-size)
	d.pool.mappedBytes.Add(-size)
	d.pool.mappings.Add(-1)
}

// unmap removes a file's memory, if there is some. No reader may use it.
func (d *Dir) unmap(m *mapping) {
	if m != nil && m.Mapping != nil {
		_ = m.Close() // it fails only for memory that is not mapped
		d.freeMapping(m.size)
	}
}
