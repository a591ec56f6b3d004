// Command bloomkvd runs one node of a replicated bloomkv store and serves it by HTTP.
//
//	go -C replica run ./cmd/bloomkvd --id a --address 127.0.0.1:8081 --dir ./a --bootstrap
//
// README.md of package replica shows three of them.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bloomkv/bloomkv/internal/httpguard"
	"github.com/bloomkv/bloomkv/replica"
	"github.com/bloomkv/bloomkv/tools/cli"
)

// app is one run of the program.
type app struct{ cli.Streams }

func main() {
	a := &app{cli.Standard()}
	os.Exit(a.run(cli.Context(), os.Args[1:]))
}

// run runs the program with its arguments, prints its error, and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	return a.Main(ctx, "bloomkvd", a.command(), args)
}

// flags are those of the program.
type flags struct {
	node           replica.Options
	listen, join   string
	tokenFile      string
	cert, key, ca  string
	plain, verbose bool
}

func (a *app) command() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "bloomkvd",
		Short: "Run one node of a replicated bloomkv store",
		Long: `bloomkvd runs one node of a group that keeps the same data, and serves it by HTTP until an interrupt.
The first node begins the group with --bootstrap; each other one joins it with --join ADDRESS of any member. Afterwards,
and after any crash, the same command starts a node again.

Clients and other nodes use the same port. Without --token-file, or without --cert and --key, only addresses of this
machine are allowed, unless --plain says that the network is trusted. Without a token, requests must name localhost, an
IP address, the host of --address or --listen, or one of --host. Exit status: 0 success, 2 an error, 130 an
interrupt.`,
		Example: `  bloomkvd --id a --address 127.0.0.1:8081 --dir ./a --bootstrap
  bloomkvd --id b --address 127.0.0.1:8082 --dir ./b --join 127.0.0.1:8081
  curl -X PUT --data-binary world '127.0.0.1:8082/v1/kv?key=hello'
  curl '127.0.0.1:8081/v1/kv?key=hello'`,
		RunE: func(c *cobra.Command, _ []string) error {
			server, err := a.options(&f)
			if err != nil {
				return cli.Hint(c, err)
			}
			return a.serve(c.Context(), &f, server)
		},
	}
	c.Flags().StringVar(&f.node.ID, "id", "", "the `NAME` of the node, which never changes")
	c.Flags().StringVar(&f.node.Address, "address", "", "the `HOST:PORT` where other nodes reach it")
	c.Flags().StringVar(&f.listen, "listen", "", "listen at `HOST:PORT` (default that of --address)")
	c.Flags().StringSliceVar(&f.node.Hosts, "host", nil, "answer requests for this `NAME`, too, without a token")
	c.Flags().StringVar(&f.node.Dir, "dir", "", "the `DIRECTORY` of the node")
	c.Flags().BoolVar(&f.node.Bootstrap, "bootstrap", false, "begin a new group, if the directory is empty")
	c.Flags().StringVar(&f.join, "join", "", "join the group of the node at `ADDRESS`")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "the `FILE` with the token that every request must have")
	c.Flags().StringVar(&f.cert, "cert", "", "the `FILE` with the certificate of the node, PEM")
	c.Flags().StringVar(&f.key, "key", "", "the `FILE` with its key, PEM")
	c.Flags().StringVar(&f.ca, "ca", "", "the `FILE` with the certificates that sign those of other nodes, PEM")
	c.Flags().BoolVar(&f.plain, "plain", false, "allow other machines without TLS or without a token")
	c.Flags().DurationVar(&f.node.Election, "election", time.Second, "elect a leader after this `TIME` without one")
	c.Flags().Uint64Var(&f.node.Snapshot, "snapshot", 8192, "truncate the log after `N` entries")
	c.Flags().Uint64Var(&f.node.Trailing, "trailing", 10240, "keep `N` entries for slow followers")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "print what raft logs")
	return c
}

