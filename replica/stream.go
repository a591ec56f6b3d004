package replica

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
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
	address string
	tls     *tls.Config
	token   string
	allowed func(address string) error // see Options.Local

	accepted chan net.Conn
	closing  sync.Once
	closed   chan struct{}
	mu       sync.Mutex
	open     map[net.Conn]bool // guarded by mu; nil after Close
}

func newStreamLayer(o *Options) *streamLayer {
	return &streamLayer{
		address: o.Address, tls: o.TLS, token: o.Token, allowed: o.checkMachine,
		accepted: make(chan net.Conn), closed: make(chan struct{}), open: map[net.Conn]bool{},
	}
}

// streamConn is a connection of which the first bytes may have been read.
type streamConn struct {
	net.Conn
	from  *bufio.Reader
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
func (l *streamLayer) keep(c net.Conn, from *bufio.Reader) (net.Conn, error) {
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
	dial := new(net.Dialer).DialContext
	if l.tls != nil {
		dial = (&tls.Dialer{Config: l.tls}).DialContext
	}
	c, err := dial(ctx, "tcp", string(address))
	if err != nil {
		return nil, err
	}
	from, err := l.upgrade(ctx, c, string(address))
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return l.keep(c, from)
}

// upgrade asks the other side to use a connection for raft.
func (l *streamLayer) upgrade(ctx context.Context, c net.Conn, address string) (*bufio.Reader, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+raftPath, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", raftProtocol)
	if l.token != "" {
		r.Header.Set("Authorization", "Bearer "+l.token)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if err := r.Write(c); err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: c, N: maxHeader}
	from := bufio.NewReader(limited)
	answer, err := http.ReadResponse(from, r)
	if err != nil {
		return nil, err
	}
	limited.N = math.MaxInt64
	defer answer.Body.Close() //nolint:errcheck // it has no body
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("%s: %s, want an upgrade to %s", address, answer.Status, raftProtocol)
	}
	return from, c.SetDeadline(time.Time{})
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
