// Expvar publishes a store's metrics as JSON under /debug/vars, where Go programs publish theirs.
//
//	go run ./examples/expvar DIR &
//	curl -s localhost:8080/debug/vars | jq .bloomkv.lookups
package main

import (
	"errors"
	"expvar"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/httpguard"
)

func main() {
	flag.Usage = func() { log.Print("usage: expvar DIR") }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	db, err := bloomkv.Open(dir, nil)
	if err != nil {
		return err
	}
	publish("bloomkv", db)
	fmt.Println("http://localhost:8080/debug/vars")
	s := httpguard.Server(httpguard.Handler(http.DefaultServeMux)) // where package expvar has its handler
	s.Addr = "localhost:8080"
	return errors.Join(s.ListenAndServe(), db.Close())
}

// publish publishes the metrics of a store as a variable. Each request reads them, which costs next to nothing.
func publish(name string, db *bloomkv.DB) {
	expvar.Publish(name, expvar.Func(func() any { return db.Metrics() }))
}
