// Package debug serves a page about a running store, next to the pages of net/http/pprof:
//
//	mux.Handle("/debug/bloomkv/", debug.Handler(db, debug.Options{}))
//
// The page has the live figures of the store, which change while it is open: the measured rate of wasted reads next to
// the promised one, what lookups cost, memory, flushes and compactions, stalls and backlog. The page of bloomkv inspect
// --html follows, read from the store's files. It loads nothing from elsewhere, and can be read without script.
//
// Like a profile, the page is for the operators of a program: it shows the smallest and the largest key of
// tables, and contains the seeds of their filters.
// Mount it where only they can reach it.
//
// A program that imports this package becomes about 2 MB larger, and has no packages of other modules that the root
// package does not bring.
package debug

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/tools/internal/inspect"
	"github.com/bloomkv/bloomkv/tools/picture"
	"github.com/bloomkv/bloomkv/vfs"
)

// Options configure a handler. The zero value is right for most programs.
type Options struct {
	// Title is the heading of the page. "" means "bloomkv: " with the base name of the store's directory.
	Title string
	// Interval is the time between two samples. 0 means a second; the minimum is 100 ms.
	Interval time.Duration
	// Reread is the time for which what was read of the store's files is shown again, before the next request reads
	// them anew. It becomes longer if reading takes more than a twentieth of it. 0 means 15 seconds.
	Reread time.Duration
}

func (o Options) withDefaults(dir string) Options {
	o.Title = cmp.Or(o.Title, "bloomkv: "+filepath.Base(dir))
	o.Interval = max(cmp.Or(o.Interval, time.Second), 100*time.Millisecond)
	o.Reread = cmp.Or(o.Reread, 15*time.Second)
	return o
}

// A handler serves the page of one store.
type handler struct {
	// constant
	dir     string   // of the files; "" if they are not on the file system of the operating system
	store   *sampler // nil if the store is not open in this process
	options Options
	routes  map[string]route // by the last element of the path
	foreign bool             // the tables are of another store, whose filters cannot be asked
	read    func(ctx context.Context) (facts, error)
	stamp   func(dir string) string

	drawing sync.Mutex
	drawn   drawnTree                       // guarded by drawing
	shown   atomic.Pointer[map[string]bool] // tables with a section of their own on the latest page
	streams chan struct{}                   // has a value for each event stream
	asking  chan struct{}                   // has a value while a request reads filters
	files   cached[files]
	reports cached[[]byte] // JSON
}

// A route answers GET. HEAD has the same types, and no content.
type route struct {
	kind   string // Content-Type
	policy string // Content-Security-Policy, if it is not that of all answers
	serve  http.HandlerFunc
}

// Handler returns a handler with the page of an open store. It may be mounted at any path that ends with a slash, with
// or without http.StripPrefix:
//
//	GET .       the page
//	GET events  server-sent events: a Sample in JSON when something has changed, at most one each Options.Interval.
//	            Those of the page, with the query page, have the parts of the page that change.
//	GET json    a JSON object: Metrics and Tables of the store, the rates of the last minute, and recent samples
//	GET ask     a JSON object: how each filter answers for the key of the query, and whether its table has it. The
//	            key is written as the tool prints keys. This is one of the lookups that Metrics count
//	GET rain    a JSON object: how often the filters let 10,000 random hashes through
//	GET film    a page that plays the flushes and compactions since the manifest began
//	GET toy     a page with a filter of 64 cells to try, which shows how filters answer
//
// The handler changes nothing, and is safe for concurrent use. Lookups take no lock that it takes. However many viewers
// there are, one goroutine samples the store, until it is closed, and one request at a time reads its files, on one
// processor. A viewer that reads slowly misses samples; one that reads nothing for ten seconds is
// disconnected. Once the store is closed, event streams end and the page says so; closing it does not wait for them.
// The streams need an http.ResponseWriter that can flush, which that of http.TimeoutHandler cannot: there the page
// shows the figures of the moment at which it was loaded.
//
// http.Server.Shutdown waits for event streams: close the store before it, or call http.Server.Close.
//
// The files are read without the store's lock, and only if they are on the file system of the operating system. This
// takes memory for one filter at a time, and up to 64 MiB for those that are compared with each other.
func Handler(db *bloomkv.DB, o Options) http.Handler {
	o = o.withDefaults(db.Dir())
	h := storeHandler(db.Dir(), o, newSampler(db, o.Interval))
	go h.store.run()
	if db.FS() != vfs.OS {
		h.dir = ""
	}
	return h
}

