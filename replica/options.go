package replica

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/internal/httpguard"
	"github.com/bloomkv/bloomkv/internal/words"
	"github.com/bloomkv/bloomkv/vfs"
)

// Options configure a node. ID, Address and Dir are required.
type Options struct {
	// ID names the node. It never changes, and no two nodes of a group have the same.
	ID string
	// Address is the host and port where the other nodes reach [Node.Handler].
	Address string
	// Dir is the directory of the node. It is created if necessary; its parent must exist.
	Dir string
	// Bootstrap begins a new group with this node alone, if Dir has no log yet. Others join it: see [Node.Join].
	Bootstrap bool

	// FS is the file system. nil means the operating system's.
	FS vfs.FS
	// Store are options of the store. FS and Durability are ignored. nil means the defaults.
	Store *bloomkv.Options
	// Transport carries Raft's messages. nil means HTTP, over the same port as everything else.
	Transport raft.Transport
	// Client sends requests to other nodes. nil means one that uses TLS, if that is set.
	Client *http.Client
	// TLS, if not nil, is the configuration of connections to other nodes, which then use https. The certificates of
	// the server side belong to the caller, who serves Handler.
	TLS *tls.Config
	// Token, if not empty, is what every request must have: "Authorization: Bearer TOKEN".
	Token string
	// Local refuses other machines, for nodes without TLS or without a token: Open and Join take only addresses of this
	// machine, and the node sends nothing to another one, whatever the members of its group are.
	Local bool
	// Hosts are names under which clients ask this node, with or without a port, besides localhost, IP addresses and
	// the host of Address. Without a token, [Node.Handler] refuses requests for other hosts: they may come from a page
	// of any site in a browser on this machine.
	Hosts []string
	// Logger receives what raft logs. nil discards it.
	Logger *slog.Logger

	// Election is the time without a leader after which a node calls an election. 0 means one second.
	Election time.Duration
	// Snapshot is the number of entries after which the log is truncated. 0 means 8192.
	Snapshot uint64
	// Trailing is the number of entries that truncation keeps for slow followers. 0 means 10240.
	Trailing uint64
	// Check is the time between two comparisons of the log's length with Snapshot. 0 means 10 seconds.
	Check time.Duration
}

func (o *Options) withDefaults() (Options, error) {
	d := *o
	if d.ID == "" || d.Address == "" || d.Dir == "" {
		return d, fmt.Errorf("options ID %s, Address %s, Dir %s: want all",
			words.Quoted(d.ID), words.Quoted(d.Address), words.Quoted(d.Dir))
	}
	if err := d.checkAddress(d.Address); err != nil {
		return d, err
	}
	d.FS = cmp.Or(d.FS, vfs.OS)
	d.Store = cmp.Or(d.Store, &bloomkv.Options{})
	d.Logger = cmp.Or(d.Logger, slog.New(slog.DiscardHandler))
	d.Election = cmp.Or(d.Election, time.Second)
	d.Snapshot = cmp.Or(d.Snapshot, 8192)
	d.Trailing = cmp.Or(d.Trailing, 10240)
	d.Check = cmp.Or(d.Check, 10*time.Second)
	return d, nil
}

// checkAddress returns an error for what is no address of a node. Without Options.Transport it is that of its HTTP
// server; a Transport may have other ones.
func (o *Options) checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	u, bad := url.Parse("http://" + address)
	if ok := err == nil && bad == nil && host != "" && u.Host == address; !ok && (o.Transport == nil || address == "") {
		return fmt.Errorf("address %s, want host:port", words.Quoted(address))
	}
	return o.checkMachine(address)
}

// checkMachine returns an error for an address to which the node must send nothing.
func (o *Options) checkMachine(address string) error {
	if o.Local && !httpguard.Local(address) {
		return fmt.Errorf("address %s, want one of this machine, or TLS and a token", words.Quoted(address))
	}
	return nil
}

// raftConfig returns the configuration of raft. raft never restores a snapshot at its start: Open makes sure before
// that the store has what the snapshot stands for.
func (o *Options) raftConfig() *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(o.ID)
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = o.Election, o.Election, o.Election/2
	c.CommitTimeout = min(c.CommitTimeout, o.Election/10)
	c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = o.Snapshot, o.Trailing, o.Check
	c.NoSnapshotRestoreOnStart = true
	c.NoLegacyTelemetry = true
	c.Logger = raftLogger(o.Logger)
	return c
}

// sink passes the records of raft to a slog.Logger.
type sink struct{ to *slog.Logger }

func (s sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	l := slog.LevelInfo
	switch level {
	case hclog.Trace, hclog.Debug:
		l = slog.LevelDebug
	case hclog.Warn:
		l = slog.LevelWarn
	case hclog.Error:
		l = slog.LevelError
	default:
	}
	s.to.Log(context.Background(), l, "raft: "+msg, args...) //nolint:sloglint // raft's messages and attributes
}

// raftLogger returns a logger that writes only to a sink, which gets the messages of all levels.
func raftLogger(to *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Info})
	l.RegisterSink(sink{to})
	return l
}
