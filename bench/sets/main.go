// Command sets compares the sets of package bloom with each other and with three other libraries, and draws their rates
// and memory.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/bloomkv/bloomkv/tools/machine"
	"github.com/bloomkv/bloomkv/tools/outfile"
	"github.com/bloomkv/bloomkv/tools/picture/save"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sets:", err)
		os.Exit(2)
	}
}

// run measures for the flags in args and prints the table to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("sets", flag.ContinueOnError)
	keys := f.Int("keys", 1_000_000, "keys in each set")
	rounds := f.Int("rounds", 9, "rounds in which the sets take turns; the table has medians")
	positives := f.Int("positives", 10_000, "expected number of false positives when a rate is measured")
	file := f.String("out", "", "write the table to this `FILE` instead")
	draw := f.String("draw", "", "draw rates and memory into this `DIR` instead of measuring times")
	f.SetOutput(io.Discard) // main prints errors
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(out)
			f.Usage()
		}
		return err
	}
	if *keys < 1000 || *rounds < 1 || *positives < 1 || f.NArg() > 0 {
		return errors.New("want -keys of at least 1000, -rounds and -positives of at least 1 and no other arguments")
	}
	if *draw != "" {
		charts, err := charts(*keys, *positives)
		if err != nil {
			return err
		}
		return save.Charts(ctx, *draw, charts)
	}
	var page bytes.Buffer
	command := strings.TrimSpace("go -C bench/sets run . " + strings.Join(args, " "))
	page.WriteString(machine.Here().Header(command, "bench/sets") + "\n")
	if err := compare(ctx, &page, *keys, *rounds, *positives); err != nil {
		return err
	}
	if *file != "" {
		return outfile.Write(ctx, *file, page.Bytes())
	}
	_, err := page.WriteTo(out)
	return err
}
