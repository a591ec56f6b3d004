// Prometheus publishes a store's metrics for a Prometheus server.
//
//	go run ./tools/examples/prometheus DIR &
//	curl -s localhost:8080/metrics | grep bloomkv
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/httpguard"
)

func main() {
	flag.Usage = func() { log.Print("usage: prometheus DIR") }
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
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{db})
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s := httpguard.Server(httpguard.Handler(mux))
	s.Addr = "localhost:8080"
	fmt.Println("http://localhost:8080/metrics")
	return errors.Join(s.ListenAndServe(), db.Close())
}
