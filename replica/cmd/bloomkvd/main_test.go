//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bloomkv/bloomkv/digest"
	"github.com/bloomkv/bloomkv/internal/testkit"
	"github.com/bloomkv/bloomkv/replica"
	"github.com/bloomkv/bloomkv/replica/internal/history"
)

var faultTime = flag.Duration("faults", 8*time.Second, "how long processes are killed and stopped")

// asProgram in the environment makes the test binary the program.
const asProgram = "BLOOMKVD_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a node in a process of its own.
type process struct {
	id, address, dir string
	args             []string
	command          *exec.Cmd
}

func (p *process) start(t *testing.T) {
	t.Helper()
	args := append([]string{
		"--id", p.id, "--address", p.address, "--dir", p.dir, "--election", "300ms",
		"--snapshot", "200", "--trailing", "50",
	}, p.args...)
	p.command = exec.Command(os.Args[0], args...)
	p.command.Env = append(os.Environ(), asProgram+"=1")
	p.command.Stderr = os.Stderr
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// kill ends a process at once.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, os.Kill)
	_ = p.command.Wait() // it was killed
}

// interrupt ends a process in order.
func (p *process) interrupt(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if err := p.command.Wait(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 130 {
			t.Errorf("%s ended with %v, want exit status 130", p.id, err)
		}
	}
}

// unused returns an address at which nobody listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// processes starts nodes that form a group, each with more arguments.
func processes(t *testing.T, ids []string, args ...string) []*process {
	t.Helper()
	dir := t.TempDir()
	var all []*process
	for i, id := range ids {
		p := &process{id: id, address: unused(t), dir: filepath.Join(dir, id), args: args}
		if i == 0 {
			p.args = append([]string{"--bootstrap"}, args...)
		} else {
			p.args = append([]string{"--join", all[0].address}, args...)
		}
		all = append(all, p)
		p.start(t)
	}
	t.Cleanup(func() {
		for _, p := range all {
			if p.command.ProcessState == nil {
				p.signal(t, syscall.SIGCONT)
				p.kill(t)
			}
		}
	})
	return all
}

// caller sends requests of a client.
type caller struct {
	http   *http.Client
	scheme string
	token  string
}

func (c *caller) do(method, address, path string, body []byte) (int, []byte, error) {
	target := c.scheme + "://" + address + path
	r, err := http.NewRequestWithContext(context.Background(), method, target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// eventually repeats a request until it succeeds.
func (c *caller) eventually(t *testing.T, method, address, path string, body []byte) []byte {
	t.Helper()
	var status int
	var answer []byte
	var err error
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if status, answer, err = c.do(method, address, path, body); err == nil && status == http.StatusOK {
			return answer
		}
	}
	t.Fatalf("%s %s%s: %d, %s, %v", method, address, path, status, answer, err)
	return nil
}

// formed waits until a node knows a number of voters and a leader.
func (c *caller) formed(t *testing.T, address string, voters int) {
	t.Helper()
	var s replica.Status
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := json.Unmarshal(c.eventually(t, http.MethodGet, address, "/v1/status", nil), &s); err != nil {
			t.Fatal(err)
		}
		members := slices.DeleteFunc(s.Members, func(m replica.Member) bool { return !m.Voter })
		if s.Leader != "" && len(members) == voters {
			return
		}
	}
	t.Fatalf("%s: %+v, want %d voters and a leader", address, s, voters)
}

// outcome says what a client knows after a request.
func outcome(status int, answer []byte, err error) history.Outcome {
	if err != nil {
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			return history.Failed
		}
		return history.Unknown
	}
	var p struct{ Code string }
	if status != http.StatusOK && json.Unmarshal(answer, &p) != nil {
		return history.Unknown
	}
	switch {
	case status == http.StatusOK || p.Code == "not_found":
		return history.Done
	case p.Code == "no_leader" || p.Code == "closed":
		return history.Failed
	default:
		return history.Unknown
	}
}

func plain() *caller { return &caller{http: &http.Client{Timeout: 2 * time.Second}, scheme: "http"} }

func TestThreeProcessesUnderKillsAndStopsAreLinearizable(t *testing.T) {
	all := processes(t, []string{"a", "b", "c"})
	c := plain()
	for _, p := range all {
		c.formed(t, p.address, 3)
	}
	h := history.New()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for name := range 6 {
		clients.Go(func() { hit(h, all, name, stop) })
	}
	random := mathrand.New(mathrand.NewPCG(1, 1))
	faults := map[string]int{}
	for end := time.Now().Add(*faultTime); time.Now().Before(end); {
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		p := all[random.IntN(len(all))]
		if random.IntN(2) == 0 {
			p.kill(t)
			time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
			p.start(t)
			faults["kill -9"]++
		} else {
			p.signal(t, syscall.SIGSTOP)
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			p.signal(t, syscall.SIGCONT)
			faults["SIGSTOP"]++
		}
	}
	time.Sleep(time.Second)
	close(stop)
	clients.Wait()
	t.Logf("%s; faults %v", h, faults)
	if h.Done() < 50 {
		t.Errorf("%s: too few to show anything", h)
	}
	if err := h.Check(time.Minute); err != nil {
		t.Error(err)
	}
	same(t, c, all)
	for _, p := range all {
		p.interrupt(t)
	}
}

