package inspect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/recovery"
	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Log contains the facts of one log, with their names in JSON.
type Log struct {
	File         string   `json:"file"`
	Bytes        int64    `json:"bytes"`
	Records      int      `json:"records"` // complete records
	Operations   uint64   `json:"operations,omitempty"`
	FirstSeq     ikey.Seq `json:"first_seq,omitempty"` // of the operations; 0 in a manifest
	LastSeq      ikey.Seq `json:"last_seq,omitempty"`
	End          int64    `json:"end"`                // of the last complete record
	Reserved     int64    `json:"reserved,omitempty"` // bytes of zeros after it
	Torn         string   `json:"torn,omitempty"`
	Promise      int64    `json:"durable_to"` // according to the log itself
	OlderDurable bool     `json:"older_logs_durable"`
	Break        *Break   `json:"break,omitempty"` // absent if the log is intact
	Error        string   `json:"error,omitempty"` // why the rest is not known or wrong
}

// A Break is the position where the records of a log end too early.
type Break struct {
	Offset int64  `json:"offset"`                // of the record that is broken or does not fit
	Reason string `json:"reason"`                // what was found and what is wanted
	Unread int64  `json:"bytes_behind"`          // from there to the end of the file
	Behind int    `json:"records_behind"`        // intact records after it, which are lost with it
	Next   int64  `json:"next_record,omitempty"` // where the first of them begins
	// what opening the store does: "refused", or "cut off" if the lost records were never acknowledged
	Opening string `json:"opening"`
}

// What opening the store does about a break.
const (
	openingRefused = "refused"
	openingCutsOff = "cut off"
)

// readings is the maximum number of times that a damaged log is read. While another process writes, the end of the
// log may be half a record when it is read, and complete a moment later; then the next reading gets further.
const readings = 8

// replayLog reads a log or a manifest with read, which calls wal.Replay and starts anew each time. A torn end is one
// of the facts; damage is an error.
func replayLog(ctx context.Context, name string, read func(f vfs.File) (wal.Result, error)) (facts Log, err error) {
	facts.File = filepath.Base(name)
	defer func() {
		if err != nil {
			facts.Error = err.Error()
		}
	}()
	f, err := recovery.Until(ctx, vfs.OS).Open(name)
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := read(f)
	for range readings {
		// A log that is closed becomes shorter.
		if !errors.Is(err, corrupt.Err) && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		before := r.End
		if r, err = read(f); r.End == before {
			break
		}
	}
	facts.Bytes, facts.Records, facts.End, facts.Reserved, facts.Promise, facts.OlderDurable = r.Size, r.Records, r.End,
		r.Reserved, r.Promise, r.OlderDurable
	if r.Torn {
		facts.Torn = cmp.Or(r.Reason, errors.New("incomplete")).Error()
	}
	var damage *corrupt.Error
	if r.Torn || errors.As(err, &damage) {
		facts.Break = &Break{
			Offset: r.End, Reason: facts.Torn, Behind: r.Behind, Next: r.NextAt,
			Opening: openingCutsOff,
		}
		if damage != nil {
			facts.Break.Offset, facts.Break.Reason, facts.Break.Opening = damage.Offset, damage.Err.Error(),
				openingRefused
		}
		facts.Break.Unread = r.Size - facts.Break.Offset
	}
	if r.Torn && r.End == 0 {
		err = cmp.Or(foreignLog(f, name, r.Size), err)
	}
	return facts, err
}

// foreignLog returns an error if the file never was a log. A crash leaves zeros of a log, or the beginning of its
// header.
func foreignLog(f vfs.File, name string, size int64) error {
	const magic = "bloomwal"
	head := make([]byte, min(int64(len(magic)), size))
	if n, err := f.ReadAt(head, 0); n < len(head) {
		return fmt.Errorf("%s: offset 0: %w", filepath.Base(name), err)
	}
	if len(bytes.Trim(head, "\x00")) == 0 || strings.HasPrefix(magic, string(head)) {
		return nil
	}
	return corrupt.Newf(name, 0, "not a log or manifest, want it to begin with %s: %s",
		words.Quoted(magic), contents(f, size))
}

// String describes the log in a line.
func (f *Log) String() string {
	s := fmt.Sprintf("%s: %s, %s up to %d, durable up to %d", words.Escaped([]byte(f.File), 64),
		words.Plural(f.Bytes, "byte"), words.Plural(f.Records, "record"), f.End, f.Promise)
	if f.Error != "" && f.Break == nil {
		return fmt.Sprintf("%s: %s", f.File, words.AppendPrintable(nil, []byte(f.Error)))
	}
	if f.OlderDurable {
		s += ", and all older logs"
	}
	if f.Operations > 0 {
		s += fmt.Sprintf("; %s, sequences %d to %d", words.Plural(f.Operations, "operation"), f.FirstSeq, f.LastSeq)
	}
	if f.Reserved > 0 {
		s += fmt.Sprintf("; then %s of reserved zeros", words.Plural(f.Reserved, "byte"))
	}
	if f.Torn != "" {
		s += "; torn there: " + string(words.AppendPrintable(nil, []byte(f.Torn)))
	}
	return s
}

// String describes the break.
func (b *Break) String() string {
	s := fmt.Sprintf("at offset %d: %s; %s from there on", b.Offset, words.AppendPrintable(nil, []byte(b.Reason)),
		words.Plural(b.Unread, "byte"))
	switch b.Behind {
	case 0:
		s += ", with no record after it"
	case 1:
		s += fmt.Sprintf(", with a record after it, at %d", b.Next)
	default:
		s += fmt.Sprintf(", with %d records after it, the first at %d", b.Behind, b.Next)
	}
	if b.Opening == openingRefused {
		return s + "; they would be lost, so opening the store is refused"
	}
	return s + "; they were never acknowledged, and opening the store cuts them off"
}

// writeBreak writes the break, if there is one.
func (f *Log) writeBreak(w io.Writer) {
	if f.Break == nil {
		return
	}
	what := "torn"
	if f.Break.Opening == openingRefused {
		what = "damaged"
	}
	words.Wrapped(w, fmt.Sprintf("! %s %s", what, f.Break))
}
