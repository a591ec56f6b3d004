package sstable

import (
	"github.com/bloomkv/bloomkv/internal/cache"
	"github.com/bloomkv/bloomkv/internal/ikey"
)

// IterOptions say how a cursor uses the cache.
type IterOptions struct {
	// Bypass leaves the cache alone, reads ReadAhead bytes at once into memory of the cursor and checks them: for compaction
	// and verification, which read all once.
	Bypass bool
	// NoFill takes blocks from the cache but does not put any there.
	NoFill bool
	// ReadAhead is how many bytes to read from the file at once with Bypass, and at most with NoFill once blocks are read one
	// after the other; 0 means 256 KiB.
	ReadAhead int
	// Stats, if not nil, is added to. It is the cursor's until Close.
	Stats *Stats
}

const defaultReadAhead = 256 << 10

// An Iter is a cursor over the versions of a table, a merge.Source that also walks backwards. It holds the block it stands
// in, so it may be kept for long. The calls that move return whether there is a version; after false, Err tells the end from
// an error. Key and Value are valid until the next call that moves, or Close. It is for one goroutine at a time.
type Iter struct {
	r   *Reader
	o   IterOptions
	x   *index
	err error

	at    int // data block, or -1
	i     int // entry in it
	b     block
	held  *cache.Block // nil if the block is in memory of the cursor
	key   []byte
	cur   entry
	stats Stats

	ahead    []byte // bytes of the file
	aheadOff uint64
	plain    []byte // a decoded block
}

// Iter makes a cursor, which stands nowhere. The table must not be closed before it.
func (r *Reader) Iter(o IterOptions) *Iter {
	if o.ReadAhead <= 0 {
		o.ReadAhead = defaultReadAhead
	}
	it := &Iter{r: r, o: o, at: -1}
	if it.o.Stats == nil {
		it.o.Stats = &it.stats
	}
	return it
}

// start makes sure of the index and forgets an error.
func (it *Iter) start() bool {
	it.err = nil
	if it.x == nil {
		it.x = it.r.index.Load()
	}
	if it.x == nil {
		it.x, it.err = it.r.touchIndex(it.o.Stats)
	}
	return it.err == nil
}

// First moves to the first version.
func (it *Iter) First() bool {
	return it.start() && it.load(0) && it.stand(0)
}

// Last moves to the last version.
func (it *Iter) Last() bool {
	return it.start() && it.load(len(it.x.slots)-1) && it.stand(it.b.n-1)
}

// SeekGE moves to the first version not before k.
func (it *Iter) SeekGE(k ikey.Key) bool {
	if !it.start() {
		return false
	}
	for at := it.x.find(k.User); at < len(it.x.slots); at++ {
		if !it.load(at) {
			return false
		}
		if i := it.b.seek(k.User, k.Trailer); i < it.b.n {
			return it.stand(i)
		}
	}
	return it.leave()
}

// SeekLT moves to the last version before k.
func (it *Iter) SeekLT(k ikey.Key) bool {
	if !it.start() {
		return false
	}
	at := min(it.x.find(k.User), len(it.x.slots)-1)
	if !it.load(at) {
		return false
	}
	i := it.b.seek(k.User, k.Trailer)
	for i == it.b.n && at+1 < len(it.x.slots) && it.lastIs(k.User) { // versions of one key may fill many blocks
		at++
		if !it.load(at) {
			return false
		}
		i = it.b.seek(k.User, k.Trailer)
	}
	it.i = i
	return it.Prev()
}

// lastIs reports whether the block ends with a version of user.
func (it *Iter) lastIs(user []byte) bool {
	e := it.b.entry(it.b.n - 1)
	it.key = it.b.appendKey(it.key[:0], it.b.n-1, &e)
	return string(it.key) == string(user)
}

// Next moves to the next version. Only after a call that returned true.
func (it *Iter) Next() bool {
	if it.i+1 < it.b.n {
		return it.stand(it.i + 1)
	}
	if it.at+1 < len(it.x.slots) {
		return it.load(it.at+1) && it.stand(0)
	}
	return it.leave()
}

