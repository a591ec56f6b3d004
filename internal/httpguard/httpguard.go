// Package httpguard makes the HTTP servers of the programs here: which requests they answer, and how long a client may
// take.
//
// A page of any site may send requests to this machine from a browser on it. The browser says which host the request is
// for, and which origin it is from. That protects a server that asks for no password.
package httpguard

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Handler passes a request on only if its host is localhost, an IP address, or the host of one of the given addresses,
// each of which is a host with or without a port. Otherwise a page of another site could give its own name the
// address of this machine, and read and write as if it came from here (DNS rebinding).
//
// It does all that Answers does, too.
func Handler(next http.Handler, addresses ...string) http.Handler {
	own := []string{"localhost"}
	for _, a := range addresses {
		if host := hostOf(a); host != "" { // ":80" has none
			own = append(own, host)
		}
	}
	known := func(host string) bool {
		_, err := netip.ParseAddr(host)
		return err == nil || slices.ContainsFunc(own, func(o string) bool { return strings.EqualFold(o, host) })
	}
	next = Answers(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !known(hostOf(r.Host)) {
			protect(w.Header())
			http.Error(w, "unknown host "+r.Host+", want "+strings.Join(own, ", ")+" or an IP address",
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Answers refuses requests from pages of other origins, except GET, HEAD and OPTIONS, and lets no such page embed an
// answer. Requests for any host pass: it is for servers that ask for a secret, which other pages do not have.
func Answers(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		next.ServeHTTP(w, r)
	})
}

func protect(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// hostOf returns the host of an address with or without a port, without the brackets of an IPv6 address.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	}
	return host
}

// Local reports whether an address, which is a host with or without a port, is one of this machine alone.
func Local(address string) bool {
	host := hostOf(address)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// Server returns a server whose clients cannot keep a connection by sending or reading nothing: ten seconds for the
// header of a request, a minute for all of it, another for the answer, two between requests. A handler that needs more
// moves the deadlines of its request, by http.ResponseController. The server logs nothing, since clients could fill
// the log.
func Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}
}
