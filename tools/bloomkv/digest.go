package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/digest"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/outfile"
)

// digester has the flags of digest.
type digester struct {
	*app

	opts   bloomkv.DigestOptions
	ribbon bool
	out    string
	lackIn string
	list   bool
}

// digestFacts is the result of digest in JSON.
type digestFacts struct {
	ID         string  `json:"id"`
	Keys       uint64  `json:"keys"` // at most
	Bytes      int64   `json:"bytes"`
	BitsPerKey float64 `json:"bits_per_key"`
	Rate       float64 `json:"fpr_promised"`
	Mark       string  `json:"mark,omitempty"` // of the store, escaped

	Runs     []digestRun `json:"runs"` // newest data first
	Compared *lackFacts  `json:"compared,omitempty"`
}

// A digestRun is one run of a digest.
type digestRun struct {
	Parts      int     `json:"parts"` // tables, or one memtable
	Keys       uint64  `json:"keys"`
	Deleted    int     `json:"deleted_ranges"`
	Bytes      uint64  `json:"filter_bytes"`
	BitsPerKey float64 `json:"bits_per_key"`
	Rate       float64 `json:"fpr_promised"` // the highest of its parts
}

// lackFacts compares the keys of a store with a digest.
type lackFacts struct {
	Asked   uint64  `json:"asked"`        // keys of the store
	Lacking uint64  `json:"lacking"`      // certainly not in the other one
	Rate    float64 `json:"fpr_promised"` // of the other digest: the share of keys that it takes for present
}

func (a *app) digestCommand() *cobra.Command {
	d := digester{app: a}
	c := &cobra.Command{
		Use:   "digest DIR|FILE",
		Short: "Print, write or compare a digest: which keys a store may hold",
		Long: `A digest is a small file that answers for a store: "certainly absent" or "maybe present", for any key. It
consists of the filters of the store's tables. With it a program asks before it goes to the store (package digest).

digest DIR makes the digest of a store without reading its data, and prints a row for each run. It changes nothing.
--out writes the digest to a file, and digest FILE prints the same of such a file.

With --lacking-in, each key of the store DIR is asked in the digest of another store. Keys that it denies are certainly
missing there. Missing keys are overlooked with the rate of that digest: make it with a lower --fpr to find more. Keys
that the other store has deleted may be overlooked too, unless its digest is made with --rebuild.

--rebuild reads all keys and makes one filter of those that have a value. It takes longer and makes a smaller digest.`,
		Example: `  bloomkv digest ./store --out store.digest
  bloomkv digest store.digest
  bloomkv digest ./store --rebuild --fpr 0.001 --ribbon --out small.digest
  bloomkv digest ./store --lacking-in other.digest --list
  bloomkv digest ./store --lacking-in ./other`,
		RunE: func(c *cobra.Command, args []string) error {
			if d.ribbon {
				if d.opts.Kind = bloomkv.FilterRibbon; !d.opts.Rebuild {
					return errors.New("--ribbon needs --rebuild: otherwise the filters are those of the tables")
				}
			}
			if d.list && d.lackIn == "" {
				return errors.New("--list needs --lacking-in: it prints the keys that are missing there")
			}
			if d.list && d.asJSON {
				return errors.New("--list prints keys, one per line: use it without --json")
			}
			return d.run(c.Context(), args[0])
		},
	}
	f := c.Flags()
	f.Float64Var(&d.opts.FPR, "fpr", 0, "highest `RATE` of false positives; 0 means that of the store")
	f.BoolVar(&d.opts.Rebuild, "rebuild", false, "read all keys and make one filter of them")
	f.BoolVar(&d.ribbon, "ribbon", false, "with --rebuild: make a Ribbon filter, three tenths smaller")
	f.StringVar(&d.out, "out", "", "write the digest to `FILE`")
	f.StringVar(&d.lackIn, "lacking-in", "", "count the keys that the digest of `DIR|FILE` denies")
	f.BoolVar(&d.list, "list", false, "with --lacking-in: print these keys, escaped, one per line")
	d.addJSON(c, "print a JSON object")
	return c
}

func (d *digester) run(ctx context.Context, name string) error {
	if isFile(name) {
		if d.lackIn != "" || d.out != "" || d.opts.FPR != 0 || d.opts.Rebuild {
			return fmt.Errorf("%s is a file: --out, --lacking-in, --fpr and --rebuild need the directory of a store",
				name)
		}
		got, err := digestOf(ctx, name)
		if err != nil {
			return err
		}
		return d.print(name, got, nil)
	}
	var other *digest.Digest
	if d.lackIn != "" {
		var err error
		if other, err = digestOf(ctx, d.lackIn); err != nil {
			return err
		}
	}
	db, err := openToRead(ctx, name)
	return with(db, err, func(db *bloomkv.DB) error {
		made, err := d.make(ctx, db)
		if err != nil {
			return err
		}
		if d.out != "" {
			if err := outfile.WriteFrom(ctx, d.out, made); err != nil {
				return err
			}
		}
		var lack *lackFacts
		if other != nil {
			if lack, err = d.compare(ctx, db, other); err != nil {
				return err
			}
		}
		return d.print(name, made, lack)
	})
}

