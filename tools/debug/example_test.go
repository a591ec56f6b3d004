package debug_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/debug"
)

// A program mounts the page beside those of net/http/pprof. Here a test server stands for the program's own.
func ExampleHandler() {
	dir, err := os.MkdirTemp("", "bloomkv-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := bloomkv.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	mux := http.NewServeMux()
	mux.Handle("/debug/bloomkv/", debug.Handler(db, debug.Options{Title: "orders"}))

	server := httptest.NewServer(mux)
	defer server.Close()
	answer, err := http.Get(server.URL + "/debug/bloomkv/")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status)
	fmt.Println(strings.Contains(string(page), "<h1>orders</h1>"))
	// Output:
	// 200 OK
	// true
}
