package commit

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/step"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

// A logFile is the write-ahead log of one memtable. A synced write to it may be acknowledged only if the log's name
// and every older log are durable too. Background goroutines make them durable, so that a new memtable never makes
// writers wait for the sync of the old log, and writes without a sync do not wait for it.
type logFile struct {
	writer *Writer
	w      *wal.Writer
	naming bool // the goroutine that names the log has begun; guarded by the writer's mu
	*logBase

	retired chan struct{} // closed once the file is closed
	removed chan struct{} // closed once the file is removed, or that has failed
}

// A logBase is what a log depends on: its own name, its first record and every older log. based is closed once they are
// durable or could not be made so. basedErr is set before.
type logBase struct {
	based    chan struct{}
	basedErr error
}

// ensureLog creates the next log unless there is one. mu is held.
func (w *Writer) ensureLog() error {
	if w.log != nil {
		return nil
	}
	if err := cmp.Or(w.Tree.CheckLock(), w.Tree.CheckNumbers()); err != nil {
		return err
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
	log, err := w.newLog(file, number, binary.LittleEndian.Uint64(id[:]))
	if err != nil { // the log has closed the file
		if removeErr := w.FS.Remove(path); removeErr != nil {
			return w.Tree.Fail(errors.Join(err, removeErr)) // recovery would read the invalid file as a log
		}
		return err
	}
	l := &logFile{
		writer: w, w: log, logBase: &logBase{based: make(chan struct{})},
		retired: make(chan struct{}), removed: make(chan struct{}),
	}
	w.log = l
	w.Tree.SetActive(l)
	return nil
}

// newLog begins a log in an empty file. mu is held.
func (w *Writer) newLog(file vfs.File, number, id uint64) (*wal.Writer, error) {
	if w.scarce {
		return wal.NewWriter(file, number, id)
	}
	expected := int64(0)
	if w.frozen != nil {
		expected = w.frozen.w.Size()
	}
	return wal.NewReserving(file, number, id, expected)
}

// name begins to make the name of the log durable and to record it in the manifest, unless that has begun. The log has
// its first record. The writer's mu is held.
func (l *logFile) name() {
	if l.naming {
		return
	}
	l.naming = true
	older, head := l.writer.base, l.w.Size()
	l.writer.logs.Go(func() {
		defer close(l.based)
		step.At("log: name")
		l.basedErr = l.syncHead(head)
		if older != nil {
			step.Take(older.based)
			l.basedErr = cmp.Or(l.basedErr, older.basedErr)
		}
		if l.basedErr == nil {
			l.basedErr = l.writer.Tree.RecordLog(manifest.LogMark{Number: l.Number(), Synced: l.w.Synced()})
		}
		step.At("log: named")
		if l.basedErr == nil {
			l.w.SetOlderDurable()
		}
	})
}

// syncHead makes the name of the log durable (I17), and its first bytes: its header and its first record. The manifest
// records how much is durable when it names the log, so that a log without its beginning is damaged, and not one that
// a crash left without it. The name comes first: meanwhile a synced write makes the first bytes durable.
func (l *logFile) syncHead(bytes int64) error {
	err := l.writer.FS.SyncDir(l.writer.Dir)
	if err == nil {
		err = l.w.SyncTo(bytes)
	}
	if err != nil {
		return l.writer.Tree.Fail(err)
	}
	return nil
}

// syncLog makes the active log durable, and what it depends on: its own name and every older log. Only after it is a
// synced write acknowledged (I1, I6). mu is held.
func (w *Writer) syncLog() error {
	base := w.base
	if w.log != nil {
		base = w.log.logBase
		w.countsMu.Lock()
		w.counts.LogSyncs++
		w.countsMu.Unlock()
		if err := w.log.w.Sync(); err != nil {
			return w.Tree.Fail(err)
		}
	}
	if base != nil {
		step.Take(base.based)
		if base.basedErr != nil {
			return w.Tree.Fail(base.basedErr)
		}
	}
	return w.Tree.CheckLock() // whoever takes the lock later finds what is durable now
}

// Number returns the number of the log's file.
func (l *logFile) Number() uint64 { return l.w.Number() }

// Mark returns how much of the log is durable, or nil while its name or an older log is not durable.
func (l *logFile) Mark() *manifest.LogMark {
	select {
	case <-l.based:
		if l.basedErr == nil {
			return &manifest.LogMark{Number: l.Number(), Synced: l.w.Synced()}
		}
	default:
	}
	return nil
}

// retire makes a log durable in the background. The next log depends on the returned base.
func (l *logFile) retire() *logBase {
	b := &logBase{based: make(chan struct{})}
	l.writer.logs.Go(func() {
		defer close(b.based)
		step.At("log: retire")
		step.Take(l.based)
		err := errors.Join(l.w.Sync(), l.w.Close())
		if err != nil {
			err = l.writer.Tree.Fail(err)
		}
		b.basedErr = cmp.Or(l.basedErr, err)
		close(l.retired)
	})
	return b
}

// Remove deletes a log whose memtable is durable in tables. If it fails, the next flush tries again.
func (l *logFile) Remove() {
	step.Take(l.retired)
	_ = l.writer.Tree.Remove(filename.Make(l.writer.Dir, filename.Log, l.Number()))
	close(l.removed)
}
