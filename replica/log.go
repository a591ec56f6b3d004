package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs"
)

// storeLog keeps the log, the term and the vote of raft in a bloomkv store. The key of an entry is 'l' and its index,
// big-endian, so entries lie in their order; what raft keeps beside the log has the prefix 's'. Every write is synced.
type storeLog struct{ db *bloomkv.DB }

var errNotFound = errors.New("not found") // the text that raft expects

func openLog(ctx context.Context, dir string, fsys vfs.FS) (*storeLog, error) {
	// All lookups are of entries that exist, so no filters. The log is short: little memory is enough.
	db, err := bloomkv.OpenContext(ctx, dir, &bloomkv.Options{FS: fsys, FilterFPR: 1, MemoryBudget: 16 << 20})
	if err != nil {
		return nil, err
	}
	l := &storeLog{db}
	if _, err := l.FirstIndex(); err != nil { // here it is the file's own, and not one that raft has made of it
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

func entryKey(index uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'l'}, index) }
func indexOfKey(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }
func stableKey(key []byte) []byte  { return append([]byte{'s'}, key...) }
func (l *storeLog) Close() error   { return l.db.Close() }

// FirstIndex returns the index of the first entry, 0 without one.
func (l *storeLog) FirstIndex() (uint64, error) {
	first, _, _, err := l.look(0)
	return first, err
}

// LastIndex returns the index of the last entry, 0 without one.
func (l *storeLog) LastIndex() (uint64, error) {
	_, last, _, err := l.look(0)
	return last, err
}

// look returns the indexes of the first and the last entry, 0 without one, and whether one has the given index, all at
// one moment.
func (l *storeLog) look(index uint64) (first, last uint64, has bool, err error) {
	it := l.db.Iter(bloomkv.IterOptions{Prefix: []byte{'l'}, KeysOnly: true})
	if it.First() { // Close returns the error of the last move, so there is none after one that fails
		first = indexOfKey(it.Key())
		if it.Last() {
			last = indexOfKey(it.Key())
			has = it.SeekGE(entryKey(index)) && indexOfKey(it.Key()) == index
		}
	}
	return first, last, has, it.Close()
}

// An entry of the log:
//
//	0          8      9                 17                     25
//	+----------+------+-----------------+----------------------+------------+------+
//	| term u64 | type | appended at i64 | extensions: size u64 | extensions | data |
//	+----------+------+-----------------+----------------------+------------+------+
//
// Little-endian; the time is in nanoseconds, 0 for none. The store has a checksum of every byte.
const entryHeader = 25

func appendEntry(dst []byte, l *raft.Log) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, l.Term)
	dst = append(dst, byte(l.Type))
	appended := int64(0)
	if !l.AppendedAt.IsZero() {
		appended = l.AppendedAt.UnixNano()
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(appended))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(l.Extensions)))
	dst = append(dst, l.Extensions...)
	return append(dst, l.Data...)
}

func parseEntry(raw []byte, l *raft.Log) error {
	if len(raw) < entryHeader {
		return fmt.Errorf("entry of %d bytes, want at least %d", len(raw), entryHeader)
	}
	n, space := binary.LittleEndian.Uint64(raw[17:]), len(raw)-entryHeader
	if n > uint64(space) { //nolint:gosec // not negative
		return fmt.Errorf("extensions of %d bytes in an entry of %d", n, len(raw))
	}
	extensions := int(n) //nolint:gosec // at most space
	l.Term, l.Type = binary.LittleEndian.Uint64(raw), raft.LogType(raw[8])
	l.AppendedAt = time.Time{}
	if at := int64(binary.LittleEndian.Uint64(raw[9:])); at != 0 { //nolint:gosec // was int64
		l.AppendedAt = time.Unix(0, at)
	}
	l.Extensions, l.Data = raw[entryHeader:entryHeader+extensions], raw[entryHeader+extensions:]
	return nil
}

// GetLog reads an entry.
func (l *storeLog) GetLog(index uint64, to *raft.Log) error {
	raw, err := l.db.Get(entryKey(index))
	if errors.Is(err, bloomkv.ErrNotFound) {
		return l.absent(index, to)
	}
	if err == nil {
		if err = parseEntry(raw, to); err == nil {
			err = checkEntry(to) // raft would panic
		}
		if err != nil {
			err = fmt.Errorf("log: index %d: %w", index, err)
		}
	}
	to.Index = index
	return err
}

// absent does what GetLog does for an entry that was not there.
func (l *storeLog) absent(index uint64, to *raft.Log) error {
	first, last, has, err := l.look(index)
	switch {
	case err != nil:
		return err
	case has: // it was stored meanwhile
		return l.GetLog(index, to)
	case index < first || index > last:
		return raft.ErrLogNotFound
	}
	return fmt.Errorf("log: index %d is missing, want %d to %d", index, first, last)
}

// StoreLog appends an entry.
func (l *storeLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// storedBytes bounds the entries that are written together, unless one alone has more. A message has up to 64 of them,
// which may be more than a batch of the store takes.
const storedBytes = 16 << 20

// StoreLogs appends entries, with one sync if they are small. After an error the log has some of them, in their order.
func (l *storeLog) StoreLogs(entries []*raft.Log) error {
	var b bloomkv.Batch
	var value []byte
	for i, e := range entries {
		value = appendEntry(value[:0], e)
		b.Put(entryKey(e.Index), value)
		if i+1 < len(entries) && b.Size()+len(entries[i+1].Data) <= storedBytes {
			continue
		}
		if err := l.db.Apply(&b); err != nil {
			return err
		}
		b.Reset()
	}
	return nil
}

// DeleteRange deletes entries at either end of the log, from lo to hi inclusive.
func (l *storeLog) DeleteRange(lo, hi uint64) error {
	return l.db.DeleteRange(bloomkv.KeyRange{Lower: entryKey(lo), Upper: entryKey(hi + 1)})
}

// Set stores a value beside the log.
func (l *storeLog) Set(key, value []byte) error { return l.db.Put(stableKey(key), value) }

// Get returns a value beside the log.
func (l *storeLog) Get(key []byte) ([]byte, error) {
	value, err := l.db.Get(stableKey(key))
	if errors.Is(err, bloomkv.ErrNotFound) {
		return nil, errNotFound
	}
	return value, err
}

// SetUint64 stores a number beside the log.
func (l *storeLog) SetUint64(key []byte, value uint64) error {
	return l.Set(key, binary.LittleEndian.AppendUint64(nil, value))
}

// GetUint64 returns a number beside the log.
func (l *storeLog) GetUint64(key []byte) (uint64, error) {
	value, err := l.Get(key)
	if err == nil && len(value) != 8 {
		err = fmt.Errorf("log: %s has %d bytes, want 8", key, len(value))
	}
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(value), nil
}
