package commit

import (
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
)

// A logFile is the write-ahead log of one memtable. A synced write to it may be acknowledged only if the log's name
// and every older log are durable too. Background goroutines make them durable, so that a new memtable never makes
// writers wait for the sync of the old log, and writes without a sync do not wait for it.
type logFile struct {
	number uint64
	writer *Writer
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

// ensureLog creates the next log unless there is one. mu is held.
func (w *Writer) ensureLog() error {
	if w.log != nil {
		return nil
	}
	number, err := w.Tree.NewNumber()
	if err != nil {
		return err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	// The file must exist before the manifest requires it: recovery reports a required log that is missing. If creating
	// the file fails, nothing depends on it, and a later write may try again.
	path := filename.Make(w.Dir, filename.Log, number)
	file, err := w.FS.Create(path)
	if err != nil {
		return err
	}
	log, err := wal.NewReserving(file, number, binary.LittleEndian.Uint64(id[:]), w.lastLog)
	if err != nil { // the log has closed the file
		if removeErr := w.FS.Remove(path); removeErr != nil {
			return w.Tree.Fail(errors.Join(err, removeErr)) // recovery would read the invalid file as a log
		}
		return err
	}
	l := &logFile{
		number: number, writer: w, w: log,
		logBase: &logBase{based: make(chan struct{})}, retired: make(chan struct{}),
	}
	older := w.base
	w.logs.Go(func() {
		defer close(l.based)
		if older != nil {
			<-older.based
			l.basedErr = older.basedErr
		}
		if l.basedErr == nil {
			l.basedErr = l.record()
		}
		if l.basedErr == nil {
			log.SetOlderDurable()
		}
	})
	w.log = l
	w.Tree.SetActive(l)
	return nil
}

// syncLog makes the active log durable, and what it depends on: its own name and every older log. mu is held.
func (w *Writer) syncLog() error {
	base := w.base
	if w.log != nil {
		base = w.log.logBase
		w.counts.logSyncs.Add(1)
		if err := w.log.w.Sync(); err != nil {
			return w.Tree.Fail(err)
		}
	}
	if base == nil {
		return nil
	}
	<-base.based
	if base.basedErr != nil {
		return w.Tree.Fail(base.basedErr)
	}
	return nil
}

// syncAll makes all that was written durable. mu is held.
func (w *Writer) syncAll() error {
	err := w.syncLog()
	if err == nil {
		w.Tree.Synced()
	}
	return err
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

// record makes the name of a log durable, then records in the manifest that the log must exist.
func (l *logFile) record() error {
	w := l.writer
	if err := w.FS.SyncDir(w.Dir); err != nil {
		return w.Tree.Fail(err)
	}
	return w.Tree.RecordLog(l.number)
}

// retire makes a log durable in the background. The next log depends on the returned base.
func (l *logFile) retire() *logBase {
	b := &logBase{based: make(chan struct{})}
	l.writer.logs.Go(func() {
		defer close(b.based)
		<-l.based
		b.basedErr = l.basedErr
		if err := l.w.Sync(); err != nil && b.basedErr == nil {
			b.basedErr = l.writer.Tree.Fail(err)
		}
		if err := l.w.Close(); err != nil && b.basedErr == nil {
			b.basedErr = l.writer.Tree.Fail(err)
		}
		close(l.retired)
	})
	return b
}

// Remove deletes a log whose memtable is durable in tables. If it fails, the next Open removes the file.
func (l *logFile) Remove() {
	<-l.retired
	_ = l.writer.FS.Remove(filename.Make(l.writer.Dir, filename.Log, l.number))
}
