package replica

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/digest"
	"github.com/bloomkv/bloomkv/internal/httpguard"
	"github.com/bloomkv/bloomkv/internal/words"
)

const (
	maxInventory = 64 << 20 // bytes of a request for an export
	maxScan      = 10_000   // pairs of one answer
	maxDigest    = 1 << 28  // bytes of a digest that is sent: some 200 million keys

	exportPath    = "/v1/export"
	answerTimeout = 30 * time.Second
)

// Handler returns what a node serves to its clients and to other nodes, under /v1/:
//
//	GET, PUT, DELETE kv?key=K             a value; &stale=1 reads this node's own store
//	POST             batch                [{"op":"put","key":B,"value":B},{"op":"delete","key":B},
//	                                       {"op":"delete_range","key":B,"end":B}], atomic; B is base64
//	GET              scan?from=&to=&prefix=&limit=&stale=1   {"pairs":[{"key":B,"value":B}],"more":bool}
//	GET              digest               the bloomkv digest of this node's store, of at most 256 MiB
//	GET              checksum             count and SHA-256 of all pairs of this node's store, with their index; it
//	                                      fails if they are not read in 30 seconds
//	GET              status               see Status
//	POST             join?id=&address=, leave?id=, transfer
//	                 apply, export, read-index, term, raft   what nodes ask each other
//
// Keys in addresses are URL-encoded bytes. Errors are {"error":TEXT,"code":CODE}; the code "unknown" means that a write
// may or may not be applied. With Options.Token, every request needs it; without, requests must be for a host that
// Options.Hosts describes. Web pages of other origins are refused, except requests that only read. Serve it with
// HTTP/1.1: raft's connections begin as an upgrade, which HTTP/2 does not have.
func (n *Node) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/kv", ofKey(n.serveGet))
	mux.HandleFunc("PUT /v1/kv", ofKey(n.servePut))
	mux.HandleFunc("DELETE /v1/kv", ofKey(n.serveDelete))
	mux.HandleFunc("POST /v1/batch", n.serveBatch)
	mux.HandleFunc("GET /v1/scan", n.serveScan)
	mux.HandleFunc("GET /v1/digest", n.serveDigest)
	mux.HandleFunc("GET /v1/checksum", n.serveChecksum)
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, n.Status())
	})
	mux.HandleFunc("POST /v1/join", n.serveJoin)
	mux.HandleFunc("POST /v1/leave", n.serveLeave)
	mux.HandleFunc("POST /v1/transfer", func(w http.ResponseWriter, r *http.Request) {
		answerError(w, n.Transfer(r.Context()))
	})
	mux.HandleFunc("POST /v1/apply", n.serveApply)
	mux.HandleFunc("POST "+exportPath, n.serveExport)
	mux.HandleFunc("GET /v1/read-index", func(w http.ResponseWriter, r *http.Request) {
		index, err := n.readIndex(r.Context())
		answerValue(w, number{index}, err)
	})
	mux.HandleFunc("GET /v1/term", func(w http.ResponseWriter, _ *http.Request) {
		answerValue(w, number{n.raft.CurrentTerm()}, n.done())
	})
	if n.stream != nil {
		mux.HandleFunc("GET "+raftPath, n.stream.accept)
	}
	if n.opts.Token == "" {
		return httpguard.Handler(brief(mux), append([]string{n.opts.Address}, n.opts.Hosts...)...)
	}
	return httpguard.Answers(n.authorized(brief(mux)))
}

