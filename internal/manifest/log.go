package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Log is the manifest to which a store appends: a log of package wal, whose number is the manifest's. Its first
// record is a snapshot, an edit that adds everything; every later one is an edit. A snapshot that is too long for that
// is several edits, of which the first has their number: so it cannot lose its end unnoticed. CURRENT names the
// manifest that counts.
//
// Only one goroutine at a time may call the methods of a Log.
type Log struct {
	w     *wal.Writer
	state State // the manifest's numbers; Version stays nil
	full  int64 // bytes
}

// ErrTooLarge means that an edit is too large for one record. A new manifest, whose snapshot includes it, may have it.
var ErrTooLarge = wal.ErrTooLarge

// snapshotPart is the size in bytes above which a snapshot has several records: half of what the smallest machines can
// write and read as one. It is a variable for tests.
var snapshotPart = 64 << 20

// minFull is the smallest size in bytes at which a manifest is full. Open reads all of it.
const minFull = 256 << 10

// Create begins the manifest of that number with a snapshot and makes it current, in an order in which no crash does
// harm (I14): write the manifest, sync it, sync its name, then replace CURRENT. The number must be below
// snapshot.NextFile. A manifest of that number that CURRENT does not name was left by a crash during Create, and is
// replaced. After an error either manifest may be the current one, so nothing may be deleted (I16); Create itself
// removes the new one if CURRENT does not name it. The caller deletes the manifest that was current before.
func Create(fsys vfs.FS, dir string, number uint64, snapshot State) (*Log, error) {
	e := snapshot.Snapshot()
	l := &Log{}
	err := l.accept(e)
	if err == nil && (number == 0 || number >= l.state.NextFile) {
		err = fmt.Errorf("manifest %d, but next file %d", number, l.state.NextFile)
	}
	if err != nil {
		return nil, err
	}
	f, err := createFile(fsys, dir, number)
	if err != nil {
		return nil, err
	}
	if l.w, err = wal.NewWriter(f, number, rand.Uint64()); err == nil {
		if err = l.begin(fsys, dir, e); err != nil {
			err = errors.Join(err, l.w.Close())
		}
	}
	if err != nil {
		if current, e := ReadCurrent(fsys, dir); errors.Is(e, fs.ErrNotExist) || e == nil && current != number {
			err = errors.Join(err, fsys.Remove(filename.Make(dir, filename.Manifest, number))) // it takes space
		}
		return nil, err
	}
	l.full = max(minFull, 2*l.w.Size())
	return l, nil
}

// begin writes the snapshot and makes the manifest current.
func (l *Log) begin(fsys vfs.FS, dir string, snapshot *Edit) error {
	var b []byte
	for _, e := range snapshot.parts(snapshotPart) {
		b = AppendEdit(wal.Begin(b), e)
		if err := l.w.Append(b); err != nil {
			return err
		}
	}
	if err := l.w.Sync(); err != nil {
		return err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	tmp := filename.Base(filename.Temp, l.Number())
	return vfs.WriteFileAtomic(fsys, dir, tmp, filename.CurrentName, currentFor(l.Number()))
}

func createFile(fsys vfs.FS, dir string, number uint64) (vfs.File, error) {
	name := filename.Make(dir, filename.Manifest, number)
	f, err := fsys.Create(name)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	switch current, damage := ReadCurrent(fsys, dir); {
	case damage != nil && !errors.Is(damage, fs.ErrNotExist):
		return nil, errors.Join(err, damage)
	case damage == nil && current == number:
		return nil, err
	}
	if err := fsys.Remove(name); err != nil {
		return nil, err
	}
	return fsys.Create(name)
}

// Append makes e durable. An edit that Load would refuse is refused before anything is written, and leaves the Log
// unchanged; only Version.Apply checks that tables exist and do not overlap. One that is too large is refused with
// ErrTooLarge before anything is written. Any other error stays: it is unknown whether e is in the manifest, no file
// may be deleted, and a later Append fails (I16).
func (l *Log) Append(e *Edit) error {
	if err := l.accept(e); err != nil {
		return err
	}
	if err := l.w.Append(AppendEdit(wal.Begin(nil), e)); err != nil {
		return err
	}
	return l.w.Sync()
}

func (l *Log) accept(e *Edit) error {
	if err := e.check(); err != nil {
		return err
	}
	return l.state.Note(e)
}

// Size returns the length of the manifest in bytes.
func (l *Log) Size() int64 { return l.w.Size() }

// Full reports whether the manifest is more than twice as long as its snapshot, and so long that a new one is worth it.
func (l *Log) Full() bool { return l.w.Size() > l.full }

// Number returns the manifest's number.
func (l *Log) Number() uint64 { return l.w.Number() }

// Close closes the manifest. All acknowledged edits are durable already.
func (l *Log) Close() error { return l.w.Close() }

// CURRENT names the current manifest, with the CRC-32C of the name, in exactly this form:
//
//	MANIFEST-000042 1a2b3c4d\n
const maxCurrent = 64 // bytes, more than CURRENT ever has

// currentFor returns the content of CURRENT that names a manifest.
func currentFor(number uint64) []byte {
	name := filename.Base(filename.Manifest, number)
	return fmt.Appendf(nil, "%s %08x\n", name, crc32.Checksum([]byte(name), crc32.MakeTable(crc32.Castagnoli)))
}

// ReadCurrent returns the number of the manifest that CURRENT names. The content of CURRENT is never used as a path.
func ReadCurrent(fsys vfs.FS, dir string) (uint64, error) {
	b, err := vfs.ReadFile(fsys, filepath.Join(dir, filename.CurrentName), maxCurrent)
	if errors.Is(err, vfs.ErrTooLarge) {
		return 0, corrupt.At(filename.CurrentName, 0, err)
	}
	if err != nil {
		return 0, err
	}
	name, _, _ := strings.Cut(string(b), " ")
	kind, number := filename.Parse(name)
	if kind != filename.Manifest || !bytes.Equal(b, currentFor(number)) {
		return 0, corrupt.Newf(filename.CurrentName, 0, "%s, want the name of a manifest and its checksum",
			words.Quoted(b))
	}
	return number, nil
}
