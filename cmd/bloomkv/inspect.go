package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/manifest"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

func (a *app) inspectCommand() *cobra.Command {
	var asJSON, entries bool
	c := &cobra.Command{
		Use:   "inspect FILE|DIR",
		Short: "Look inside a store, a table, a log or a manifest",
		Long: `inspect reads files and changes nothing; it takes no lock, so a store that is being written may look torn.

Of a store it shows the manifest, every table with its filter, and the logs. Of a table (NNNNNN.sst) it shows the
properties and the filter block: units, probes, bits per key, fill, the rate that was promised and the rate that follows
from the bits, with a picture; and so the prefix filter, if it has one, with its rule. Of a log (NNNNNN.log) and a manifest (MANIFEST-NNNNNN) it shows the records.

Keys are escaped, in JSON too. The exit status is 2 where what it reads is damaged; it reads no data blocks but with
--entries, so that only check tells a store to be whole.`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			i := inspector{app: a, asJSON: asJSON, entries: entries}
			info, err := os.Stat(args[0])
			if err != nil {
				return err
			}
			if info.IsDir() {
				return i.store(args[0])
			}
			switch kind, number := filename.Parse(filepath.Base(args[0])); kind {
			case filename.Log:
				return i.log(args[0], number)
			case filename.Manifest:
				return i.manifest(args[0], number)
			case filename.Current, filename.Lock, filename.Temp:
				return fmt.Errorf("%s holds nothing to look at; want a table, a log, a manifest or a directory", args[0])
			default: // a table may have been renamed
				return i.table(args[0])
			}
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	c.Flags().BoolVar(&entries, "entries", false, "of a table also every block and entry, as text")
	return c
}

type inspector struct {
	*app
	asJSON, entries bool
}

// tableFacts is one table, as JSON has it. Level and Run are known of a table that was found through a manifest.
type tableFacts struct {
	Level       *int         `json:"level,omitempty"`
	Run         *uint64      `json:"run,omitempty"`
	File        string       `json:"file"`
	Bytes       uint64       `json:"bytes"`
	Blocks      uint64       `json:"blocks"`
	Entries     uint64       `json:"entries"`
	Deletes     uint64       `json:"deletes"`
	Smallest    string       `json:"smallest"` // of the entries, escaped
	Largest     string       `json:"largest"`
	RangeDels   uint64       `json:"range_deletes"`
	RangesFrom  string       `json:"range_deletes_from,omitempty"` // escaped; none is the first key
	RangesTo    string       `json:"range_deletes_to,omitempty"`   // exclusive; none is no end
	MinSeq      ikey.Seq     `json:"min_seq"`
	MaxSeq      ikey.Seq     `json:"max_seq"`
	FilterBytes uint64       `json:"filter_bytes"` // on disk; 0 is no filter
	FilterKeys  uint64       `json:"filter_keys"`
	BitsPerKey  float64      `json:"bits_per_key"`
	FPRPromised float64      `json:"fpr_promised"` // 1 without a filter
	FPRFromBits float64      `json:"fpr_from_bits"`
	Sample      int          `json:"sample_hashes"`    // 0 is no sample
	SampleKeys  float64      `json:"keys_from_sample"` // distinct, estimated from the sample alone
	Units       []unitFacts  `json:"units,omitempty"`
	Prefix      *prefixFacts `json:"prefix_filter,omitempty"`
	Damage      *damageFacts `json:"damage,omitempty"` // of the filter, of the sample, or of all: then the rest is unknown

	block []byte // the filter block
}

type damageFacts struct {
	Error string `json:"error"`
	err   error
}

// keyLimit is how many bytes of a key are shown.
const keyLimit = 48

// inspectTable reads a table. Damage is among the facts where it is the filter's or the sample's alone, and an error otherwise.
func inspectTable(name string) (facts tableFacts, err error) {
	facts = tableFacts{File: filepath.Base(name), FPRPromised: 1, FPRFromBits: 1}
	f, err := vfs.OS.Open(name)
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return facts, err
	}
	facts.Bytes = uint64(max(size, 0))
	r, err := sstable.Open(f, size, name)
	if err != nil {
		return facts, err
	}
	defer r.Close()
	p, err := r.Properties()
	if err != nil {
		return facts, err
	}
	facts.Blocks, facts.Entries, facts.Deletes = p.Blocks, p.Entries, p.Deletes
	facts.Smallest, facts.Largest = escaped(p.Smallest, keyLimit), escaped(p.Largest, keyLimit)
	facts.MinSeq, facts.MaxSeq, facts.RangeDels = p.MinSeq, p.MaxSeq, p.RangeDeletes
	meta := r.Meta()
	facts.FilterBytes, facts.FilterKeys = meta.FilterLen-p.Prefixes.Bytes, p.FilterKeys
	facts.BitsPerKey = bitsPerKey(facts.FilterBytes, p.FilterKeys)
	if p.Prefixes.Bytes > 0 {
		if facts.Prefix, err = inspectPrefixes(f, r, &p.Prefixes); err != nil {
			return facts, err
		}
	}
	if err := r.Load(0); err != nil {
		return facts, err
	}
	if dels := r.RangeDels(); len(dels) > 0 {
		facts.RangesFrom, facts.RangesTo = escaped(dels[0].Start, keyLimit), escaped(dels[len(dels)-1].End, keyLimit)
	}
	sample, err := r.Sample()
	if errors.Is(err, bloomkv.ErrCorruption) {
		facts.Damage = &damageFacts{err.Error(), err}
	} else if sample != nil {
		facts.Sample, facts.SampleKeys = sample.Len(), sample.Distinct()
	}
	state := r.FilterState()
	if damage := damageOf(state.Damage); damage != nil {
		facts.Damage = damage
		return facts, nil
	}
	facts.FPRPromised = state.Rate
	if filter := r.Filter(); filter != nil {
		facts.FPRFromBits, facts.Units = inspectFilter(filter)
	}
	facts.block, err = filterBlock(f, meta.Size, meta.TailLen+p.Prefixes.Bytes, facts.FilterBytes)
	return facts, err
}

