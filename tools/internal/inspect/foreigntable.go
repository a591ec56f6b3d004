package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bloomkv/bloomkv/internal/corrupt"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/internal/filterexam"
	"github.com/bloomkv/bloomkv/tools/internal/foreign"
	"github.com/bloomkv/bloomkv/vfs"
)

// ErrNotForeign is returned for a file or a directory that no other known store has written.
var ErrNotForeign = foreign.ErrNotForeign

// A Foreign contains the facts of a table of another store, with their names in JSON.
type Foreign struct {
	File string `json:"file"`
	foreign.Facts

	Smallest string          `json:"smallest"` // keys, escaped
	Largest  string          `json:"largest"`
	Exam     *foreign.Exam   `json:"exam,omitempty"`
	Answers  []ForeignAnswer `json:"keys,omitempty"` // with --key
	Damage   *Damage         `json:"damage,omitempty"`

	path  string
	wrong []error
	bits  *filterexam.UnitExam // nil unless it is a Bloom filter
	line  int                  // as Bloom of package foreign returns it
}

// A ForeignAnswer is the result for a key of --key.
type ForeignAnswer struct {
	Key string `json:"key"` // escaped
	foreign.Answer

	// Verdict is as for a KeyTable.
	Verdict string `json:"verdict"`
}

// The work that is done for one table: a table alone, or one of many.
var (
	foreignAlone = foreign.Limits{Blocks: 1 << 15, Drawn: 1 << 22, Absent: 1 << 20}
	foreignMany  = foreign.Limits{Blocks: 1 << 8, Drawn: 1 << 18, Absent: 1 << 14}
)

// ReadForeign reads a table of another store: its properties, its filters and the keys of its data blocks, and what o
// selects. It returns ErrNotForeign for another file.
func ReadForeign(ctx context.Context, name string, o Options) (*Foreign, error) {
	return readForeign(ctx, name, o, foreignAlone)
}

// withForeign opens a table of another store, and closes it after body. It returns ErrNotForeign for another file.
func withForeign(name string, body func(t *foreign.Table) error) (err error) {
	file, err := vfs.OS.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return err
	}
	t, err := foreign.Open(file, size, name)
	if errors.Is(err, corrupt.Err) {
		return fmt.Errorf("%w; %s", err, contents(file, size))
	}
	if err != nil {
		return err
	}
	return body(t)
}

func readForeign(ctx context.Context, name string, o Options, l foreign.Limits) (f *Foreign, err error) {
	err = withForeign(name, func(t *foreign.Table) error {
		f = &Foreign{path: cmp.Or(o.Path, name), File: filepath.Base(name)}
		f.read(ctx, t, o, l)
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// read reads what is known of a table.
func (f *Foreign) read(ctx context.Context, t *foreign.Table, o Options, l foreign.Limits) {
	f.wrong = append(f.wrong, t.FilterErr())
	first, last, err := t.Bounds()
	f.Smallest, f.Largest = words.Escaped(first, words.KeyLimit), words.Escaped(last, words.KeyLimit)
	exam, failed := t.Examine(ctx, l)
	err = cmp.Or(err, failed)
	for _, key := range o.Keys {
		answer, failed := t.Ask(ctx, key)
		err = cmp.Or(err, failed)
		f.answer(key, answer)
	}
	if ctx.Err() != nil {
		return
	}
	f.Exam = exam
	f.Facts = t.Facts // Examine has completed them
	f.examineBits(t)
	f.note(err)
	f.escape()
}

// examineBits examines the bits of a Bloom filter.
func (f *Foreign) examineBits(t *foreign.Table) {
	bits, line := t.Bloom()
	if len(bits) == 0 || f.Filter == nil || f.Filter.Unread != "" {
		return
	}
	keys := f.Filter.Recorded
	if keys == 0 && f.Exam.Complete {
		keys = f.Exam.Keys
	}
	f.line, f.bits = line, filterexam.ExamineBits(bits, line, keys, f.Filter.Probes)
}

// note records the reason why data blocks cannot be read: damage, or something unknown.
func (f *Foreign) note(err error) {
	switch {
	case errors.Is(err, foreign.ErrUnknown):
		f.Notes = append(f.Notes, strings.TrimPrefix(err.Error(), f.File+": "))
	case err != nil:
		f.Damage = damageOf(err)
		f.wrong = append(f.wrong, err)
	}
	// A filter that is not known is one of the facts.
	f.wrong = slices.DeleteFunc(f.wrong, func(err error) bool { return errors.Is(err, foreign.ErrUnknown) })
}

// answer adds the result for a key.
func (f *Foreign) answer(key []byte, a foreign.Answer) {
	all := ForeignAnswer{Key: words.Escaped(key, words.KeyLimit), Answer: a, Verdict: "not asked"}
	switch {
	case a.Asked && a.Found == "unknown":
		all.Verdict = "not known"
	case a.Asked:
		_, all.Verdict = verdict(a.Maybe, a.Found != "nothing")
	}
	if all.Verdict == falseNegative {
		offset := int64(a.Trace.Offset) //nolint:gosec // an offset in a file
		const format = "the filter denies key %s, which the table holds"
		f.wrong = append(f.wrong, corrupt.Newf(f.File, offset, format, all.Key))
	}
	f.Answers = append(f.Answers, all)
}

// escape escapes all text from the file.
func (f *Foreign) escape() {
	const limit = 200 // bytes
	printable := func(s *string) { *s = string(words.AppendPrintable(nil, []byte(*s))) }
	f.Comparator = words.Escaped([]byte(f.Comparator), limit)
	for i := range f.Notes {
		printable(&f.Notes[i])
	}
	for i := range f.Answers {
		printable(&f.Answers[i].Why)
	}
	if f.Filter != nil {
		f.Filter.Policy = words.Escaped([]byte(f.Filter.Policy), limit)
		printable(&f.Filter.Unread)
	}
	if f.Exam != nil {
		printable(&f.Exam.Why)
	}
	for i := range f.Properties {
		p := &f.Properties[i]
		p.Name, p.Value = words.Escaped([]byte(p.Name), limit), words.Escaped([]byte(p.Value), limit)
	}
}

// Wrong returns the errors of damage, or nil.
func (f *Foreign) Wrong() error { return errors.Join(f.wrong...) }

// rates returns the rates as text: by formula, from bits, and measured between keys.
func (f *Foreign) rates() (formula, fromBits, between string) {
	if f.Exam == nil || f.Exam.Bits == 0 {
		return noCell, noCell, noCell
	}
	between = noCell
	if m := f.Exam.Between; m != nil && m.Probes > 0 {
		between = fmt.Sprintf("%s ± %s", rate(m.Rate), errorFigure(m.Err))
	}
	return rate(f.Exam.Formula), rate(f.Exam.FromBits), between
}
