package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv/internal/words"
)

const (
	raftPath     = "/v1/raft"
	raftProtocol = "bloomkv-raft/1"
	maxHeader    = 64 << 10 // bytes of the answer to an upgrade
)

// streamLayer carries raft's connections over the port of the node's HTTP server: each begins as a request to be
// upgraded, so that TLS and the token protect it.
type streamLayer struct {
	address   string
	scheme    string
	token     string
	allowed   func(address string) error // see Options.Local
	transport *http.Transport            // one connection for each request

	accepted chan net.Conn
	closing  sync.Once
	closed   chan struct{}
	mu       sync.Mutex
	open     map[net.Conn]bool // guarded by mu; nil after Close
}

func newStreamLayer(o *Options) *streamLayer {
	scheme := "http"
	if o.TLS != nil {
		scheme = "https"
	}
	return &streamLayer{
		address: o.Address, scheme: scheme, token: o.Token, allowed: o.checkMachine,
		transport: &http.Transport{TLSClientConfig: o.TLS, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader},
		accepted:  make(chan net.Conn), closed: make(chan struct{}), open: map[net.Conn]bool{},
	}
}

// streamConn is a connection of which the first bytes may have been read.
type streamConn struct {
	net.Conn
	from  io.Reader
	layer *streamLayer
}

func (c *streamConn) Read(b []byte) (int, error) { return c.from.Read(b) }

func (c *streamConn) Close() error {
	c.layer.mu.Lock()
	delete(c.layer.open, c)
	c.layer.mu.Unlock()
	return c.Conn.Close()
}

// keep returns a connection that Close of the layer will close.
func (l *streamLayer) keep(c net.Conn, from io.Reader) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	s := &streamConn{c, from, l}
	l.open[s] = true
	return s, nil
}

// accept upgrades a request to a connection of raft.
func (l *streamLayer) accept(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != raftProtocol {
		badRequest(w, fmt.Errorf("upgrade to %s, want %s", words.Quoted(r.Header.Get("Upgrade")), raftProtocol))
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		writeProblem(w, err)
		return
	}
	_ = c.SetDeadline(time.Time{}) // if it fails, so does the next write
	answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + raftProtocol + "\r\n\r\n"
	_, err = c.Write([]byte(answer))
	if err != nil {
		_ = c.Close()
		return
	}
	s, err := l.keep(c, rw.Reader)
	if err != nil {
		return
	}
	select {
	case l.accepted <- s:
	case <-l.closed:
		_ = s.Close()
	}
}

// Accept returns the next connection.
func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Dial connects to another node.
func (l *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if err := l.allowed(string(address)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var c net.Conn // with TLS, if it is used
	got := func(info httptrace.GotConnInfo) { c = info.Conn }
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: got})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.scheme+"://"+string(address)+raftPath, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", raftProtocol)
	if l.token != "" {
		r.Header.Set("Authorization", "Bearer "+l.token)
	}
	answer, err := l.transport.RoundTrip(r)
	if err != nil {
		l.transport.CloseIdleConnections() // ends the dialing, too, which would go on for other requests
		return nil, err
	}
	if _, upgraded := answer.Body.(io.Writer); !upgraded {
		err := fmt.Errorf("%s: %s, want an upgrade to %s", address, answer.Status, raftProtocol)
		return nil, errors.Join(err, answer.Body.Close())
	}
	return l.keep(c, answer.Body) // from here on it is no longer the transport's
}

// Close ends all connections, so that nobody in raft waits for one.
func (l *streamLayer) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		l.mu.Lock()
		open := l.open
		l.open = nil
		l.mu.Unlock()
		for c := range open {
			_ = c.(*streamConn).Conn.Close() //nolint:errcheck // all are; a broken one may fail to close
		}
	})
	return nil
}

// Addr returns the address of the node.
func (l *streamLayer) Addr() net.Addr { return address(l.address) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
