package replica

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv/internal/testkit"
)

// endless has bytes for ever, and counts those that were read.
type endless struct {
	begin  string
	read   int
	closed bool
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

func (e *endless) Close() error { e.closed = true; return nil }

func TestAnAnswerWithoutAnEndIsLeft(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, c *client) error{
		"status":     func(ctx context.Context, c *client) error { _, err := c.status(ctx, "b"); return err },
		"term":       func(ctx context.Context, c *client) error { _, err := c.term(ctx, "b"); return err },
		"read index": func(ctx context.Context, c *client) error { _, err := c.readIndex(ctx, "b"); return err },
		"join":       func(ctx context.Context, c *client) error { return c.join(ctx, "b", "c", "c") },
		"leave":      func(ctx context.Context, c *client) error { return c.leave(ctx, "b", "c") },
		"export":     func(ctx context.Context, c *client) error { _, _, err := c.export(ctx, "b", nil); return err },
	} {
		for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
			body := &endless{begin: `{"id":"`}
			c := newClient(&Options{Election: time.Second, Client: &http.Client{
				Transport: answerer(func(r *http.Request) *http.Response {
					return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, Request: r}
				}),
			}})
			if err := ask(t.Context(), c); err == nil || body.read > 2*maxAnswer || !body.closed {
				t.Errorf("%s with status %d: %v after %d bytes, closed %v; want an error after at most %d, and true",
					name, status, err, body.read, body.closed, 2*maxAnswer)
			}
		}
	}
}

// answerer answers requests without a network.
type answerer func(r *http.Request) *http.Response

func (a answerer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// The members of a group may be anywhere: whoever has the token adds some.
func TestALocalNodeSendsNothingToOtherMachines(t *testing.T) {
	asked := 0
	o := &Options{Election: time.Second, Local: true, Token: "secret", Client: &http.Client{
		Transport: answerer(func(r *http.Request) *http.Response {
			asked++
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
		}),
	}}
	const other = "192.0.2.1:1"
	if err := newClient(o).leave(t.Context(), other, "c"); err == nil || asked > 0 {
		t.Errorf("a request: %v, %d were sent, want an error and none", err, asked)
	}
	if err := newClient(o).leave(t.Context(), "127.0.0.1:1", "c"); err != nil || asked != 1 {
		t.Errorf("a request to this machine: %v, %d were sent, want one", err, asked)
	}
	_, err := newStreamLayer(o).Dial(other, time.Second)
	if _, dialed := errors.AsType[*net.OpError](err); err == nil || dialed {
		t.Errorf("a connection of raft: %v, want an error before it is dialed", err)
	}
	if err := o.checkAddress(other); err == nil {
		t.Error("an address of another machine: no error")
	}
}

func TestARequestThatReachedNobodyDidNothing(t *testing.T) {
	for operation, want := range map[string]error{"dial": errNotLeader, "read": ErrUnknown} {
		c := newClient(&Options{Election: time.Second, Client: &http.Client{
			Transport: broken{&net.OpError{Op: operation, Err: io.EOF}},
		}})
		if err := c.leave(t.Context(), "b", "c"); !errors.Is(err, want) || !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, want %v", operation, err, want)
		}
		if err := c.leave(t.Context(), "%", "c"); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("no address: %v, want an error before it is sent", err)
		}
	}
}

// The leader has applied a write when it begins to answer.
func TestAnAnswerThatBreaksOffLeavesTheOutcomeUnknown(t *testing.T) {
	c := newClient(&Options{Election: time.Second, Client: &http.Client{
		Transport: answerer(func(r *http.Request) *http.Response {
			body := io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}
		}),
	}})
	err := c.apply(t.Context(), "b", sized(t, 100))
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("apply: %v, want ErrUnknown and the reason", err)
	}
}

// A broken connection fails each request.
type broken struct{ err error }

func (b broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, b.err }

