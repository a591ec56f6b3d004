// Command digest shows how a program looks for a key in several stores and asks only those that may have it. A server
// serves a store and its digest. A client keeps a digest of each server, a few bits a key, and brings it up to date by
// patches.
//
//	go run ./tools/bloomkv put fruits apple red
//	go run ./tools/bloomkv put trees oak tall
//	go run ./examples/digest serve fruits localhost:8081 &
//	go run ./examples/digest serve trees localhost:8082 &
//	go run ./examples/digest get oak http://localhost:8081 http://localhost:8082
//
// server.go has the server, client.go the client.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/httpguard"
)

func main() {
	log.SetFlags(0)
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 3 && args[0] == "serve":
		err = serve(args[1], args[2])
	case len(args) > 2 && args[0] == "get":
		err = get(context.Background(), os.Stdout, []byte(args[1]), args[2:])
	default:
		log.Fatal("usage: digest serve DIR ADDRESS | digest get KEY URL...")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(dir, address string) error {
	db, err := bloomkv.Open(dir, nil)
	if err != nil {
		return err
	}
	s := httpguard.Server(httpguard.Handler(newServer(db), address))
	s.Addr = address
	return errors.Join(s.ListenAndServe(), db.Close())
}

// get prints what the digest of each server answers, and the value of the key from the first server that has it.
func get(ctx context.Context, out io.Writer, key []byte, urls []string) error {
	c := newClient(urls)
	if err := c.update(ctx); err != nil {
		return err
	}
	for _, p := range c.peers {
		answer := "certainly does not have it"
		if p.digest.MayContain(key) {
			answer = "may have it"
		}
		_, err := fmt.Fprintf(out, "%s: by a digest of %d bytes it %s\n", p.url, p.digest.Size(), answer)
		if err != nil {
			return err
		}
	}
	value, err := c.get(ctx, key)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s (%d of %d servers asked)\n", value, c.asked, len(urls))
	}
	return err
}
