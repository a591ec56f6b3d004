package replica

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// endless has bytes for ever, and counts those that were read.
type endless struct {
	begin string
	read  int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.begin)
	e.begin = e.begin[n:]
	for i := n; i < len(b); i++ {
		b[i] = 'A'
	}
	e.read += len(b)
	return len(b), nil
}

func (e *endless) Close() error { return nil }

func TestAnAnswerWithoutAnEndIsLeft(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, c *client) error{
		"status":     func(ctx context.Context, c *client) error { _, err := c.status(ctx, "b"); return err },
		"term":       func(ctx context.Context, c *client) error { _, err := c.term(ctx, "b"); return err },
		"read index": func(ctx context.Context, c *client) error { _, err := c.readIndex(ctx, "b"); return err },
		"join":       func(ctx context.Context, c *client) error { return c.join(ctx, "b", "c", "c") },
		"leave":      func(ctx context.Context, c *client) error { return c.leave(ctx, "b", "c") },
	} {
		for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
			body := &endless{begin: `{"id":"`}
			c := newClient(&Options{Election: time.Second, Client: &http.Client{
				Transport: answerer(func(r *http.Request) *http.Response {
					return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, Request: r}
				}),
			}})
			if err := ask(t.Context(), c); err == nil || body.read > 2*maxAnswer {
				t.Errorf("%s with status %d: %v after %d bytes, want an error after at most %d",
					name, status, err, body.read, 2*maxAnswer)
			}
		}
	}
}

// answerer answers requests without a network.
type answerer func(r *http.Request) *http.Response

func (a answerer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

func TestAnUpgradeWithoutAnEndIsLeft(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	written := make(chan int64, 1)
	go func() {
		_, _ = http.ReadRequest(bufio.NewReader(there))
		n, _ := io.Copy(there, &endless{begin: "HTTP/1.1 101 Switching Protocols\r\nX: "})
		written <- n
	}()
	l := newStreamLayer(&Options{Address: "a:1"})
	if _, err := l.upgrade(t.Context(), here, "b:1"); err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("upgrade: %v, want that the answer has no end", err)
	}
	_ = here.Close()
	if n := <-written; n > 2*maxHeader {
		t.Errorf("%d bytes were read, want at most %d", n, 2*maxHeader)
	}
}
