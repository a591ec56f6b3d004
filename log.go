package bloomkv

import (
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
)

// A logFile is the write-ahead log of one memtable. A Sync write in it may be acknowledged only when all that it stands on
// is durable too: the log's own name, and every older log. That is made so in the background, so that a new memtable never
// stalls writers for the sync of the old log, and NoSync writes do not wait for it.
type logFile struct {
	number uint64
	db     *DB
	w      *wal.Writer
	*logBase

	retired chan struct{} // closed once the file is
}

// A logBase is what a log stands on. basedErr is set before based is closed.
type logBase struct {
	based    chan struct{}
	basedErr error
}

// ensureLog makes the next log where there is none. commitMu is held.
func (db *DB) ensureLog() error {
	if db.log != nil {
		return nil
	}
	number, err := db.tree.NewNumber()
	if err != nil {
		return err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	// The file itself must exist before a record that would make recovery miss it; its failure leaves nothing behind that
	// is needed, so that a later write may try again.
	path := filename.Make(db.dir, filename.Log, number)
	file, err := db.opts.FS.Create(path)
	if err != nil {
		return err
	}
	w, err := wal.NewReserving(file, number, binary.LittleEndian.Uint64(id[:]))
	if err != nil { // the writer has closed the file
		if removeErr := db.opts.FS.Remove(path); removeErr != nil {
			return db.tree.Fail(errors.Join(err, removeErr)) // a log that is no log, among those that recovery must read
		}
		return err
	}
	l := &logFile{number: number, db: db, w: w, logBase: &logBase{based: make(chan struct{})}, retired: make(chan struct{})}
	older := db.base
	db.workers.Go(func() {
		defer close(l.based)
		if older != nil {
			<-older.based
			l.basedErr = older.basedErr
		}
		if l.basedErr == nil {
			l.basedErr = db.recordLog(l)
		}
		if l.basedErr == nil {
			w.SetOlderDurable()
		}
	})
	db.log = l
	db.tree.SetActive(l)
	return nil
}

// Number returns the number of the log's file.
func (l *logFile) Number() uint64 { return l.number }

// Mark returns how much of the log is durable, nil while what the log stands on is not.
func (l *logFile) Mark() *manifest.LogMark {
	select {
	case <-l.based:
		if l.basedErr == nil {
			return &manifest.LogMark{Number: l.number, Synced: l.w.Synced()}
		}
	default:
	}
	return nil
}

// recordLog makes the name of a log durable and then writes into the manifest that the log must be there.
func (db *DB) recordLog(l *logFile) error {
	if err := db.opts.FS.SyncDir(db.dir); err != nil {
		return db.tree.Fail(err)
	}
	return db.tree.RecordLog(l.number)
}

// retire makes a log durable in the background; a later log stands on what it returns.
func (l *logFile) retire() *logBase {
	b := &logBase{based: make(chan struct{})}
	l.db.workers.Go(func() {
		defer close(b.based)
		<-l.based
		b.basedErr = l.basedErr
		if err := l.w.Sync(); err != nil && b.basedErr == nil {
			b.basedErr = l.db.tree.Fail(err)
		}
		if err := l.w.Close(); err != nil && b.basedErr == nil {
			b.basedErr = l.db.tree.Fail(err)
		}
		close(l.retired)
	})
	return b
}

// Remove deletes a log whose memtable is durable in tables. What fails is left to the next Open.
func (l *logFile) Remove() {
	<-l.retired
	_ = l.db.opts.FS.Remove(filename.Make(l.db.dir, filename.Log, l.number))
}
