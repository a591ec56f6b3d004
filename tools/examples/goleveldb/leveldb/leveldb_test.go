package leveldb

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A store has the methods that a program needs of its database.
type store interface {
	Writer
	Get(key []byte) ([]byte, error)
	Has(key []byte) (bool, error)
	NewBatch() Batch
	NewBatchWithSize(size int) Batch
	NewIterator(prefix, start []byte) Iterator
	NewSnapshot() (view, error)
	Compact(start, limit []byte) error
	Stat() (string, error)
	SyncKeyValue() error
	Close() error
}

// A view is a snapshot.
type view interface {
	Get(key []byte) ([]byte, error)
	Has(key []byte) (bool, error)
	NewIterator(prefix, start []byte) Iterator
	Release()
}

// A subject is the tested Database, with its snapshots as views.
type subject struct{ Database }

func (s subject) NewSnapshot() (view, error) { return s.Database.NewSnapshot() }

// TestSameAsGoleveldb runs the same random programs on both and compares every answer.
func TestSameAsGoleveldb(t *testing.T) {
	for seed := range uint64(40) {
		files, stor := vfstest.NewMem(), storage.NewMemStorage()
		ours := &program{open: func() (store, error) {
			options := bloomkv.Options{FS: files, MemtableSize: 16 << 10, Durability: bloomkv.DurabilityNoSync}
			db, err := bloomkv.Open("data", &options)
			return subject{Database{db}}, err
		}}
		theirs := &program{open: func() (store, error) {
			db, err := leveldb.Open(stor, nil)
			return reference{db}, err
		}}
		for _, p := range []*program{ours, theirs} {
			p.run(t, rand.New(rand.NewPCG(seed, 0)), 400)
		}
		for i, want := range theirs.answers {
			if got := ours.answers[i]; got != want {
				t.Fatalf("seed %d, step %d: got %s, goleveldb has %s", seed, i, got, want)
			}
		}
	}
}

// TestCloseNeedsNoLock closes the store while readers and writers run and an iterator is open.
func TestCloseNeedsNoLock(t *testing.T) {
	opened, err := bloomkv.Open("data", &bloomkv.Options{FS: vfstest.NewMem(), Durability: bloomkv.DurabilityNoSync})
	if err != nil {
		t.Fatal(err)
	}
	db := Database{opened}
	if err := db.Put([]byte("key"), []byte("value")); err != nil {
		t.Fatal(err)
	}
	left := db.NewIterator(nil, nil)

	var working, begun sync.WaitGroup
	for range 4 {
		begun.Add(1)
		working.Go(func() {
			var err error
			for n := 0; err == nil; n++ {
				if _, err = db.Get([]byte("key")); err == nil {
					err = db.Put([]byte("other"), nil)
				}
				it := db.NewIterator(nil, nil)
				for err == nil && it.Next() {
				}
				err = cmp.Or(err, it.Error())
				it.Release()
				if n == 0 {
					begun.Done()
				}
			}
			if !errors.Is(err, bloomkv.ErrClosed) {
				t.Errorf("got %v, want %v", err, bloomkv.ErrClosed)
			}
		})
	}
	begun.Wait()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	working.Wait()
	if left.Next() || !errors.Is(left.Error(), bloomkv.ErrClosed) {
		t.Errorf("an iterator of a closed store: %v", left.Error())
	}
	left.Release()
}

// A program is a random sequence of calls, with the answers it received. It depends only on the random numbers, not on
// the answers.
type program struct {
	open    func() (store, error)
	answers []string
}

