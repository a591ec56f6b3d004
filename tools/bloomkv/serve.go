package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/httpguard"
	"github.com/bloomkv/bloomkv/tools/debug"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
)

// servedAt is the default address of serve.
const servedAt = "127.0.0.1:8077"

func (a *app) serveCommand() *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:   "serve DIR",
		Short: "Serve the page of a store to a browser",
		Long: `serve prints an address, and serves there the page of inspect --html for a browser, with live figures on
top, until it is interrupted. Then the exit status is 0.

A store that nobody has open is opened for reading: nothing can write to it until serve ends. If another process has it
open for writing, or if it is damaged, the page has only what the files show, as inspect does without the store's lock,
and says when they have changed. A program shows the live figures of its own store by mounting the handler of package
debug.

A directory of tables of LevelDB, goleveldb, RocksDB, Pebble or Badger is served too, without live figures.

Only this machine can reach the default address. The page shows the smallest and the largest key of tables, and contains
the seeds of their filters, so make sure who can reach another one. Requests must name localhost, an IP address, or the
host of --listen. The paths json and events have the same figures for programs; ask and rain, which the page uses, read
filters, one request at a time. The path toy has a filter of 64 cells to try, which shows how filters answer.`,
		Example: `  bloomkv serve ./store
  bloomkv serve ./store --listen 127.0.0.1:0`,
		RunE: func(c *cobra.Command, args []string) error {
			if inspect.IsForeignStore(args[0]) {
				return a.serve(c.Context(), listen, debug.ForeignHandler(args[0], debug.Options{}))
			}
			db, err := openToRead(c.Context(), args[0])
			if errors.Is(err, bloomkv.ErrLocked) || errors.Is(err, bloomkv.ErrCorruption) {
				a.PrintError("bloomkv", err)
				fmt.Fprintln(a.Err, "bloomkv: the page has only what the files show")
				return a.serve(c.Context(), listen, debug.FilesHandler(args[0], debug.Options{}))
			}
			return with(db, err, func(db *bloomkv.DB) error {
				return a.serve(c.Context(), listen, debug.Handler(db, debug.Options{}))
			})
		},
	}
	c.Flags().StringVar(&listen, "listen", servedAt, "serve at `ADDRESS`; port 0 is any free one")
	return c
}

// serve serves a page at an address until ctx is done. That is its usual end.
func (a *app) serve(ctx context.Context, address string, page http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--listen %s: the port is in use, want another one, or 0 for any free one", address)
	case err != nil:
		return fmt.Errorf("--listen %s: %w", address, err)
	}
	s := httpguard.Server(httpguard.Handler(page, address))
	s.BaseContext = func(net.Listener) context.Context { return ctx } // ends event streams
	fmt.Fprintf(a.Out, "http://%s/\n", l.Addr())
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	err = s.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
