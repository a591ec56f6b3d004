package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/words"
)

// lookWithout shows what there is of a store whose manifest cannot be read, for that reason: its tables, in no level, and its logs.
// Where there is nothing of a store the error is returned.
func (v *view) lookWithout(ctx context.Context, reason error, o Options) (*Store, error) {
	if errors.Is(reason, fs.ErrNotExist) {
		if lost := v.found.Lost(); lost != nil {
			reason = lost
		}
	}
	tables, logs := v.found[filename.Table], v.found[filename.Log]
	if len(tables)+len(logs)+len(v.found[filename.Manifest]) == 0 || errors.Is(reason, fs.ErrNotExist) {
		if errors.Is(reason, fs.ErrNotExist) {
			return nil, fmt.Errorf("no store here: %w", reason) // it names CURRENT
		}
		return nil, fmt.Errorf("%s: %w", v.dir, reason)
	}
	s := newStore()
	s.NoManifest = damageOf(reason)
	s.Opening = Opening{Refused: s.NoManifest, Discarded: []string{}}
	s.wrong = append(s.wrong, reason)
	s.Keys = newKeys(o.Keys)
	known := map[string]bool{filename.CurrentName: true, filename.LockName: true}
	for _, n := range tables {
		name := filename.Make(v.dir, filename.Table, n)
		known[filename.Base(filename.Table, n)] = true
		t, err := readTable(name, nil)
		switch {
		case err != nil:
			t.Damage = damageOf(err)
		case o.Verify:
			t.verify(ctx, name)
		}
		s.wrong = append(s.wrong, t.Wrong())
		for _, k := range s.Keys.all() {
			if err == nil {
				s.wrong = append(s.wrong, k.askTable(name))
			}
		}
		s.Loose = append(s.Loose, t)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	s.wrong = append(s.wrong, s.Keys.damage())
	for _, n := range logs {
		known[filename.Base(filename.Log, n)] = true
		s.readLog(ctx, filename.Make(v.dir, filename.Log, n), n, o)
	}
	for _, name := range v.names {
		if !known[name] {
			f := v.file(name)
			if f.Kind == "manifest" {
				f.Reason = "nobody knows which manifest counts"
			}
			s.Others = append(s.Others, f)
		}
	}
	return s, nil
}

// writeLoose writes what is known of a store without its manifest.
func (s *Store) writeLoose(w io.Writer) {
	words.Wrapped(w, fmt.Sprintf("! no manifest: %s", words.AppendPrintable(nil, []byte(s.NoManifest.Error))))
	words.Wrapped(w, "what follows is what the files say by themselves: in which level a table is, and whether it is part of the store at all, nobody knows")
	for i := range s.Loose {
		t := &s.Loose[i]
		if t.Damage != nil {
			words.Wrapped(w, fmt.Sprintf("\n! table %s: %s", t.File, words.AppendPrintable(nil, []byte(t.Damage.Error))))
			continue
		}
		filter := "no filter"
		if t.FilterBytes > 0 {
			filter = fmt.Sprintf("filter of %s for %s, promised %.3g", words.Plural(t.FilterBytes, "byte"), words.Plural(t.FilterKeys, "key"), t.FPRPromised)
		}
		words.Wrapped(w, fmt.Sprintf("table %s in no level known: %s, %s (%s), %s, sequences %d to %d, %s",
			t.File, words.Plural(t.Bytes, "byte"), words.Plural(t.Entries, "entry"), words.Plural(t.Deletes, "delete"),
			words.Plural(t.RangeDels, "range delete"), t.MinSeq, t.MaxSeq, filter))
		if t.Entries > 0 {
			fmt.Fprintln(w, words.Pair("  keys from", t.Smallest, "to", t.Largest))
		}
		if t.verified {
			for _, line := range t.verdicts() {
				words.Wrapped(w, line)
			}
		}
	}
}

// writeFiles writes the store's logs, what is beside it, and what opening it would do.
func (s *Store) writeFiles(w io.Writer) {
	for i := range s.Logs {
		fmt.Fprintln(w)
		words.Wrapped(w, fmt.Sprintf("log %s", &s.Logs[i]))
		s.Logs[i].writeBreak(w)
	}
	if len(s.Missing)+len(s.Vanished)+len(s.Others) > 0 {
		fmt.Fprintln(w)
	}
	for _, name := range s.Missing {
		fmt.Fprintf(w, "! missing: %s, which the manifest names\n", name)
	}
	for _, name := range s.Vanished {
		fmt.Fprintf(w, "vanished: %s, which another process removed while this was read\n", name)
	}
	for _, f := range s.Others {
		of := words.Plural(f.Bytes, "byte")
		if f.Mode != "" {
			of = f.Mode
		}
		words.Wrapped(w, fmt.Sprintf("other file: %s, %s: %s by the next opening; %s", f.File, of, f.Fate, f.Reason))
	}
	fmt.Fprintln(w)
	words.Wrapped(w, s.Opening.String())
}

// String is what opening would do, in words.
func (o *Opening) String() string {
	if o.Refused != nil {
		return fmt.Sprintf("! opening the store is refused: %s", words.AppendPrintable(nil, []byte(o.Refused.Error)))
	}
	s := fmt.Sprintf("opening the store replays %s of logs", words.Plural(o.Records, "record"))
	if o.CutOff != nil {
		s += fmt.Sprintf(", and cuts off what comes behind them: %s", words.AppendPrintable(nil, []byte(o.CutOff.Error)))
	}
	if len(o.Discarded) > 0 {
		s += fmt.Sprintf("; %s of later ones", words.Plural(len(o.Discarded), "log")) + " are discarded"
	}
	return s
}