func (p *program) run(t *testing.T, rnd *rand.Rand, steps int) {
	t.Helper()
	db, err := p.open()
	if err != nil {
		t.Fatal(err)
	}
	var snaps []view
	release := func() {
		for _, s := range snaps {
			s.Release()
		}
		snaps = nil
	}
	batch := db.NewBatchWithSize(100)
	for range steps {
		key, value := someKey(rnd), bytes.Repeat([]byte{byte(rnd.Uint32())}, rnd.IntN(300))
		lo, hi := someKey(rnd), someKey(rnd)
		if rnd.IntN(8) == 0 {
			lo = nil
		}
		kind, answer := rnd.IntN(100), ""
		switch {
		case kind < 25:
			answer = fmt.Sprint("put ", db.Put(key, value))
		case kind < 35:
			answer = fmt.Sprint("delete ", db.Delete(key))
		case kind < 38:
			answer = fmt.Sprint("delete range ", db.DeleteRange(lo, hi))
		case kind < 48:
			answer = fmt.Sprint("batch put ", batch.Put(key, value), batch.ValueSize() > 0)
		case kind < 52:
			answer = fmt.Sprint("batch delete ", batch.Delete(key), batch.ValueSize() > 0)
		case kind < 55:
			answer = fmt.Sprint("batch write ", batch.Write())
		case kind < 57:
			batch.Reset()
			answer = fmt.Sprint("batch reset ", batch.ValueSize())
		case kind < 59:
			other := db.NewBatch()
			answer = fmt.Sprint("replay ", batch.Replay(other), batch.Replay(db), other.Write())
		case kind < 69:
			answer = "get " + lookup(db, key)
		case kind < 80:
			answer = "iterate " + iterate(db.NewIterator(key, lo), rnd.IntN(30))
		case kind < 85 && len(snaps) < 4:
			s, err := db.NewSnapshot()
			snaps = append(snaps, s)
			answer = fmt.Sprint("snapshot ", err)
		case kind < 93 && len(snaps) > 0:
			s := snaps[rnd.IntN(len(snaps))]
			answer = "snapshot has " + lookup(s, key) + iterate(s.NewIterator(lo, key), rnd.IntN(30))
		case kind < 95 && len(snaps) > 0:
			i := rnd.IntN(len(snaps))
			snaps[i].Release()
			snaps = slices.Delete(snaps, i, i+1)
			answer = "release"
		case kind < 97:
			answer = fmt.Sprint("compact ", db.Compact(nil, nil))
		case kind < 98:
			_, err := db.Stat()
			answer = fmt.Sprint("stat ", err, db.SyncKeyValue())
		case kind < 99:
			release()
			answer = fmt.Sprint("close ", db.Close())
			_, err := db.Get(key)
			answer += fmt.Sprint(err != nil, db.Put(key, value) != nil, db.Close() != nil)
			if db, err = p.open(); err != nil {
				t.Fatal(err)
			}
			batch = db.NewBatch()
		}
		p.answers = append(p.answers, answer)
	}
	p.answers = append(p.answers, "in the end "+iterate(db.NewIterator(nil, nil), 1<<20))
	release()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func someKey(rnd *rand.Rand) []byte {
	key := make([]byte, rnd.IntN(4))
	for i := range key {
		key[i] = "\x00ab\xff"[rnd.IntN(4)]
	}
	return key
}

func lookup(from interface {
	Get(key []byte) ([]byte, error)
	Has(key []byte) (bool, error)
}, key []byte,
) string {
	has, err := from.Has(key)
	value, errGet := from.Get(key)
	absent := errors.Is(errGet, bloomkv.ErrNotFound) || errors.Is(errGet, leveldb.ErrNotFound)
	return fmt.Sprintf("%v %v %q %v", has, err, value, absent)
}

// iterate formats up to n pairs, and how the iterator behaves after Release.
func iterate(it Iterator, n int) string {
	var b bytes.Buffer
	for ; n > 0 && it.Next(); n-- {
		fmt.Fprintf(&b, "%q=%q ", it.Key(), it.Value())
	}
	fmt.Fprint(&b, it.Error())
	it.Release()
	fmt.Fprint(&b, " released ", it.Error(), it.Next(), it.Error() != nil)
	it.Release()
	return b.String()
}

// A reference is goleveldb itself.
type reference struct{ *leveldb.DB }

func (r reference) Get(key []byte) ([]byte, error) { return r.DB.Get(key, nil) }
func (r reference) Has(key []byte) (bool, error)   { return r.DB.Has(key, nil) }
func (r reference) Put(key, value []byte) error    { return r.DB.Put(key, value, nil) }
func (r reference) Delete(key []byte) error        { return r.DB.Delete(key, nil) }
func (r reference) NewBatch() Batch                { return &referenceBatch{db: r.DB} }
func (r reference) NewBatchWithSize(int) Batch     { return r.NewBatch() }
func (r reference) Compact(lo, hi []byte) error {
	return r.CompactRange(util.Range{Start: lo, Limit: hi})
}
func (r reference) Stat() (string, error)            { return r.GetProperty("leveldb.stats") }
func (r reference) SyncKeyValue() error              { return nil }
func (r reference) NewIterator(p, s []byte) Iterator { return r.DB.NewIterator(rangeOf(p, s), nil) }

func (r reference) NewSnapshot() (view, error) {
	s, err := r.GetSnapshot()
	return referenceSnapshot{s}, err
}

func (r reference) DeleteRange(start, end []byte) error {
	if bytes.Compare(start, end) >= 0 {
		return nil // goleveldb does not expect an inverted range
	}
	it := r.DB.NewIterator(&util.Range{Start: start, Limit: end}, nil)
	defer it.Release()
	for it.Next() {
		if err := r.Delete(it.Key()); err != nil {
			return err
		}
	}
	return it.Error()
}

func rangeOf(prefix, start []byte) *util.Range {
	r := util.BytesPrefix(prefix)
	r.Start = slices.Concat(prefix, start)
	return r
}

type referenceSnapshot struct{ *leveldb.Snapshot }

func (s referenceSnapshot) Get(key []byte) ([]byte, error) { return s.Snapshot.Get(key, nil) }
func (s referenceSnapshot) Has(key []byte) (bool, error)   { return s.Snapshot.Has(key, nil) }
func (s referenceSnapshot) NewIterator(p, st []byte) Iterator {
	return s.Snapshot.NewIterator(rangeOf(p, st), nil)
}

type referenceBatch struct {
	leveldb.Batch
	db *leveldb.DB
}

func (b *referenceBatch) Put(key, value []byte) error { b.Batch.Put(key, value); return nil }
func (b *referenceBatch) Delete(key []byte) error     { b.Batch.Delete(key); return nil }
func (b *referenceBatch) ValueSize() int              { return b.Len() }
func (b *referenceBatch) Write() error                { return b.db.Write(&b.Batch, nil) }

func (b *referenceBatch) DeleteRange(_, _ []byte) error {
	return errors.New("goleveldb has no range deletes")
}

func (b *referenceBatch) Replay(w Writer) error {
	r := &replay{w: w}
	return errors.Join(b.Batch.Replay(r), r.err)
}

type replay struct {
	w   Writer
	err error
}

func (r *replay) Put(key, value []byte) { r.err = errors.Join(r.err, r.w.Put(key, value)) }
func (r *replay) Delete(key []byte)     { r.err = errors.Join(r.err, r.w.Delete(key)) }