// authorized lets requests with the token pass.
func (n *Node) authorized(next http.Handler) http.Handler {
	want := []byte("Bearer " + n.opts.Token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			writeJSON(w, http.StatusUnauthorized, problem{"want the token of the group", "unauthorized"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answerValue writes a value, or the error if there is one.
func answerValue(w http.ResponseWriter, v any, err error) {
	if err != nil {
		writeProblem(w, err)
		return
	}
	writeJSON(w, http.StatusOK, v)
}

func answerError(w http.ResponseWriter, err error) { answerValue(w, struct{}{}, err) }

func badRequest(w http.ResponseWriter, err error) {
	writeJSON(w, http.StatusBadRequest, problem{err.Error(), "request"})
}

// freshness returns Stale if the parameter "stale" is true, else Linearizable.
func freshness(q url.Values) Freshness {
	stale, _ := strconv.ParseBool(q.Get("stale"))
	return Freshness(stale)
}

// ofKey passes requests on that name a key, which may be empty.
func ofKey(next func(w http.ResponseWriter, r *http.Request, key []byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if !q.Has("key") {
			badRequest(w, errors.New("no key, want ?key=K"))
			return
		}
		next(w, r, []byte(q.Get("key")))
	}
}

func (n *Node) serveGet(w http.ResponseWriter, r *http.Request, key []byte) {
	value, err := n.Get(r.Context(), key, freshness(r.URL.Query()))
	if err != nil {
		writeProblem(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(value) // the reader is gone
}

func (n *Node) servePut(w http.ResponseWriter, r *http.Request, key []byte) {
	value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBatchSize))
	if err != nil {
		badRequest(w, err)
		return
	}
	answerError(w, n.Put(r.Context(), key, value))
}

func (n *Node) serveDelete(w http.ResponseWriter, r *http.Request, key []byte) {
	answerError(w, n.Delete(r.Context(), key))
}

type operation struct {
	Op    string `json:"op"`
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
	End   []byte `json:"end"` // of delete_range; absent for no end
}

func (n *Node) serveBatch(w http.ResponseWriter, r *http.Request) {
	b, err := readBatch(http.MaxBytesReader(w, r.Body, 2*MaxBatchSize))
	if err != nil {
		badRequest(w, err)
		return
	}
	answerError(w, n.Apply(r.Context(), b))
}

// readBatch reads a list of operations, one at a time: as a slice, the shortest would take thirty times their bytes.
func readBatch(from io.Reader) (*bloomkv.Batch, error) {
	d := json.NewDecoder(from)
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return nil, errors.Join(errors.New("want a list of operations"), err)
	}
	b := new(bloomkv.Batch)
	for i := 0; d.More(); i++ {
		var o operation
		if err := d.Decode(&o); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
		switch o.Op {
		case "put":
			b.Put(o.Key, o.Value)
		case "delete":
			b.Delete(o.Key)
		case "delete_range":
			b.DeleteRange(bloomkv.KeyRange{Lower: o.Key, Upper: o.End})
		default:
			return nil, fmt.Errorf("operation %d: op %s, want put, delete or delete_range", i, words.Quoted(o.Op))
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errors.New("want nothing after the list"), err)
	}
	return b, nil
}

type pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

func (n *Node) serveScan(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit := maxScan
	if text := q.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxScan {
			badRequest(w, fmt.Errorf("limit %s, want 1 to %d", words.Quoted(text), maxScan))
			return
		}
	}
	opts := bloomkv.IterOptions{Lower: []byte(q.Get("from")), Prefix: []byte(q.Get("prefix"))}
	if q.Has("to") {
		opts.Upper = []byte(q.Get("to"))
	}
	answer := struct {
		Pairs []pair `json:"pairs"`
		More  bool   `json:"more"`
	}{Pairs: []pair{}}
	bytes := 0
	for kv, err := range n.Scan(r.Context(), opts, freshness(q)) {
		if err != nil {
			writeProblem(w, err)
			return
		}
		if len(answer.Pairs) == limit || bytes > MaxBatchSize {
			answer.More = true
			break
		}
		bytes += len(kv.Key) + len(kv.Value)
		answer.Pairs = append(answer.Pairs, pair{append([]byte{}, kv.Key...), append([]byte{}, kv.Value...)})
	}
	writeJSON(w, http.StatusOK, answer)
}

// readWhole calls read, which reads the whole store: one call at a time, however many requests ask for it.
func (n *Node) readWhole(ctx context.Context, read func() error) error {
	select {
	case n.whole <- struct{}{}:
		defer func() { <-n.whole }()
		return read()
	case <-ctx.Done():
		return fmt.Errorf("other requests read the whole store: %w", ctx.Err())
	}
}

func (n *Node) serveDigest(w http.ResponseWriter, r *http.Request) {
	var d *digest.Digest
	err := n.readWhole(r.Context(), func() (err error) {
		d, err = n.Digest(r.Context(), bloomkv.DigestOptions{})
		return err
	})
	if err != nil {
		writeProblem(w, err)
		return
	}
	if d.Size() > maxDigest {
		text := fmt.Sprintf("a digest of %d bytes, want at most %d", d.Size(), maxDigest)
		writeJSON(w, http.StatusRequestEntityTooLarge, problem{text, "too_large"})
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(d.Size(), 10))
	_, _ = d.WriteTo(w) // the reader is gone, and sees that the answer is short
}

// A Checksum says what a store contains. Those of two nodes with one index are equal.
type Checksum struct {
	Index  uint64 `json:"index"` // of the last command
	Keys   uint64 `json:"keys"`
	SHA256 string `json:"sha256"` // of all pairs in order, each with its lengths
}

// Checksum reads all of this node's store, or until ctx ends.
func (n *Node) Checksum(ctx context.Context) (Checksum, error) {
	s, err := n.Snapshot()
	if err != nil {
		return Checksum{}, err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	m, err := s.Mark()
	if err != nil {
		return Checksum{}, closedAs(err)
	}
	sum, hash := Checksum{Index: indexOf(m)}, sha256.New()
	for kv, err := range s.Scan(bloomkv.IterOptions{}) {
		if err == nil && sum.Keys%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return Checksum{}, closedAs(err)
		}
		sum.Keys++
		lengths := binary.LittleEndian.AppendUint32(nil, uint32(len(kv.Key)))        //nolint:gosec // at most 64 KiB
		hash.Write(binary.LittleEndian.AppendUint32(lengths, uint32(len(kv.Value)))) //nolint:gosec // at most 256 MiB
		hash.Write(kv.Key)
		hash.Write(kv.Value)
	}
	sum.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return sum, nil
}

func (n *Node) serveChecksum(w http.ResponseWriter, r *http.Request) {
	var sum Checksum
	err := n.readWhole(r.Context(), func() (err error) { sum, err = n.Checksum(r.Context()); return err })
	answerValue(w, sum, err)
}

func (n *Node) serveJoin(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if n.misdirected(r) {
		writeProblem(w, errNotLeader)
		return
	}
	answerError(w, n.Join(r.Context(), q.Get("id"), q.Get("address")))
}

func (n *Node) serveLeave(w http.ResponseWriter, r *http.Request) {
	if n.misdirected(r) {
		writeProblem(w, errNotLeader)
		return
	}
	answerError(w, n.Leave(r.Context(), r.URL.Query().Get("id")))
}

// serveApply takes a batch that another node passes on.
func (n *Node) serveApply(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2*MaxBatchSize))
	if err != nil {
		badRequest(w, err)
		return
	}
	var b bloomkv.Batch
	if err = b.UnmarshalBinary(raw); err == nil {
		err = checkBatch(&b)
	}
	if err != nil {
		badRequest(w, err)
		return
	}
	if b.Len() == 0 {
		answerError(w, nil)
		return
	}
	if n.misdirected(r) {
		writeProblem(w, errNotLeader)
		return
	}
	answerError(w, n.applyHere(r.Context(), &b))
}

func (n *Node) serveExport(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxInventory))
	var have *bloomkv.Inventory
	if err == nil && len(raw) > 0 {
		have = new(bloomkv.Inventory)
		err = have.UnmarshalBinary(raw)
	}
	if err != nil {
		badRequest(w, err)
		return
	}
	x, index, err := n.export(r.Context(), have)
	if err != nil {
		writeProblem(w, err)
		return
	}
	defer x.Close() //nolint:errcheck // nothing was written
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(x.Size(), 10))
	w.Header().Set(indexHeader, strconv.FormatUint(index, 10))
	control := http.NewResponseController(w)
	_, _ = x.WriteTo(steady{w, control, n.stallTimeout()}) // the receiver notices a stream that ends early
	_ = control.SetWriteDeadline(time.Time{})              // for the next request
}

// steady is an answer that may take any time, as long as its reader takes some of it now and then.
type steady struct {
	to      http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

func (s steady) Write(b []byte) (int, error) {
	err := s.control.SetWriteDeadline(time.Now().Add(s.timeout))
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return 0, err
	}
	return s.to.Write(b)
}

// brief ends a request that takes longer than answerTimeout, as one may that waits for a leader.
func brief(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != exportPath && r.URL.Path != raftPath {
			ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}
