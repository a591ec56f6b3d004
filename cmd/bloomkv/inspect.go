package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/filename"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/sstable"
	"github.com/bloomkv/bloomkv/vfs"
)

func (a *app) inspectCommand() *cobra.Command {
	i := inspector{app: a}
	var key string
	c := &cobra.Command{
		Use:   "inspect FILE|DIR",
		Short: "Look inside a store, a table, a log or a manifest",
		Long: `inspect reads files and changes nothing. It takes no lock, so that what another process is writing may look torn.

Of a store it shows the manifest, every table with its filter, and the logs. Of a log (NNNNNN.log) and a manifest
(MANIFEST-NNNNNN) it shows the records. Of a table (NNNNNN.sst) it shows the properties and the filter block: header,
rates (promised, by the number of keys, bits and probes, from the bits, and measured with random hashes), and of each unit
how full its blocks are beside what theory says. What is off by more than it should be is flagged, with "!".
So it shows the prefix filter, if there is one, with its rule.

--verify builds filters again from their tables' keys and compares bit for bit. --key K shows, table by table, fences, what
K probes, how the filter answers, and by reading whether that is right; K is as inspect prints keys. --hex prints the filter
block with what its bytes are. The names in --json are documented with the types Exam, UnitTrace and Difference of package
bloomblock, and in cmd/bloomkv/inspect.go; they do not change.

Keys are escaped, in JSON too. The exit status is 2 where what it reads is damaged, or a filter is not that of its table's
keys; it reads no data blocks but with --entries, --key and --verify, so that only check tells a store to be whole.`,
		Example: `  bloomkv inspect ./store
  bloomkv inspect --verify ./store
  bloomkv inspect --key user/0042 ./store
  bloomkv inspect ./store/000012.sst --json`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			i.ctx = c.Context()
			if i.asJSON && (i.hex || i.entries) {
				return hint(c, errors.New("--hex and --entries are text, want them without --json"))
			}
			if c.Flags().Changed("key") {
				var err error
				if i.key, err = newKeyFacts(key); err != nil {
					return hint(c, err)
				}
			}
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
	c.Flags().BoolVar(&i.asJSON, "json", false, "print a JSON object")
	c.Flags().BoolVar(&i.entries, "entries", false, "of a table also every block and entry, as text")
	c.Flags().BoolVar(&i.verify, "verify", false, "build filters again from the keys of their tables, and compare")
	c.Flags().BoolVar(&i.hex, "hex", false, "of a table also the bytes of its filter block, as text")
	c.Flags().StringVar(&key, "key", "", "show how the filters answer for `KEY`, and whether that is right")
	return c
}

type inspector struct {
	*app
	ctx     context.Context //nolint:containedctx // of the one command that it is
	asJSON  bool
	entries bool
	verify  bool
	hex     bool
	key     *keyFacts // of --key
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
	// Filter is all of the filter block, of a table that is looked at by itself.
	Filter *filterReport `json:"filter,omitempty"`
	Live   *liveFacts    `json:"live,omitempty"`   // of a table of a store that has counted
	Verify *verifyFacts  `json:"verify,omitempty"` // with --verify, of a filter that can be read
	Key    *keyFacts     `json:"key,omitempty"`    // with --key, of a table that is looked at by itself
	Damage *damageFacts  `json:"damage,omitempty"` // of the filter, of the sample, or of all: then the rest is unknown

	filterDamaged bool
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
	if err := checkFilterSize(meta); err != nil {
		return facts, err
	}
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
		facts.Damage, facts.filterDamaged = damage, true
		return facts, nil
	}
	facts.FPRPromised = state.Rate
	if filter := r.Filter(); filter != nil {
		facts.FPRFromBits, facts.Units = inspectFilter(filter)
	}
	return facts, nil
}

// keys puts the bounds of a table's entries into words.
func (t *tableFacts) keys() string {
	if t.Entries == 0 {
		return "-"
	}
	return t.Smallest + " … " + t.Largest
}

func (i inspector) table(name string) error {
	t, err := inspectTable(name)
	if err != nil {
		return err
	}
	wrong := []error{t.damage()}
	var prefix *filterReport
	if t.Filter, prefix, err = examineFilters(name); err != nil {
		return err
	}
	if t.Prefix != nil {
		t.Prefix.Filter = prefix
	}
	t.Live = liveOf(name)
	if i.verify {
		if t.Verify, err = verifyFilter(i.ctx, name); err != nil {
			wrong = append(wrong, err)
		}
		wrong = append(wrong, t.Verify.damage())
	}
	if t.Key = i.key; t.Key != nil {
		wrong = append(wrong, t.Key.askTable(name), t.Key.damage())
	}
	if i.asJSON {
		return errors.Join(append([]error{i.printJSON(t)}, wrong...)...)
	}
	wrapped(i.out, fmt.Sprintf("table %s: %s, %s, %s (%s), sequences %d to %d",
		escaped([]byte(t.File), 64), plural(t.Bytes, "byte"), plural(t.Blocks, "block"), plural(t.Entries, "entry"),
		plural(t.Deletes, "delete"), t.MinSeq, t.MaxSeq))
	if t.Entries > 0 {
		fmt.Fprintln(i.out, pair("keys from", t.Smallest, "to", t.Largest))
	}
	if t.RangeDels > 0 {
		fmt.Fprintln(i.out, pair(plural(t.RangeDels, "range delete")+" from", cmp.Or(t.RangesFrom, "the first key"), "to", cmp.Or(t.RangesTo, "the end")))
	}
	i.printFilter(&t)
	if i.entries {
		fmt.Fprintln(i.out)
		wrong = append(wrong, i.dumpEntries(name))
	}
	return errors.Join(wrong...)
}

// printFilter prints a table's filter, and what was asked about it.
func (i inspector) printFilter(t *tableFacts) {
	fmt.Fprintln(i.out)
	if t.filterDamaged {
		fmt.Fprintln(i.out, "filter: damaged; the table is searched as if it said maybe")
	}
	if t.Filter == nil {
		fmt.Fprintln(i.out, "filter: none")
	} else {
		drawFilter(i.out, "filter", t.Filter, i.color)
	}
	if p := t.Prefix; p != nil {
		fmt.Fprintln(i.out)
		if p.Damage != nil {
			fmt.Fprintf(i.out, "prefix filter by %s: damaged; the table is searched as if it said maybe\n", p.Rule)
		}
		drawFilter(i.out, "prefix filter by "+p.Rule, p.Filter, i.color)
	}
	if t.Sample > 0 {
		fmt.Fprintf(i.out, "\nsample: %s; keys estimated from it %.0f\n", plural(t.Sample, "hash"), t.SampleKeys)
	}
	if l := t.Live; l != nil {
		fmt.Fprintln(i.out)
		wrapped(i.out, fmt.Sprintf("live: rate %.3g, of %s and about %s; %s, and %d without a filter; counted by the store, with as many units as it had in memory",
			l.Rate, plural(l.FalsePositives, "false positive"), plural(l.Negatives, "negative"), plural(l.TruePositives, "true positive"), l.Unfiltered))
	}
	if i.verify {
		fmt.Fprintln(i.out)
		wrapped(i.out, t.Verify.verdict())
	}
	if t.Key != nil {
		drawKey(i.out, t.Key)
	}
	if i.hex && t.Filter != nil {
		fmt.Fprintln(i.out)
		annotate(i.out, t.Filter)
		if t.Prefix != nil {
			annotate(i.out, t.Prefix.Filter)
		}
	}
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