// keys puts the bounds of a table's entries into words.
func (t *tableFacts) keys(between string) string {
	if t.Entries == 0 {
		return ""
	}
	return t.Smallest + between + t.Largest
}

// rangeDeletes puts a table's range deletes into words, or is empty where there are none.
func (t *tableFacts) rangeDeletes() string {
	if t.RangeDels == 0 {
		return ""
	}
	return fmt.Sprintf("%s from %s to %s", plural(t.RangeDels, "range delete"), cmp.Or(t.RangesFrom, "the first key"), cmp.Or(t.RangesTo, "the end"))
}

func (i inspector) table(name string) error {
	t, err := inspectTable(name)
	if err != nil {
		return err
	}
	if i.asJSON {
		return errors.Join(i.printJSON(t), t.damage())
	}
	fmt.Fprintf(i.out, "table %s: %s, %s, %s (%s), sequences %d to %d\n",
		escaped([]byte(t.File), 256), plural(t.Bytes, "byte"), plural(t.Blocks, "block"), plural(t.Entries, "entry"),
		plural(t.Deletes, "delete"), t.MinSeq, t.MaxSeq)
	if keys := t.keys(" to "); keys != "" {
		fmt.Fprintf(i.out, "keys from %s\n", keys)
	}
	if dels := t.rangeDeletes(); dels != "" {
		fmt.Fprintln(i.out, dels)
	}
	fmt.Fprint(i.out, "\nfilter: ")
	if err := i.filter(t.block, t.Damage); err != nil {
		return err
	}
	if p := t.Prefix; p != nil {
		fmt.Fprintf(i.out, "\nprefix filter by %s: ", p.Rule)
		if err := i.filter(p.block, p.Damage); err != nil {
			return err
		}
	}
	if t.Sample > 0 {
		fmt.Fprintf(i.out, "sample: %s; keys estimated from it %.0f\n", plural(t.Sample, "hash"), t.SampleKeys)
	}
	if i.entries {
		fmt.Fprintln(i.out)
		err = i.dumpEntries(name)
	}
	return errors.Join(err, t.damage())
}

func (i inspector) dumpEntries(name string) (err error) {
	f, err := vfs.OS.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	r, err := sstable.Open(f, size, name)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Dump(printableLines{i.out}, true)
}

// printableLines escapes what could drive a terminal in each Write of whole lines.
type printableLines struct {
	out interface{ Write([]byte) (int, error) }
}

func (p printableLines) Write(b []byte) (int, error) {
	var out []byte
	for line := range bytes.Lines(b) {
		body := bytes.TrimSuffix(line, []byte{'\n'})
		out = appendPrintable(out, body)
		if len(body) < len(line) {
			out = append(out, '\n')
		}
	}
	if _, err := p.out.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

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
}

func (i inspector) store(dir string) error {
	s, err := manifest.Load(vfs.OS, dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no store here: %w", err) // it names CURRENT
		}
		return fmt.Errorf("%s: %w", dir, err)
	}
	facts := storeFacts{
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
				f.block = nil // a picture would be too much here
				f.Level, f.Run = &level, &run.ID
				f.MinSeq, f.MaxSeq = t.MinSeq, t.MaxSeq // an ingested table does not know its own
				if err != nil {
					f.Damage = damageOf(err)
				}
				if err := f.damage(); err != nil {
					damage = append(damage, err)
				}
				facts.Tables = append(facts.Tables, f)
			}
		}
	}
	names, err := vfs.OS.List(dir)
	if err != nil {
		return err
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
	if i.asJSON {
		return errors.Join(append([]error{i.printJSON(facts)}, damage...)...)
	}
	i.printStore(&facts)
	return errors.Join(damage...)
}

func (i inspector) printStore(s *storeFacts) {
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
				cmp.Or(units, "-"), cmp.Or(fill, "-"), t.FPRPromised, t.FPRFromBits, t.Prefix.describe(), cmp.Or(t.keys(" … "), "-"))
		}
		w.Flush()
	}
	for n := range s.Logs {
		fmt.Fprintf(i.out, "\nlog %s\n", &s.Logs[n])
	}
	for _, name := range s.Others {
		fmt.Fprintf(i.out, "\nother file: %s\n", escaped([]byte(name), 256))
	}
}