func TestOnlyATokenThatIsSetIsSent(t *testing.T) {
	for token, want := range map[string]string{"": "", "secret": "Bearer secret"} {
		got := "none was sent"
		c := newClient(&Options{Election: time.Second, Token: token, Client: &http.Client{
			Transport: answerer(func(r *http.Request) *http.Response {
				got = strings.Join(r.Header["Authorization"], ",")
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
			}),
		}})
		if err := c.leave(t.Context(), "b", "c"); err != nil || got != want {
			t.Errorf("token %q: %q is sent, %v, want %q", token, got, err, want)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	asked := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer elsewhere.Close()
	node := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer node.Close()
	c := newClient(&Options{Election: time.Second, Token: "secret"})
	defer c.close()
	if err := c.leave(t.Context(), strings.TrimPrefix(node.URL, "http://"), "c"); err == nil || asked > 0 {
		t.Errorf("a node that answers with a redirect: %v, %d requests went there, want an error and none", err, asked)
	}
}

// layerOver returns a layer whose connections are all c.
func layerOver(c net.Conn) *streamLayer {
	l := newStreamLayer(&Options{Address: "a:1"})
	l.transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return c, nil }
	return l
}

// A node that is stopped takes no connection, or takes it and is silent.
func TestADialThatIsOverLeavesNoConnection(t *testing.T) {
	for _, connects := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			l := newStreamLayer(&Options{Address: "a:1", TLS: new(tls.Config)})
			over := make(chan struct{})
			l.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				if connects {
					return here, nil
				}
				select {
				case <-ctx.Done():
				case <-over:
				}
				return nil, errors.Join(ctx.Err(), here.Close())
			}
			closed := false
			go func() {
				_, _ = io.Copy(io.Discard, there)
				closed = true
			}()
			if _, err := l.Dial("b:1", 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("connects %v: %v, want that the time is over", connects, err)
			}
			synctest.Wait()
			if !closed {
				t.Errorf("connects %v: the connection is still open after its time", connects)
			}
			close(over)
			_ = there.Close()
		})
	}
}

func TestAnUpgradeWithoutAnEndIsLeft(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	written := make(chan int64, 1)
	go func() {
		_, _ = http.ReadRequest(bufio.NewReader(there))
		n, _ := io.Copy(there, &endless{begin: "HTTP/1.1 101 Switching Protocols\r\nX: "})
		written <- n
	}()
	l := layerOver(here)
	if _, err := l.Dial("b:1", time.Minute); err == nil || !strings.Contains(err.Error(), "exceeded") {
		t.Errorf("upgrade: %v, want that the answer has no end", err)
	}
	if n := <-written; n > 2*maxHeader {
		t.Errorf("%d bytes were read, want at most %d", n, 2*maxHeader)
	}
}

func TestALayerKeepsNoConnectionThatIsClosed(t *testing.T) {
	l := newStreamLayer(&Options{Address: "a:1"})
	here, there := net.Pipe()
	defer there.Close()
	c, err := l.keep(here, bufio.NewReader(here))
	testkit.Must(t, err)
	testkit.Must(t, c.Close())
	if len(l.open) > 0 {
		t.Errorf("%d connections are kept", len(l.open))
	}
}

func TestALayerThatIsClosedHasNoConnection(t *testing.T) {
	l := newStreamLayer(&Options{Address: "a:1"})
	here, there := net.Pipe()
	c, err := l.keep(here, bufio.NewReader(here))
	testkit.Must(t, errors.Join(err, l.Close(), l.Close()))
	select {
	case <-l.closed:
	default:
		t.Fatal("whoever waits for a connection still does")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v, want net.ErrClosed", err)
	}
	if err := c.SetDeadline(time.Time{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a connection of before: %v, want that it is closed", err)
	}
	late, _ := net.Pipe()
	if _, err := l.keep(late, bufio.NewReader(late)); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("a late connection: %v, want net.ErrClosed", err)
	}
	if err := late.SetDeadline(time.Time{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a late connection: %v, want that it is closed", err)
	}
	_ = there.Close()
}

// hijacked is an answer whose connection can be had.
type hijacked struct {
	http.ResponseWriter

	c net.Conn
}

func (h hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.c, bufio.NewReadWriter(bufio.NewReader(h.c), bufio.NewWriter(h.c)), nil
}

func TestAConnectionThatBreaksIsNotAccepted(t *testing.T) {
	for broken, want := range map[bool]int{true: 0, false: 1} {
		l := newStreamLayer(&Options{Address: "a:1"})
		l.accepted = make(chan net.Conn, 1)
		here, there := net.Pipe()
		if broken {
			testkit.Must(t, here.Close())
		} else {
			go io.Copy(io.Discard, there) //nolint:errcheck // until it is closed
		}
		r := httptest.NewRequest(http.MethodGet, raftPath, http.NoBody)
		r.Header.Set("Upgrade", raftProtocol)
		l.accept(hijacked{httptest.NewRecorder(), here}, r)
		if len(l.accepted) != want || len(l.open) != want {
			t.Errorf("broken %v: %d accepted, %d kept, want %d", broken, len(l.accepted), len(l.open), want)
		}
		testkit.Must(t, errors.Join(l.Close(), there.Close()))
	}
}

func TestAnAnswerThatIsNoUpgradeIsAnError(t *testing.T) {
	node := httptest.NewServer(http.NotFoundHandler())
	defer node.Close()
	l := newStreamLayer(&Options{Address: "a:1"})
	address := strings.TrimPrefix(node.URL, "http://")
	if _, err := l.Dial(raft.ServerAddress(address), time.Minute); err == nil ||
		!strings.Contains(err.Error(), "404 Not Found, want an upgrade") || len(l.open) > 0 {
		t.Errorf("%v, %d connections are kept", err, len(l.open))
	}
	here, _ := net.Pipe()
	testkit.Must(t, here.Close())
	if _, err := layerOver(here).Dial("b:1", time.Minute); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a broken connection: %v, want its error", err)
	}
}