// Prev moves to the version before. Only after a call that returned true.
func (it *Iter) Prev() bool {
	if it.i > 0 {
		return it.stand(it.i - 1)
	}
	if it.at > 0 {
		return it.load(it.at-1) && it.stand(it.b.n-1)
	}
	return it.leave()
}

// Key is the version the cursor stands at.
func (it *Iter) Key() ikey.Key { return ikey.Key{User: it.key, Trailer: it.cur.trailer} }

// Value is its value.
func (it *Iter) Value() []byte { return it.cur.value }

// Err is nil, or why the last call returned false.
func (it *Iter) Err() error { return it.err }

// Close lets go of the block and returns Err.
func (it *Iter) Close() error {
	it.leave()
	it.x, it.ahead, it.plain = nil, nil, nil
	return it.err
}

// stand moves to entry i of the block.
func (it *Iter) stand(i int) bool {
	it.i = i
	it.cur = it.b.entry(i)
	it.key = it.b.appendSuffix(it.key[:it.b.prefix], i, &it.cur) // load put the prefix there
	return true
}

// leave stands nowhere.
func (it *Iter) leave() bool {
	if it.held != nil {
		it.held.Release()
		it.held = nil
	}
	it.at, it.b, it.cur = -1, block{}, entry{}
	return false
}

// load makes block number at the one the cursor is in. If it cannot be read, the cursor stops: it never goes on behind it.
func (it *Iter) load(at int) bool {
	if at == it.at {
		return true
	}
	before := it.at
	it.leave()
	var data []byte
	st := it.o.Stats
	st.Blocks++
	if !it.o.Bypass {
		data, it.err = it.fromCache(at)
	}
	if data == nil && it.err == nil {
		data, it.err = it.fromFile(at, it.o.Bypass || at == before+1 && before >= 0)
	}
	if it.err != nil {
		return false
	}
	it.b, it.at = parseBlock(data), at
	it.key = append(it.key[:0], data[blockHeader:blockHeader+it.b.prefix]...)
	return true
}

// fromCache returns a block that is in the cache, or puts it there unless the cursor shall not: then it is nil.
func (it *Iter) fromCache(at int) ([]byte, error) {
	g := it.r.domain.Enter()
	defer g.Leave()
	c := it.r.cache.Get(&it.x.slots[at])
	if c != nil {
		it.o.Stats.CacheHits++
	} else if it.o.NoFill {
		return nil, nil
	} else {
		var err error
		if c, err = it.r.loadBlock(it.x, at, it.o.Stats); err != nil {
			return nil, err
		}
	}
	c.Acquire()
	it.held = c
	return c.Bytes(), nil
}

// fromFile returns a block in memory of the cursor, reading ahead if wanted.
func (it *Iter) fromFile(at int, ahead bool) ([]byte, error) {
	offset, stored, decoded := it.x.extent(at)
	need := uint64(stored + trailerSize) //nolint:gosec // a size
	if offset < it.aheadOff || offset+need > it.aheadOff+uint64(len(it.ahead)) {
		n := need
		if ahead {
			n = min(max(need, uint64(it.o.ReadAhead)), it.x.end-offset) //nolint:gosec // a size
		}
		if uint64(cap(it.ahead)) < n {
			it.ahead = make([]byte, n)
		}
		it.ahead, it.aheadOff = it.ahead[:n], offset
		it.o.Stats.FileReads++
		it.o.Stats.FileBytes += n
		if err := it.r.readAt(it.ahead, offset); err != nil {
			it.ahead = it.ahead[:0]
			return nil, err
		}
	}
	start := offset - it.aheadOff
	sealed := it.ahead[start : start+need]
	if stored == decoded {
		return it.r.openBlock(sealed, nil, offset)
	}
	if cap(it.plain) < decoded {
		it.plain = make([]byte, decoded)
	}
	it.plain = it.plain[:decoded]
	return it.r.openBlock(sealed, it.plain, offset)
}
