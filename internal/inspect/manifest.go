package inspect

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/internal/words"
)

// A Manifest is a manifest with its edits, as JSON has it.
type Manifest struct {
	Log

	Edits []string `json:"edits"`
}

// ReadManifest reads a manifest. Of a damaged one the error is the damage, and the edits are those before it; any other error is
// one of a file that was not read.
func ReadManifest(name string, number uint64) (m Manifest, err error) {
	m.Edits = []string{}
	m.Log, err = replayLog(name, number, func(payload []byte, end int64) error {
		e, err := manifest.ParseEdit(payload)
		if err != nil {
			return fmt.Errorf("%s: record that ends at %d: %w", filepath.Base(name), end, err)
		}
		m.Edits = append(m.Edits, editText(e))
		return nil
	})
	return m, err
}

// WriteText writes a line about the manifest, and one for each edit.
func (m *Manifest) WriteText(w io.Writer) {
	fmt.Fprintf(w, "manifest %s\n", &m.Log)
	for i, e := range m.Edits {
		fmt.Fprintf(w, "  edit %d: %s\n", i+1, e)
	}
}

// editText puts an edit into words.
func editText(e *manifest.Edit) string {
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.NextFile != 0 {
		say("next file %d", e.NextFile)
	}
	if e.LastSeq != 0 {
		say("sequences up to %d", e.LastSeq)
	}
	if e.MinLog != 0 {
		say("logs from %d", e.MinLog)
	}
	if e.Log != nil {
		say("log %d durable up to %d", e.Log.Number, e.Log.Synced)
	}
	if e.NoLog {
		say("no log")
	}
	for _, d := range e.Deleted {
		say("- table %d from level %d", d.Number, d.Level)
	}
	for _, t := range e.Added {
		say("+ table %d to level %d run %d (%s)", t.Table.Number, t.Level, t.Run, tableText(t.Table))
	}
	for _, c := range e.Counts {
		say("filter of table %d: about %d negative, %d true positive, %d false positive, %d not asked",
			c.Number, c.Negatives, c.TruePositives, c.FalsePositives, c.Unfiltered)
	}
	return strings.Join(parts, ", ")
}

// tableText puts what a manifest knows of a table into words.
func tableText(t *manifest.Table) string {
	s := words.Plural(t.Entries, "entry") + ", "
	if t.RangeDeletes > 0 {
		s += words.Plural(t.RangeDeletes, "range delete") + ", "
	}
	s += words.Escaped(t.Smallest, words.KeyLimit) + " … "
	switch {
	case t.Flags&manifest.LargestInfinite != 0:
		s += "the end"
	case t.Flags&manifest.LargestExclusive != 0:
		s += "before " + words.Escaped(t.Largest, words.KeyLimit)
	default:
		s += words.Escaped(t.Largest, words.KeyLimit)
	}
	if t.Flags&manifest.SeqOverridden != 0 {
		s += fmt.Sprintf(", ingested at sequence %d", t.MaxSeq)
	}
	return s
}