// FilesHandler is like Handler for a store that may be open in another process, or damaged: the page has only what the
// files show, without live figures, and the one event is that the files have changed since the page was made. It takes
// no lock.
func FilesHandler(dir string, o Options) http.Handler {
	return storeHandler(dir, o.withDefaults(dir), nil)
}

// ForeignHandler is like FilesHandler for a directory of tables of another store, as bloomkv inspect reads them:
// LevelDB, goleveldb, RocksDB, Pebble or Badger. There are no filters to ask, and no rain. A program that calls it
// links the decoders of these stores.
func ForeignHandler(dir string, o Options) http.Handler {
	h := &handler{dir: dir, options: o.withDefaults(dir), foreign: true, stamp: inspect.ForeignStamp}
	h.read = func(ctx context.Context) (facts, error) {
		return inspect.ReadForeignStore(ctx, dir, inspect.Options{})
	}
	return h.begin()
}

func storeHandler(dir string, o Options, store *sampler) *handler {
	h := &handler{dir: dir, options: o, store: store, stamp: inspect.Stamp}
	h.read = h.readStore
	return h.begin()
}

// begin makes the rest of a handler.
func (h *handler) begin() *handler {
	h.streams, h.asking = make(chan struct{}, mostStreams), make(chan struct{}, 1)
	h.files, h.reports = newCached[files](), newCached[[]byte]()
	const page, object = "text/html; charset=utf-8", "application/json"
	h.routes = map[string]route{
		"":       {page, pagePolicy(h.page()), h.servePage},
		"film":   {page, "", h.serveFilm},
		"toy":    {page, pagePolicy(inspect.Toy("./")), serveToy},
		"json":   {object, "", h.serveJSON},
		"ask":    {object, "", h.serveAsk},
		"rain":   {object, "", h.serveRain},
		"events": {"text/event-stream", "", h.serveEvents},
	}
	if h.store != nil {
		h.routes["tree"] = route{page, "", h.serveTree}
	}
	return h
}

// pagePolicy returns the policy that a page is served with.
func pagePolicy(p *picture.Page) string {
	return p.Policy() + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// ServeHTTP implements http.Handler. The last element of the path decides, so that it need not know where it is
// mounted.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	target, known := h.routes[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]
	if !known {
		http.NotFound(w, r)
		return
	}
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	if r.URL.Path == "" && asked != "" && !strings.HasSuffix(asked, "/") { // else its links would lead elsewhere
		head.Set("Location", "./"+path.Base(asked)+"/")
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	head.Set("Content-Type", target.kind)
	if target.policy != "" {
		head.Set("Content-Security-Policy", target.policy)
	}
	if r.Method != http.MethodHead {
		target.serve(w, r)
	}
}

// servePage writes the page.
func (h *handler) servePage(w http.ResponseWriter, r *http.Request) {
	f, err := h.readFiles(r.Context())
	if err != nil {
		return // the viewer has left
	}
	var lead, section []byte
	if h.store != nil {
		lead, section = h.live()
	}
	writeAll(w, f.head, lead, f.middle, section, f.tail)
}

// serveTree writes the picture of the tree, which the page draws anew when the tree has changed.
func (h *handler) serveTree(w http.ResponseWriter, _ *http.Request) {
	writeAll(w, []byte(h.tree().html))
}

// serveToy writes the page of a filter to try, which is of no store.
func serveToy(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := inspect.Toy("./").WriteHTML(&b); err != nil { // broken logic
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeAll(w, b.Bytes())
}

// mostWriting is the time that a viewer may take to read a page or an object.
const mostWriting = time.Minute

// writeAll writes the parts of an answer. An error means that the viewer has left, or is too slow.
func writeAll(w http.ResponseWriter, parts ...[]byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(mostWriting)) // else the server's own applies
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}