// serve runs a node until ctx ends. server is the configuration of TLS, or nil.
func (a *app) serve(ctx context.Context, f *flags, server *tls.Config) error {
	listen := cmp.Or(f.listen, f.node.Address)
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	defer l.Close() //nolint:errcheck // the server has closed it, or nothing came through it
	n, err := replica.Open(ctx, f.node)
	if err != nil {
		return err
	}
	s := httpguard.Server(n.Handler())
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener(l, server)) }()
	fmt.Fprintf(a.Out, "node %s at %s\n", f.node.ID, f.node.Address)
	if f.join != "" {
		err = f.joinGroup(ctx)
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-served:
		}
	}
	// Another node leads before this one is gone, so that the group does not wait for an election.
	handOver, cancel := context.WithTimeout(context.Background(), f.node.Election)
	defer cancel()
	_ = n.Transfer(handOver) // a group of one has nobody
	return cmp.Or(errors.Join(err, n.Close(), s.Close()), ctx.Err())
}

// options completes the options of the node, and returns the configuration of TLS for its server, nil for none.
func (a *app) options(f *flags) (*tls.Config, error) {
	if f.node.ID == "" || f.node.Address == "" || f.node.Dir == "" {
		return nil, errors.New("want --id, --address and --dir")
	}
	if f.listen != "" {
		f.node.Hosts = append(f.node.Hosts, f.listen)
	}
	if f.verbose {
		f.node.Logger = slog.New(slog.NewTextHandler(a.Err, nil))
	}
	if f.tokenFile != "" {
		raw, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return nil, cli.PathError("--token-file "+f.tokenFile, err)
		}
		if f.node.Token = string(bytes.TrimSpace(raw)); f.node.Token == "" {
			return nil, fmt.Errorf("--token-file %s: it is empty", f.tokenFile)
		}
	}
	f.node.Local = (f.node.Token == "" || f.cert == "") && !f.plain
	for _, address := range []string{f.node.Address, f.listen, f.join} {
		if address != "" && f.node.Local && !httpguard.Local(address) {
			return nil, fmt.Errorf("%s: want --token-file, --cert and --key, or --plain, for other machines", address)
		}
	}
	if f.cert == "" && f.key == "" && f.ca == "" {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("--cert %s --key %s: %w", f.cert, f.key, err)
	}
	f.node.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	if f.ca != "" {
		raw, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, cli.PathError("--ca "+f.ca, err)
		}
		f.node.TLS.RootCAs = x509.NewCertPool()
		if !f.node.TLS.RootCAs.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("--ca %s: it has no certificate", f.ca)
		}
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}}, nil
}

// listener adds TLS. It offers no HTTP/2, in which raft's connections cannot be upgraded.
func listener(l net.Listener, config *tls.Config) net.Listener {
	if config == nil {
		return l
	}
	config.NextProtos = []string{"http/1.1"}
	return tls.NewListener(l, config)
}

// joinGroup asks a member to add this node, until it does.
func (f *flags) joinGroup(ctx context.Context) error {
	scheme := "http"
	if f.node.TLS != nil {
		scheme = "https"
	}
	client := &http.Client{ // without a proxy, and without a redirect to another machine
		Timeout:       30 * time.Second,
		Transport:     &http.Transport{TLSClientConfig: f.node.TLS},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	q := url.Values{"id": {f.node.ID}, "address": {f.node.Address}}
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+f.join+"/v1/join?"+q.Encode(), nil)
		if err != nil {
			return fmt.Errorf("--join %s: %w", f.join, err)
		}
		if f.node.Token != "" {
			r.Header.Set("Authorization", "Bearer "+f.node.Token)
		}
		response, err := client.Do(r)
		if err == nil {
			text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // only for the error below
			_ = response.Body.Close()                                   // read
			switch response.StatusCode {
			case http.StatusOK:
				return nil
			case http.StatusUnauthorized, http.StatusBadRequest, http.StatusForbidden:
				return fmt.Errorf("--join %s: %s", f.join, bytes.TrimSpace(text))
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.node.Election):
		}
	}
}
