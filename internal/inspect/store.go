package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// A Store is a whole store, as JSON has it.
type Store struct {
	Manifest string   `json:"manifest"`
	Torn     bool     `json:"manifest_torn"` // its last edit was never acknowledged
	NextFile uint64   `json:"next_file"`
	LastSeq  ikey.Seq `json:"last_seq"`
	MinLog   uint64   `json:"min_log"`
	Tree     Figures  `json:"tree"`              // all of it
	Levels   []Level  `json:"levels"`            // those that have tables, newest first
	Plan     *Plan    `json:"plan,omitempty"`    // missing where the filters are of none that is known, as with Options.FilterMemory
	Memory   Memory   `json:"memory"`            //
	Overlap  *Overlap `json:"overlap,omitempty"` // missing where there are fewer than two runs, or filters are too large to look at all together
	WhatIf   []WhatIf `json:"what_if,omitempty"` // with --what-if
	Flags    []Flag   `json:"flags"`             // what is not as it should be
	Tables   []Table  `json:"tables"`            // newest data first, ascending in each run
	Logs     []Log    `json:"logs"`
	Others   []string `json:"other_files"`
	Key      *Key     `json:"key,omitempty"` // with --key

	wrong []error
}

// looks is how often a store is looked at whose files go while it is looked at: without its lock they may.
const looks = 3

// ReadStore reads the manifest of a store, its tables and its logs. An error is one of a store of which nothing can be told.
func ReadStore(ctx context.Context, dir string, o Options) (s *Store, err error) {
	for range looks {
		s, err = look(ctx, dir, o)
		if err == nil && !errors.Is(s.Wrong(), fs.ErrNotExist) || err != nil && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return s, err
}

// Wrong is what is damaged of the store, or its filters deny, or could not be read: nil is nothing.
func (s *Store) Wrong() error { return errors.Join(s.wrong...) }

func look(ctx context.Context, dir string, o Options) (*Store, error) {
	m, err := manifest.Load(vfs.OS, dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no store here: %w", err) // it names CURRENT
		}
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	s := &Store{
		Manifest: filename.Base(filename.Manifest, m.ManifestNumber), Torn: m.Torn,
		NextFile: m.NextFile, LastSeq: m.LastSeq, MinLog: m.MinLog,
		Logs: []Log{}, Others: []string{},
	}
	if o.Key != nil {
		s.Key = newKey(o.Key)
	}
	tables := newTree(dir, &m)
	if err := tables.read(ctx, dir, &m, o); err != nil {
		return nil, err
	}
	tables.tell(s)
	for _, q := range o.WhatIf {
		w, err := tables.ask(s, q)
		if err != nil {
			return nil, fmt.Errorf("--what-if %s: %w", q.text, err)
		}
		s.WhatIf = append(s.WhatIf, w)
	}
	known := map[string]bool{s.Manifest: true, filename.CurrentName: true, filename.LockName: true}
	for _, t := range tables.members {
		known[t.file()] = true
		s.wrong = append(s.wrong, t.facts.Wrong())
	}
	for _, r := range tables.runs {
		if s.Key != nil {
			s.wrong = append(s.wrong, s.Key.askRun(dir, r.level, &r.run))
		}
	}
	s.wrong = append(s.wrong, s.Key.damage())
	names, err := vfs.OS.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		kind, number := filename.Parse(name)
		switch {
		case known[name]:
		case kind == filename.Log && number >= m.MinLog:
			l, err := readLog(filepath.Join(dir, name), number, o, 0)
			s.wrong = append(s.wrong, err)
			s.Logs = append(s.Logs, l.Log)
		default:
			s.Others = append(s.Others, name)
		}
	}
	return s, nil
}