// same waits until all nodes have one checksum at one index.
func same(t *testing.T, c *caller, all []*process) {
	t.Helper()
	sums := make([]replica.Checksum, len(all))
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		equal := true
		for i, p := range all {
			raw := c.eventually(t, http.MethodGet, p.address, "/v1/checksum", nil)
			if err := json.Unmarshal(raw, &sums[i]); err != nil {
				t.Fatal(err)
			}
			equal = equal && sums[i] == sums[0]
		}
		if equal {
			return
		}
	}
	t.Fatalf("the stores differ: %+v", sums)
}

// hit writes and reads at all nodes until stop.
func hit(h *history.History, all []*process, name int, stop chan struct{}) {
	c := plain()
	random := mathrand.New(mathrand.NewPCG(2, uint64(name)))
	begin := time.Now()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.IntN(10)) * time.Millisecond):
		}
		address := all[random.IntN(len(all))].address
		key := fmt.Sprintf("%d-%d", int(time.Since(begin)/(500*time.Millisecond)), random.IntN(3))
		path := "/v1/kv?key=" + key
		switch random.IntN(4) {
		case 0, 1:
			value := fmt.Sprintf("%d-%d", name, i)
			h.Write(key, value, func() history.Outcome {
				return outcome(c.do(http.MethodPut, address, path, []byte(value)))
			})
		default:
			h.Read(key, func() (string, history.Outcome) {
				status, answer, err := c.do(http.MethodGet, address, path, nil)
				o := outcome(status, answer, err)
				if status != http.StatusOK {
					answer = nil
				}
				return string(answer), o
			})
		}
	}
}

func TestEveryRequestOfAClient(t *testing.T) {
	p := processes(t, []string{"a"})[0]
	c := plain()
	key := url.QueryEscape("a//b/../\x00\xff")
	c.eventually(t, http.MethodPut, p.address, "/v1/kv?key="+key, []byte("1"))
	if got := c.eventually(t, http.MethodGet, p.address, "/v1/kv?key="+key, nil); string(got) != "1" {
		t.Errorf("get: %q, want 1", got)
	}
	batch := `[{"op":"put","key":"aw==","value":"dg=="},{"op":"delete_range","key":"YQ==","end":"Yg=="}]`
	c.eventually(t, http.MethodPost, p.address, "/v1/batch", []byte(batch))
	want := `{"pairs":[{"key":"aw==","value":"dg=="}],"more":false}`
	if got := c.eventually(t, http.MethodGet, p.address, "/v1/scan", nil); strings.TrimSpace(string(got)) != want {
		t.Errorf("scan: %s, want %s", got, want)
	}
	d, err := digest.Read(bytes.NewReader(c.eventually(t, http.MethodGet, p.address, "/v1/digest", nil)))
	if err != nil || !d.MayContain([]byte("k")) {
		t.Errorf("digest: %v", err)
	}
	c.eventually(t, http.MethodDelete, p.address, "/v1/kv?key=k", nil)
	for path, want := range map[string]int{
		"/v1/kv?key=k":     http.StatusNotFound,
		"/v1/kv?stale=1":   http.StatusBadRequest,
		"/v1/scan?limit=x": http.StatusBadRequest,
		"/v1/raft":         http.StatusBadRequest,
	} {
		if status, answer, err := c.do(http.MethodGet, p.address, path, nil); status != want {
			t.Errorf("GET %s: %d, %s, %v, want %d", path, status, answer, err, want)
		}
	}
	for _, body := range []string{"", "{", `[{"op":"x"}]`} {
		status, answer, err := c.do(http.MethodPost, p.address, "/v1/batch", []byte(body))
		if status != http.StatusBadRequest {
			t.Errorf("batch %q: %d, %s, %v, want %d", body, status, answer, err, http.StatusBadRequest)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.address+"/v1/transfer", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://elsewhere.example")
	answer, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusForbidden {
		t.Errorf("a request of a page from elsewhere: %s, want %d", answer.Status, http.StatusForbidden)
	}
	p.interrupt(t)
}

func TestAJoinThatCannotSucceedChangesNothing(t *testing.T) {
	p := processes(t, []string{"a"})[0]
	c := plain()
	c.eventually(t, http.MethodPut, p.address, "/v1/kv?key=k", []byte("1"))
	for query, want := range map[string]int{
		"id=b&address=no+address":     http.StatusBadRequest,
		"id=b":                        http.StatusBadRequest,
		"id=b&address=" + p.address:   http.StatusBadRequest, // that is a
		"id=b&address=" + unused(t):   http.StatusBadGateway,
		"address=" + unused(t):        http.StatusBadRequest,
		"id=b&address=127.0.0.1:http": http.StatusBadRequest,
		"id=b&address=192.0.2.1:1":    http.StatusBadRequest, // without TLS and without a token
	} {
		status, answer, err := c.do(http.MethodPost, p.address, "/v1/join?"+query, nil)
		if status != want {
			t.Errorf("join?%s: %d, %s, %v, want %d", query, status, answer, err, want)
		}
		status, answer, err = c.do(http.MethodPut, p.address, "/v1/kv?key=k", []byte(query))
		if status != http.StatusOK {
			t.Fatalf("put after join?%s: %d, %s, %v, want %d", query, status, answer, err, http.StatusOK)
		}
	}
	p.interrupt(t)
}

// A voter that comes back at another address is needed for every write of two nodes.
// TestANodeMovesToAnotherAddress writes to the other node meanwhile. That has an entry then that the node lacks, so it
// alone can be elected, and only by the node at its new address.
func TestANodeMovesToAnotherAddress(t *testing.T) {
	all := processes(t, []string{"a", "b"})
	c := plain()
	for _, p := range all {
		c.formed(t, p.address, 2)
	}
	all[1].interrupt(t)
	hasty := plain()
	hasty.http.Timeout = 200 * time.Millisecond
	_, _, _ = hasty.do(http.MethodPut, all[0].address, "/v1/kv?key=k", []byte("early")) // no majority has it
	all[1].address = unused(t)
	all[1].start(t)
	for _, p := range all {
		c.eventually(t, http.MethodPut, p.address, "/v1/kv?key=k", []byte(p.id))
	}
	if got := c.eventually(t, http.MethodGet, all[0].address, "/v1/kv?key=k", nil); string(got) != "b" {
		t.Errorf("get: %q, want b", got)
	}
}

func TestATokenAndTLSProtectEverything(t *testing.T) {
	dir := t.TempDir()
	pool := writeCertificate(t, dir)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	all := processes(t, []string{"a", "b", "c"}, "--token-file", token, "--cert", cert, "--key", key, "--ca", cert)
	secure := &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}},
	}
	c := &caller{secure, "https", "secret"}
	for _, p := range all {
		c.formed(t, p.address, 3)
	}
	c.eventually(t, http.MethodPut, all[1].address, "/v1/kv?key=k", []byte("v"))
	if got := c.eventually(t, http.MethodGet, all[2].address, "/v1/kv?key=k", nil); string(got) != "v" {
		t.Errorf("get: %q, want v", got)
	}
	without := &caller{secure, "https", ""}
	for _, path := range []string{"/v1/kv?key=k", "/v1/status", "/v1/raft", "/v1/term", "/nothing"} {
		if status, _, err := without.do(http.MethodGet, all[0].address, path, nil); status != http.StatusUnauthorized {
			t.Errorf("GET %s without a token: %d, %v, want %d", path, status, err, http.StatusUnauthorized)
		}
	}
	status, _, err := plain().do(http.MethodGet, all[0].address, "/v1/status", nil)
	if err == nil && status == http.StatusOK {
		t.Error("a request without TLS succeeded")
	}
}

func TestOtherMachinesNeedTLSAndAToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--address", "192.0.2.1:1"},
		{"--address", "127.0.0.1:1", "--listen", ":1"},
		{"--address", "127.0.0.1:1", "--join", "192.0.2.1:1"},
		{"--address", "127.0.0.1:1", "--join", "192.0.2.1:1", "--token-file", token},
	} {
		var out bytes.Buffer
		a := &app{}
		a.Out, a.Err, a.In = &out, &out, strings.NewReader("")
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		code := a.run(ctx, append([]string{"--id", "a", "--dir", filepath.Join(t.TempDir(), "a")}, args...))
		cancel()
		if want := "for other machines"; code != 2 || !strings.Contains(out.String(), want) {
			t.Errorf("bloomkvd %s: exit status %d, %s, want 2 and %q", strings.Join(args, " "), code, &out, want)
		}
	}
}

func TestAJoinThatIsRefusedEnds(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusBadRequest, http.StatusForbidden} {
		member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "refused", status)
		}))
		var out bytes.Buffer
		a := &app{}
		a.Out, a.Err, a.In = &out, &out, strings.NewReader("")
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		code := a.run(ctx, []string{
			"--id", "b", "--dir", filepath.Join(t.TempDir(), "b"), "--address", unused(t),
			"--join", strings.TrimPrefix(member.URL, "http://"),
		})
		cancel()
		member.Close()
		if code != 2 || !strings.Contains(out.String(), "refused") {
			t.Errorf("%d: exit status %d, %s, want 2 and the reason", status, code, &out)
		}
	}
}

// writeCertificate writes cert.pem, which signs itself, and key.pem.
func writeCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "EC PRIVATE KEY", Bytes: raw},
	} {
		encoded := pem.EncodeToMemory(block)
		if name == "cert.pem" && !pool.AppendCertsFromPEM(encoded) {
			t.Fatal("no certificate")
		}
		if err := os.WriteFile(filepath.Join(dir, name), encoded, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}
