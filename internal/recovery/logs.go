package recovery

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/bloomkv/bloomkv/internal/batch"
	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

// Logs reads the logs of a store, in order.
type Logs struct {
	FS      vfs.FS
	Dir     string
	Mark    *manifest.LogMark // the manifest's mark of a log; nil without one
	Last    ikey.Seq          // last sequence number read so far; initially the manifest's LastSeq
	Records int               // number of intact records read so far
	Newest  batch.Mark        // the newest mark of the logs that count, after Check or Judge; none if its Seq is 0
}

var (
	errShortLog = errors.New("log is cut short")
	errSequence = errors.New("sequence numbers are not continuous")
	errGap      = errors.New("what comes before this log is missing")
)

// Read reads one log, whose records must continue the sequence of those read before. It calls each for every operation,
// with slices that are valid until each returns, and after at the end of every record. An error of after ends the
// reading and is returned unchanged.
func (l *Logs) Read(
	number uint64, each func(seq ikey.Seq, kind ikey.Kind, key, value []byte), after func() error,
) (wal.Result, error) {
	begun := false
	name := filename.Base(filename.Log, number)
	return l.replay(number, func(payload []byte, end int64) error {
		first, count, err := batch.ReadRecord(payload, each)
		switch offset := end - int64(len(payload)); {
		case err != nil:
			return corrupt.At(name, offset, err)
		case first > l.Last+1 && !begun:
			return corrupt.Newf(name, offset, "sequence %d, want %d: %w", first, l.Last+1, errGap)
		case first != l.Last+1:
			return corrupt.Newf(name, offset, "sequence %d, want %d: %w", first, l.Last+1, errSequence)
		default:
			if err := manifest.CheckWrite(l.Last + ikey.Seq(count)); err != nil { // no store writes such a record
				return corrupt.At(name, offset, err)
			}
		}
		begun = true
		l.Last += ikey.Seq(count)
		l.Records++
		return after()
	})
}

// replay replays a log by its number.
func (l *Logs) replay(number uint64, each func(payload []byte, end int64) error) (wal.Result, error) {
	f, err := l.FS.Open(filename.Make(l.Dir, filename.Log, number))
	if err != nil {
		return wal.Result{}, err
	}
	res, err := wal.Replay(f, filename.Base(filename.Log, number), number, each)
	return res, errors.Join(err, f.Close())
}

// Check reads all logs, ascending by number, without keeping their operations, so that damage is found before the first
// change. It returns the logs that count: all, or those before the first gap. The logs behind a gap are newer than what
// was lost in it, and are to be discarded (I8). After an error the store must not be opened: the logs are damaged or
// unreadable, or there is a gap and strict is true.
func (l *Logs) Check(logs []uint64, strict bool) (counted []uint64, err error) {
	n, gap, err := l.Judge(logs)
	if gap != nil && strict {
		return nil, fmt.Errorf("%w (StrictWAL)", gap)
	}
	return logs[:n], err
}

// Judge does what Check does, and returns how many logs count, and the first gap. If err is not nil, the logs are
// damaged or unreadable.
func (l *Logs) Judge(logs []uint64) (counted int, gap, err error) {
	last := l.Last
	defer func() { l.Last = last }()
	var mark batch.Mark // perhaps of a record that does not count
	note := func(seq ikey.Seq, kind ikey.Kind, _, value []byte) {
		if kind == ikey.Mark {
			mark = batch.Mark{Seq: seq, Bytes: bytes.Clone(value)}
		}
	}
	for i, n := range logs {
		res, err := l.Read(n, note, func() error { l.Newest = mark; return nil })
		name := filename.Base(filename.Log, n)
		switch counted = i + 1; {
		case errors.Is(err, errGap): // the end or the whole of an older log is lost
			counted, gap = i, err
		case err != nil:
			return 0, nil, err
		case l.Mark != nil && l.Mark.Number == n && res.End < l.Mark.Synced:
			err := fmt.Errorf("ends here, want at least %d bytes: %w", l.Mark.Synced, errShortLog)
			if res.Torn {
				err = fmt.Errorf("%w: %w", err, res.Reason)
			}
			return 0, nil, corrupt.At(name, res.End, err)
		case !res.Torn:
			continue
		default:
			gap = corrupt.At(name, res.End, fmt.Errorf("%w: %w", errShortLog, res.Reason))
		}
		return counted, gap, l.checkGap(gap, logs[counted:])
	}
	return len(logs), nil, nil
}

// checkGap returns an error, with the address of the gap, if the manifest or one of the younger logs promises that
// everything before that log was durable.
func (l *Logs) checkGap(gap error, younger []uint64) error {
	for _, n := range younger {
		res, err := l.replay(n, nil)
		if err != nil {
			return err
		}
		if res.OlderDurable || l.Mark != nil && l.Mark.Number >= n {
			return fmt.Errorf("%w; yet all before %s was durable", gap, filename.Base(filename.Log, n))
		}
	}
	return nil
}
