package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/bloomkv/bloomkv/internal/wal"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Log is one log, as JSON has it.
type Log struct {
	File         string `json:"file"`
	Bytes        int64  `json:"bytes"`
	Records      int    `json:"records"`
	End          int64  `json:"end"`                // of the last whole record
	Reserved     int64  `json:"reserved,omitempty"` // bytes of zeros behind it
	Torn         string `json:"torn,omitempty"`
	Promise      int64  `json:"durable_to"` // as far as the log itself says
	OlderDurable bool   `json:"older_logs_durable"`
}

// replayLog reads a log or a manifest. What is torn is a fact, what is damaged an error.
func replayLog(name string, number uint64, each func(payload []byte, end int64) error) (facts Log, err error) {
	f, err := vfs.OS.Open(name)
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := wal.Replay(f, name, number, each)
	facts = Log{File: filepath.Base(name), Bytes: r.Size, Records: r.Records, End: r.End, Reserved: r.Reserved, Promise: r.Promise, OlderDurable: r.OlderDurable}
	if r.Torn {
		facts.Torn = cmp.Or(r.Reason, errors.New("incomplete")).Error()
	}
	return facts, err
}

func (f *Log) String() string {
	s := fmt.Sprintf("%s: %s, %s up to %d, says it is durable up to %d", f.File, words.Plural(f.Bytes, "byte"), words.Plural(f.Records, "record"), f.End, f.Promise)
	if f.OlderDurable {
		s += ", and all older logs"
	}
	if f.Reserved > 0 {
		s += fmt.Sprintf("; %s of zeros behind, reserved", words.Plural(f.Reserved, "byte"))
	}
	if f.Torn != "" {
		s += "; torn there: " + f.Torn
	}
	return s
}

// A Record is where a record of a log ends, and how long it is.
type Record struct {
	End   int64 `json:"end"`
	Bytes int   `json:"bytes"`
}

// A RecordLog is a log with its records, as JSON has it.
type RecordLog struct {
	Log

	List []Record `json:"record_list"`
}

// ReadLog reads a log. Of a damaged one the error is the damage, and the records are those before it; any other error is one of a
// file that was not read.
func ReadLog(name string, number uint64) (l RecordLog, err error) {
	l.List = []Record{}
	l.Log, err = replayLog(name, number, func(payload []byte, end int64) error {
		l.List = append(l.List, Record{end, len(payload)})
		return nil
	})
	return l, err
}

// WriteText writes a line about the log, and one for each record.
func (l *RecordLog) WriteText(w io.Writer) {
	fmt.Fprintf(w, "log %s\n", &l.Log)
	for i, r := range l.List {
		fmt.Fprintf(w, "  record %d: %s at %d\n", i+1, words.Plural(r.Bytes, "byte"), r.End-int64(r.Bytes))
	}
}
