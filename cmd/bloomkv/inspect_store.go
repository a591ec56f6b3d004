package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"text/tabwriter"

	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/vfs"
)

// storeFacts is a whole store, as JSON has it.
type storeFacts struct {
	Manifest string       `json:"manifest"`
	Torn     bool         `json:"manifest_torn"` // its last edit was never acknowledged
	NextFile uint64       `json:"next_file"`
	LastSeq  ikey.Seq     `json:"last_seq"`
	MinLog   uint64       `json:"min_log"`
	Tables   []tableFacts `json:"tables"`
	Logs     []logFacts   `json:"logs"`
	Others   []string     `json:"other_files"`
	Key      *keyFacts    `json:"key,omitempty"` // with --key
}

// looks is how often a store is looked at whose files go while it is looked at: without its lock they may.
const looks = 3

func (i inspector) store(dir string) error {
	var (
		facts storeFacts
		wrong error
	)
	for n := range looks {
		var err error
		facts, wrong, err = i.look(dir)
		gone := errors.Is(errors.Join(err, wrong), fs.ErrNotExist)
		if gone && n < looks-1 {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	if i.asJSON {
		return errors.Join(i.printJSON(facts), wrong)
	}
	i.printStore(&facts)
	return wrong
}

// look reads a store. What is damaged is among the facts, and in wrong.
func (i inspector) look(dir string) (facts storeFacts, wrong, err error) {
	s, err := manifest.Load(vfs.OS, dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return facts, nil, fmt.Errorf("no store here: %w", err) // it names CURRENT
		}
		return facts, nil, fmt.Errorf("%s: %w", dir, err)
	}
	if i.key != nil {
		i.key.Tables = []keyTable{}
	}
	facts = storeFacts{
		Manifest: filename.Base(filename.Manifest, s.ManifestNumber), Torn: s.Torn,
		NextFile: s.NextFile, LastSeq: s.LastSeq, MinLog: s.MinLog,
		Tables: []tableFacts{}, Logs: []logFacts{}, Others: []string{},
	}
	var damage []error
	known := map[string]bool{facts.Manifest: true, filename.CurrentName: true, filename.LockName: true}
	for level, runs := range s.Version.Levels {
		for _, run := range runs {
			for _, t := range run.Tables {
				name := filename.Make(dir, filename.Table, t.Number)
				known[filepath.Base(name)] = true
				f, err := inspectTable(name)
				f.Level, f.Run, f.Live = &level, &run.ID, newLiveFacts(&s, t.Number)
				f.MinSeq, f.MaxSeq = t.MinSeq, t.MaxSeq // an ingested table does not know its own
				if err != nil {
					f.Damage = damageOf(err)
				}
				damage = append(damage, f.damage())
				if i.verify && err == nil {
					f.Verify, err = verifyFilter(i.ctx, name)
					damage = append(damage, err, f.Verify.damage())
				}
				facts.Tables = append(facts.Tables, f)
			}
			if i.key != nil {
				damage = append(damage, i.key.askRun(dir, level, &run))
			}
		}
	}
	if facts.Key = i.key; facts.Key != nil {
		damage = append(damage, facts.Key.damage())
	}
	names, err := vfs.OS.List(dir)
	if err != nil {
		return facts, nil, err
	}
	for _, name := range names {
		kind, number := filename.Parse(name)
		switch {
		case known[name]:
		case kind == filename.Log && number >= s.MinLog:
			f, err := replayLog(filepath.Join(dir, name), number, nil)
			if err != nil {
				f.File = name
				damage = append(damage, err)
			}
			facts.Logs = append(facts.Logs, f)
		default:
			facts.Others = append(facts.Others, name)
		}
	}
	return facts, errors.Join(damage...), nil
}

func (i inspector) printStore(s *storeFacts) {
	wrapped(i.out, "read without the store's lock: what another process changes meanwhile may look torn")
	fmt.Fprintf(i.out, "%s: next file %d, sequences up to %d, logs from %d\n", s.Manifest, s.NextFile, s.LastSeq, s.MinLog)
	if s.Torn {
		fmt.Fprintln(i.out, "its last edit is not whole: it was never acknowledged, and is not part of the store")
	}
	if len(s.Tables) > 0 {
		fmt.Fprintln(i.out)
		w := tabwriter.NewWriter(i.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "level\trun\ttable\tbytes\tentries\tdeletes\trange deletes\tfilter\tbits/key\tunits, probes\tfill\tpromised\tfrom the bits\tprefix filter, bytes, promised\tkeys")
		for n := range s.Tables {
			t := &s.Tables[n]
			units, fill := t.describe()
			fmt.Fprintf(w, "%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t%s\t%s\t%.3g\t%.3g\t%s\t%s\n",
				*t.Level, *t.Run, t.File, t.Bytes, t.Entries, t.Deletes, t.RangeDels, t.FilterBytes, t.BitsPerKey,
				cmp.Or(units, "-"), cmp.Or(fill, "-"), t.FPRPromised, t.FPRFromBits, t.Prefix.describe(), t.keys())
		}
		w.Flush()
	}
	if i.verify {
		fmt.Fprintln(i.out)
		for n := range s.Tables {
			wrapped(i.out, fmt.Sprintf("%s: %s", s.Tables[n].File, s.Tables[n].Verify.verdict()))
		}
	}
	if s.Key != nil {
		drawKey(i.out, s.Key)
	}
	for n := range s.Logs {
		fmt.Fprintf(i.out, "\nlog %s\n", &s.Logs[n])
	}
	for _, name := range s.Others {
		fmt.Fprintf(i.out, "\nother file: %s\n", escaped([]byte(name), 256))
	}
}
