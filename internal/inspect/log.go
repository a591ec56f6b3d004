package inspect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Log is one log, as JSON has it.
type Log struct {
	File         string   `json:"file"`
	Bytes        int64    `json:"bytes"`
	Records      int      `json:"records"` // whole ones
	Operations   uint64   `json:"operations,omitempty"`
	FirstSeq     ikey.Seq `json:"first_seq,omitempty"` // of the operations; a manifest has none
	LastSeq      ikey.Seq `json:"last_seq,omitempty"`
	End          int64    `json:"end"`                // of the last whole record
	Reserved     int64    `json:"reserved,omitempty"` // bytes of zeros behind it
	Torn         string   `json:"torn,omitempty"`
	Promise      int64    `json:"durable_to"` // as far as the log itself says
	OlderDurable bool     `json:"older_logs_durable"`
	Break        *Break   `json:"break,omitempty"` // missing of a log that is whole
	Error        string   `json:"error,omitempty"` // why the rest is not known, or not true
}

// A Break is where a log stops to be one.
type Break struct {
	Offset  int64  `json:"offset"`                // of the record that is not one, or does not fit
	Reason  string `json:"reason"`                // with what was found, and what is wanted
	Unread  int64  `json:"bytes_behind"`          // from there to the end of the file
	Behind  int    `json:"records_behind"`        // that begin there, by their headers, and are lost with it
	Next    int64  `json:"next_record,omitempty"` // where the first of them begins
	Opening string `json:"opening"`               // what opening the store does: "refused", or "cut off" where nobody was promised what is lost
}

// What opening does about a break.
const (
	openingRefused = "refused"
	openingCutsOff = "cut off"
)

// readings is how often a log is read that looks damaged. Where another process writes, what stands at its end may be half of a
// record when it is read and promised a moment later: then the next reading comes further.
const readings = 8

// until is the file system until ctx ends: a large file takes a while, and nothing of it may be a record.
func until(ctx context.Context) vfs.FS {
	return vfs.NewHook(vfs.OS, func(op vfs.Op) error {
		if op.Kind == vfs.OpClose {
			return nil
		}
		return ctx.Err()
	})
}

// replayLog reads a log or a manifest by read, which is wal.Replay or stands on it, and begins anew. What is torn is a fact, what is
// damaged an error.
func replayLog(ctx context.Context, name string, read func(f vfs.File) (wal.Result, error)) (facts Log, err error) {
	facts.File = filepath.Base(name)
	defer func() {
		if err != nil {
			facts.Error = err.Error()
		}
	}()
	f, err := until(ctx).Open(name)
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := read(f)
	for range readings {
		if !errors.Is(err, corrupt.Err) {
			break
		}
		before := r.End
		if r, err = read(f); r.End == before {
			break
		}
	}
	facts.Bytes, facts.Records, facts.End, facts.Reserved, facts.Promise, facts.OlderDurable = r.Size, r.Records, r.End, r.Reserved, r.Promise, r.OlderDurable
	if r.Torn {
		facts.Torn = cmp.Or(r.Reason, errors.New("incomplete")).Error()
	}
	var damage *corrupt.Error
	if r.Torn || errors.As(err, &damage) {
		facts.Break = &Break{Offset: r.End, Reason: facts.Torn, Behind: r.Behind, Next: r.NextAt, Opening: openingCutsOff}
		if damage != nil {
			facts.Break.Offset, facts.Break.Reason, facts.Break.Opening = damage.Offset, damage.Err.Error(), openingRefused
		}
		facts.Break.Unread = r.Size - facts.Break.Offset
	}
	if r.Torn && r.End == 0 {
		err = cmp.Or(foreignLog(f, name, r.Size), err)
	}
	return facts, err
}

// foreignLog is the error of a file that never was a log. What a crash leaves of one is zeros, or the beginning of its header.
func foreignLog(f vfs.File, name string, size int64) error {
	const magic = "bloomwal"
	head := make([]byte, min(int64(len(magic)), size))
	if n, err := f.ReadAt(head, 0); n < len(head) {
		return fmt.Errorf("%s: offset 0: %w", filepath.Base(name), err)
	}
	if len(bytes.Trim(head, "\x00")) == 0 || strings.HasPrefix(magic, string(head)) {
		return nil
	}
	return corrupt.Newf(name, 0, "no log and no manifest, want it to begin with %q: %s", magic, contents(f, size))
}