// TestAProblemIsTheSameOnBothSides sends errors from one node to another.
func TestAProblemIsTheSameOnBothSides(t *testing.T) {
	for _, sent := range problems {
		want := sent.err
		if errors.Is(want, ErrClosed) || errors.Is(want, ErrNoLeader) {
			want = errNotLeader // another node may do it
		}
		w := httptest.NewRecorder()
		writeProblem(w, fmt.Errorf("no: %w", sent.err))
		got := readProblem(w.Result())
		for _, other := range problems {
			if errors.Is(got, other.err) != errors.Is(want, other.err) {
				t.Errorf("%v: %v, want %v and no other", sent.err, got, want)
			}
		}
		if w.Code != sent.status || !strings.Contains(got.Error(), "no: ") {
			t.Errorf("%v: %d, %v", sent.err, w.Code, got)
		}
	}
	w := httptest.NewRecorder()
	writeProblem(w, io.EOF)
	if got := readProblem(w.Result()); got.Error() != io.EOF.Error() || w.Code != http.StatusInternalServerError {
		t.Errorf("another error: %d, %v", w.Code, got)
	}
}

func TestARequestThatCannotBeUpgradedIsAnswered(t *testing.T) {
	for upgrade, want := range map[string]int{
		"": http.StatusBadRequest, "websocket": http.StatusBadRequest, raftProtocol: http.StatusInternalServerError,
	} {
		r := httptest.NewRequest(http.MethodPost, raftPath, http.NoBody)
		r.Header.Set("Upgrade", upgrade)
		w := httptest.NewRecorder() // which has no connection
		newStreamLayer(&Options{Address: "a:1"}).accept(w, r)
		if w.Code != want || !json.Valid(w.Body.Bytes()) {
			t.Errorf("upgrade to %q: %d, %s, want %d", upgrade, w.Code, w.Body, want)
		}
	}
}

// withAnswers returns a node like n that gets the answers of status to all its requests.
func withAnswers(n *Node, status func() Status) *Node {
	n = &Node{raft: n.raft, fsm: n.fsm, opts: n.opts, ended: n.ended}
	n.client = newClient(&Options{Election: time.Second, Client: &http.Client{
		Transport: answerer(func(r *http.Request) *http.Response {
			w := httptest.NewRecorder()
			writeJSON(w, http.StatusOK, status())
			got := w.Result()
			got.Request = r
			return got
		}),
	}})
	return n
}

// A member has caught up when it knows the term and itself as a member, and has what the leader had at the beginning.
func TestAMemberHasCaughtUpWhenItSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.put("a", key(0), "v")
		leader := g.node("a")
		s := leader.Status()
		before, outside, old, more := s, s, s, s
		before.Applied--
		outside.Members = nil
		old.Term--
		more.Applied++
		for _, last := range []Status{s, more} {
			answers := []Status{before, outside, old, last}
			asked := 0
			n := withAnswers(leader, func() Status {
				asked++
				return answers[asked-1]
			})
			err := n.catchUp(t.Context(), s.Term, Member{ID: "a", Address: "b"})
			if err != nil || asked != len(answers) {
				t.Errorf("caught up after %d answers, %v; want after %d", asked, err, len(answers))
			}
		}
	})
}

// Changes of the group are not sent to a node that has left it.
func TestNobodyWaitsForWhoHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, nil)
		g.open("a", true)
		g.put("a", key(0), "v")
		leader := g.node("a")
		n := withAnswers(leader, func() Status { return Status{} })
		a := Member{"a", "a", true}
		if err := n.awaitMember(g.soon(), Member{"b", "b", true}, a); err != nil {
			t.Errorf("for a voter that has left: %v, want that it is not waited for", err)
		}
		if err := n.awaitMember(g.soon(), a, Member{"c", "c", true}); !errors.Is(err, ErrJoin) {
			t.Errorf("for a member that has left: %v, want ErrJoin", err)
		}
	})
}
