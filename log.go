package bloomkv

import (
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
)

// A logFile is the write-ahead log of one memtable. A Sync write to it may be acknowledged only if the log's name and
// every older log are durable too. Background goroutines make them durable, so that a new memtable never makes
// writers wait for the sync of the old log, and NoSync writes do not wait for it.
type logFile struct {
	number uint64
	db     *DB
	w      *wal.Writer
	*logBase

	retired chan struct{} // closed once the file is closed
}

// A logBase is what a log depends on: its own name and every older log. based is closed once they are durable or
// could not be made so. basedErr is set before.
type logBase struct {
	based    chan struct{}
	basedErr error
}

// ensureLog creates the next log unless there is one. commitMu is held.
func (db *DB) ensureLog() error {
	if db.log != nil {
		return nil
	}
	number, err := db.tree.NewNumber()
	if err != nil {
		return err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	// The file must exist before the manifest requires it: recovery reports a required log that is missing. If creating
	// the file fails, nothing depends on it, and a later write may try again.
	path := filename.Make(db.dir, filename.Log, number)
	file, err := db.opts.FS.Create(path)
	if err != nil {
		return err
	}
	w, err := wal.NewReserving(file, number, binary.LittleEndian.Uint64(id[:]))
	if err != nil { // the writer has closed the file
		if removeErr := db.opts.FS.Remove(path); removeErr != nil {
			return db.tree.Fail(errors.Join(err, removeErr)) // recovery would read the invalid file as a log
		}
		return err
	}
	l := &logFile{
		number: number, db: db, w: w, logBase: &logBase{based: make(chan struct{})}, retired: make(chan struct{}),
	}
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

// Mark returns how much of the log is durable, or nil while its name or an older log is not durable.
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

// recordLog makes the name of a log durable, then records in the manifest that the log must exist.
func (db *DB) recordLog(l *logFile) error {
	if err := db.opts.FS.SyncDir(db.dir); err != nil {
		return db.tree.Fail(err)
	}
	return db.tree.RecordLog(l.number)
}

// retire makes a log durable in the background. The next log depends on the returned base.
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

// Remove deletes a log whose memtable is durable in tables. If it fails, the next Open removes the file.
func (l *logFile) Remove() {
	<-l.retired
	_ = l.db.opts.FS.Remove(filename.Make(l.db.dir, filename.Log, l.number))
}
