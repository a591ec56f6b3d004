package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
)

func (a *app) importCommand() *cobra.Command {
	var opts bloomkv.NewStoreOptions
	c := &cobra.Command{
		Use:   "import NEW [FILE]",
		Short: "Make a store of what export wrote",
		Long: `import makes a store in NEW, a directory that must be empty or not exist, of a stream that export wrote,
from FILE or from standard input. It verifies every byte, and puts the store on stable storage. After an error or an
interrupt, nothing is left in NEW. Then it checks the store, as check does: if tables were damaged before they were
exported, or in the store of --base, the exit status is 2, and NEW stays. An interrupt of the check leaves NEW too.

An export with --since leaves out tables. --base names the directory of a store that has them; it is not changed, and
the tables are hard-linked, or copied where that is not possible.

To load lines of keys and values, see load and ingest.`,
		Example: `  bloomkv import ./copy store.export
  ssh host bloomkv export ./store | bloomkv import ./copy
  bloomkv import --base ./monday ./tuesday tuesday.export`,
		RunE: func(c *cobra.Command, args []string) error {
			in, err := a.openInput(c.Context(), args[1:])
			if err != nil {
				return err
			}
			defer in.close()
			bar := a.Progress("import", in.size, true)
			defer bar.End()
			err = bloomkv.Import(c.Context(), in.read(c.Context(), bar), args[0], opts)
			if damage, ok := errors.AsType[*bloomkv.CorruptionError](err); ok && damage.File == "stream" {
				//nolint:errorlint // not %w: the advice for corruption is to salvage the store
				err = fmt.Errorf("%v; want all of what \"bloomkv export\" wrote", err)
			}
			bar.End()
			if err != nil {
				return in.named(err)
			}
			return a.checkCopy(c.Context(), args[0], 0)
		},
	}
	c.Flags().StringVar(&opts.Base, "base", "", "take the tables that the export leaves out from the store `DIR`")
	a.addJSON(c, "print a JSON object with the number of tables, entries and bytes")
	return c
}
