// Command bloomkv-import copies a store of goleveldb, Pebble, Badger or bbolt into a new bloomkv store.
//
//	go run ./tools/bloomkv-import --from goleveldb /path/of/database /path/of/new/store
//
// It is a program of its own, because it uses the libraries of those stores.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// app is one run of the program.
type app struct{ cli.Streams }

func main() {
	if len(os.Args) == 4 && os.Args[1] == readerArg {
		if err := serve(os.Args[2], os.Args[3], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(cli.ExitTrouble)
		}
		return
	}
	a := &app{cli.Standard()}
	os.Exit(a.run(cli.Context(), os.Args[1:]))
}

// run runs the program with its arguments, prints its error, and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	return a.Main(ctx, "bloomkv-import", a.command(), args)
}

func (a *app) command() *cobra.Command {
	var from string
	var asJSON bool
	c := &cobra.Command{
		Use:   "bloomkv-import PATH NEW",
		Short: "Copy a store of goleveldb, Pebble, Badger or bbolt into a new bloomkv store",
		Long: `bloomkv-import copies every key and value of the store PATH into NEW, a bloomkv store in a directory that
must not exist. PATH is a directory, or the file of bbolt, and no program may have it open for writing. The library of
that store opens it for reading only, in a process of its own. It writes no file, but Pebble, and goleveldb if there is
none, create the file LOCK.

The pairs are written in order, straight into tables. Then the new store is opened and read again: the number of pairs
and the SHA-256 of all keys and values must be those that were read from PATH. Only then does the directory get the name
NEW, and everything is on stable storage. After an error or an interrupt nothing is left. If the process is killed, a
directory whose name begins with NEW.unfinished- is left and may be removed.

  goleveldb  LevelDB databases too, with keys in the order of bytes. The log of a database that was not closed is read;
             if it ends in the middle of a record, its own program must open it once.
  pebble     Stores with keys in the order of bytes. Merged values are those of Pebble's own merge operator, which
             joins them. Stores with range keys, and stores with tables that the manifest does not name, as a killed
             process may leave them, are refused. As for Pebble itself, the newest log ends at its first damaged record.
  badger     The newest version of each key. Entries whose time to live is over are left out. The times to live of the
             others, and user metadata, are not kept; all are counted. Encrypted stores are refused, and most that were
             not closed: open and close them once. Stop a MergeOperator before, so that the newest version is merged.
  bbolt      A key has the names of its buckets in front: each name, then the bytes 0 and 1; in names, 0 is written as
             0 and 255. So a bucket is a prefix, and the order stays; package examples/bucket encodes and splits such
             keys. Empty buckets and sequence numbers of buckets are not kept, but counted. bbolt has no checksums of
             keys and values: only the structure of the file is verified.

Exit status:
  0    success
  2    PATH cannot be read, NEW cannot be written, wrong usage, or any other error
  130  interrupted; nothing is left`,
		Example: `  bloomkv-import --from goleveldb ./chaindata ./store
  bloomkv-import --from bbolt ./my.db ./store --json`,
		Version: version(),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := findStore(from)
			if err != nil {
				return cli.Hint(c, err)
			}
			r, err := a.copyStore(c.Context(), s, args[0], args[1])
			if err != nil {
				return err
			}
			if asJSON {
				return a.PrintJSON(r)
			}
			a.print(r)
			return nil
		},
	}
	c.SetVersionTemplate("{{.Version}}")
	c.Flags().StringVar(&from, "from", "", "`STORE` that has written PATH: "+storeNames())
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	if err := c.RegisterFlagCompletionFunc("from",
		cobra.FixedCompletions(strings.Split(storeNames(), ", "), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is there
	}
	return c
}

// print prints a report as text.
func (a *app) print(r report) {
	fmt.Fprintf(a.Out, "%s: %s from %s, %s of keys and %s of values\n", words.Escaped([]byte(r.Dir), 200),
		words.Plural(r.Pairs, "pair"), r.From, words.Plural(r.KeyBytes, "byte"), words.Plural(r.ValueBytes, "byte"))
	fmt.Fprintf(a.Out, "read again and equal: SHA-256 %s\n", r.SHA256)
	for _, l := range []struct {
		n    uint64
		text string
	}{
		{r.Lost.Expired, "left out, because their time to live is over"},
		{r.Lost.TTLs, "times to live not kept: these pairs stay"},
		{r.Lost.UserMeta, "bytes of user metadata not kept"},
		{r.Lost.EmptyBuckets, "empty buckets not kept"},
		{r.Lost.Sequences, "sequence numbers of buckets not kept"},
	} {
		if l.n > 0 {
			fmt.Fprintf(a.Out, "note: %s: %s\n", l.text, words.Count(l.n))
		}
	}
}

// findStore returns the store with a name.
func findStore(name string) (store, error) {
	for _, s := range stores {
		if s.name == name {
			return s, nil
		}
	}
	if name == "" {
		return store{}, errors.New("--from is missing: want one of " + storeNames())
	}
	return store{}, fmt.Errorf("--from %s: want one of %s", name, storeNames())
}

func storeNames() string {
	var names []string
	for _, s := range stores {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// version returns the versions of this module and of the libraries that read the stores.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "bloomkv-import (unknown)\n"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "bloomkv-import %s, %s\n", info.Main.Version, info.GoVersion)
	for _, d := range info.Deps {
		for _, s := range stores {
			if d.Path == s.module {
				fmt.Fprintf(&text, "%s %s\n", s.name, d.Version)
			}
		}
	}
	return text.String()
}
