package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/bloomkv/bloomkv"
)

// client sends requests to other nodes.
type client struct {
	http    *http.Client
	own     bool // http was made here
	scheme  string
	token   string
	allowed func(address string) error // see Options.Local

	patience time.Duration // for an answer that only reads memory
}

func newClient(o *Options) *client {
	c := &client{http: o.Client, scheme: "http", token: o.Token, allowed: o.checkMachine, patience: 2 * o.Election}
	if o.TLS != nil {
		c.scheme = "https"
	}
	if c.http == nil {
		dialer := &net.Dialer{Timeout: o.Election}
		c.own = true
		c.http = &http.Client{
			Transport: &http.Transport{
				DialContext: dialer.DialContext, TLSClientConfig: o.TLS, TLSHandshakeTimeout: o.Election,
				MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute,
			},
			CheckRedirect: noRedirect,
		}
	}
	return c
}

// noRedirect makes a redirect the answer: no node sends one, and the request must not go to another machine.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (c *client) close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

const (
	forwarded   = "Bloomkv-Forwarded" // the receiver must not pass the request on
	indexHeader = "Bloomkv-Index"     // index of the last command in what follows
)

// maxAnswer bounds an answer in memory, in bytes. Each that is asked for has some hundred, and about as many a member.
const maxAnswer = 1 << 20

// do sends a request that the receiver must not pass on. An error that matches errNotLeader means that nothing was
// done; other errors of the connection match ErrUnknown.
func (c *client) do(ctx context.Context, method, address, path string, body []byte) (*http.Response, error) {
	if err := c.allowed(address); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.scheme+"://"+address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set(forwarded, "1")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			return nil, fmt.Errorf("%w: %w", errNotLeader, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	return nil, readProblem(response)
}

// ask sends a request and decodes the answer into to, unless that is nil. Its errors are those of do, and ErrUnknown
// for an answer that breaks off.
func (c *client) ask(ctx context.Context, method, address, path string, body []byte, to any) error {
	response, err := c.do(ctx, method, address, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	from := &io.LimitedReader{R: response.Body, N: maxAnswer}
	if to == nil {
		_, err = io.Copy(io.Discard, from) // so that the connection is used again
	} else {
		err = json.NewDecoder(from).Decode(to)
	}
	if from.N == 0 {
		err = fmt.Errorf("%s %s%s: an answer of %d bytes or more, want less", method, address, path, maxAnswer)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil
}

func (c *client) apply(ctx context.Context, address string, b *bloomkv.Batch) error {
	raw, err := b.MarshalBinary()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBatch, err)
	}
	return c.ask(ctx, http.MethodPost, address, "/v1/apply", raw, nil)
}

type number struct {
	Value uint64 `json:"value"`
}

func (c *client) term(ctx context.Context, address string) (uint64, error) {
	var answer number
	err := c.ask(ctx, http.MethodGet, address, "/v1/term", nil, &answer)
	return answer.Value, err
}

func (c *client) status(ctx context.Context, address string) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	var answer Status
	err := c.ask(ctx, http.MethodGet, address, "/v1/status", nil, &answer)
	return answer, err
}

// readIndex has changed nothing, whatever its error is.
func (c *client) readIndex(ctx context.Context, address string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience) // a process that is stopped keeps its connections
	defer cancel()
	var answer number
	if err := c.ask(ctx, http.MethodGet, address, "/v1/read-index", nil, &answer); err != nil {
		return 0, fmt.Errorf("%w: %w", errNotLeader, err)
	}
	return answer.Value, nil
}

func (c *client) join(ctx context.Context, address, id, at string) error {
	q := url.Values{"id": {id}, "address": {at}}
	return c.ask(ctx, http.MethodPost, address, "/v1/join?"+q.Encode(), nil, nil)
}

func (c *client) leave(ctx context.Context, address, id string) error {
	return c.ask(ctx, http.MethodPost, address, "/v1/leave?"+url.Values{"id": {id}}.Encode(), nil, nil)
}

// export returns the store of a node as a stream, which the caller closes, and the index of its last command.
func (c *client) export(ctx context.Context, address string, have *bloomkv.Inventory) (io.ReadCloser, uint64, error) {
	var body []byte
	if have != nil {
		var err error
		if body, err = have.MarshalBinary(); err != nil {
			return nil, 0, err
		}
	}
	response, err := c.do(ctx, http.MethodPost, address, exportPath, body)
	if err != nil {
		return nil, 0, err
	}
	index, err := strconv.ParseUint(response.Header.Get(indexHeader), 10, 64)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("header %s: %w", indexHeader, err), response.Body.Close())
	}
	return response.Body, index, nil
}

// A problem is the body of an answer that is no success.
type problem struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

// problems are the errors that have a code.
var problems = []struct {
	code   string
	err    error
	status int
}{
	{"not_leader", errNotLeader, http.StatusMisdirectedRequest},
	{"unknown", ErrUnknown, http.StatusGatewayTimeout}, // before the others: ErrUnknown may wrap ErrClosed
	{"no_leader", ErrNoLeader, http.StatusServiceUnavailable},
	{"closed", ErrClosed, http.StatusServiceUnavailable},
	{"batch", ErrBatch, http.StatusBadRequest},
	{"join", ErrJoin, http.StatusBadRequest},
	{"unreached", ErrUnreached, http.StatusBadGateway},
	{"not_found", bloomkv.ErrNotFound, http.StatusNotFound},
}

// readProblem returns the error that a node sent. A node that is closed did nothing: another may.
func readProblem(r *http.Response) error {
	var p problem
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&p); err != nil || p.Code == "" {
		return fmt.Errorf("%w: %s", ErrUnknown, r.Status)
	}
	if p.Code == "closed" || p.Code == "no_leader" {
		return fmt.Errorf("%w: %s", errNotLeader, p.Error)
	}
	for _, known := range problems {
		if known.code == p.Code {
			return fmt.Errorf("%w: on the leader: %s", known.err, p.Error)
		}
	}
	return errors.New(p.Error)
}

func writeProblem(w http.ResponseWriter, err error) {
	p, status := problem{err.Error(), "other"}, http.StatusInternalServerError
	for _, known := range problems {
		if errors.Is(err, known.err) {
			p.Code, status = known.code, known.status
			break
		}
	}
	writeJSON(w, status, p)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the reader is gone
}