// make makes the digest of a store. If it reads all keys it shows progress.
func (d *digester) make(ctx context.Context, db *bloomkv.DB) (*digest.Digest, error) {
	if d.opts.Rebuild {
		bar := d.Progress("reading keys", -1, false)
		defer bar.End()
		d.opts.Progress = bar.SetBytes
	}
	return db.Digest(ctx, d.opts)
}

// digestOf returns the digest in a file or of a store.
func digestOf(ctx context.Context, name string) (*digest.Digest, error) {
	return fromEither(ctx, name, "\"bloomkv digest DIR --out FILE\" writes a new one",
		func(in io.Reader) (*digest.Digest, error) { return digest.Read(bufio.NewReader(in)) },
		func(db *bloomkv.DB) (*digest.Digest, error) { return db.Digest(ctx, bloomkv.DigestOptions{}) })
}

// compare asks other for each key of db.
func (d *digester) compare(
	ctx context.Context, db *bloomkv.DB, other *digest.Digest,
) (*lackFacts, error) {
	l := &lackFacts{Rate: other.Rate()}
	bar := d.Progress("comparing keys", -1, false)
	defer bar.End()
	most := int(statsOf(db.Metrics()).Entries) //nolint:gosec // far below 2⁶³
	var line []byte
	n, err := each(ctx, db, bloomkv.IterOptions{KeysOnly: true}, bar, most, func(kv bloomkv.KV) (err error) {
		if other.MayContain(kv.Key) {
			return nil
		}
		l.Lacking++
		if d.list {
			line = append(words.AppendEscaped(line[:0], kv.Key), '\n')
			_, err = d.Out.Write(line)
		}
		return err
	})
	l.Asked = uint64(n) //nolint:gosec // a count
	return l, err
}

// runsOf returns the runs of a digest.
func runsOf(made *digest.Digest) []digestRun {
	runs := []digestRun{} // in JSON no runs are [] and not null
	for _, parts := range made.Runs() {
		r := digestRun{Parts: len(parts)}
		for _, p := range parts {
			r.Keys += p.Keys
			r.Deleted += len(p.Deleted)
			r.Bytes += p.Header.PrefixSize(len(p.Units)) - bloomblock.HeaderSize
			if p.Keys > 0 {
				r.Rate = max(r.Rate, p.Header.Rate(len(p.Units)))
			}
		}
		r.BitsPerKey = float64(r.Bytes) * 8 / float64(max(1, r.Keys))
		runs = append(runs, r)
	}
	return runs
}

func (d *digester) print(name string, made *digest.Digest, lack *lackFacts) error {
	f := digestFacts{
		ID: fmt.Sprintf("%016x", made.ID()), Keys: made.Keys(), Bytes: made.Size(), Rate: made.Rate(),
		Runs: runsOf(made), Compared: lack, Mark: words.Escaped(made.Mark(), len(made.Mark())),
	}
	f.BitsPerKey = float64(f.Bytes) * 8 / float64(max(1, f.Keys))
	switch {
	case d.asJSON:
		return d.PrintJSON(f)
	case d.list:
		return nil // the keys alone
	}
	if len(f.Runs) > 0 {
		w := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "run\tparts\tkeys\tdeleted ranges\tfilter bytes\tbits/key\tpromised\t")
		for i, r := range f.Runs {
			fmt.Fprintf(w, "%d\t%d\t%s\t%d\t%s\t%.1f\t%.3g\t\n", i+1, r.Parts, words.Count(r.Keys), r.Deleted,
				words.Count(r.Bytes), r.BitsPerKey, r.Rate)
		}
		w.Flush()
		fmt.Fprintln(d.Out)
	}
	fmt.Fprintf(d.Out, "%s: at most %s in %s, %.1f bits per key\nfalse positives: at most %.3g, id %s\n",
		words.Escaped([]byte(name), 200), words.Plural(f.Keys, "key"), words.Plural(f.Bytes, "byte"), f.BitsPerKey,
		f.Rate, f.ID)
	d.printMark(f.Mark)
	if lack != nil {
		fmt.Fprintf(d.Out, "missing in %s: %d of %s for certain; false positives there: at most %.3g\n",
			words.Escaped([]byte(d.lackIn), 200), lack.Lacking, words.Plural(lack.Asked, "key"), lack.Rate)
	}
	return nil
}
