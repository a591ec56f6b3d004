// Prometheus publishes a store's metrics for a Prometheus server.
//
//	go run ./tools/examples/prometheus DIR &
//	curl -s localhost:8080/metrics | grep bloomkv
package main

import (
	"errors"
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
	if len(os.Args) != 2 {
		log.Fatal("usage: prometheus DIR")
	}
	if err := run(os.Args[1]); err != nil {
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
