// Command timeseries keeps measurements by name and time, and forgets the old ones.
//
//	go run ./examples/timeseries store add cpu 0.93
//	go run ./examples/timeseries store show cpu 1h     # of the last hour, newest first
//	go run ./examples/timeseries store keep 720h       # all that is older goes, of every name
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/bloomkv/bloomkv"
)

var errUsage = errors.New("usage: timeseries STORE add NAME VALUE, or STORE show NAME AGE, or STORE keep AGE")

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:], time.Now(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(args []string, now time.Time, out io.Writer) (err error) {
	if len(args) < 3 {
		return errUsage
	}
	dir, verb, args := args[0], args[1], args[2:]
	db, err := bloomkv.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	switch {
	case verb == "add" && len(args) == 2:
		return add(db, args[0], now, args[1])
	case verb == "show" && len(args) == 2:
		age, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		return show(db, args[0], now.Add(-age), out)
	case verb == "keep" && len(args) == 1:
		age, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		return keep(db, now.Add(-age))
	}
	return errUsage
}

// A key is the name, a zero, and the nanoseconds since 1970, big-endian: the order of keys is by name, and then by time.
func makeKey(name string, at time.Time) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(name), 0), uint64(max(0, at.UnixNano())))
}

// add stores a measurement.
func add(db *bloomkv.DB, name string, at time.Time, value string) error {
	if strings.Contains(name, "\x00") {
		return fmt.Errorf("name %q: a zero ends it", name)
	}
	return db.Put(makeKey(name, at), []byte(value))
}

// show prints the measurements of one name from a time on, newest first.
func show(db *bloomkv.DB, name string, from time.Time, out io.Writer) error {
	it := db.Iter(bloomkv.IterOptions{Prefix: append([]byte(name), 0), Lower: makeKey(name, from)})
	for key, value := range it.Backward() {
		at := time.Unix(0, int64(binary.BigEndian.Uint64(key[len(name)+1:]))) //nolint:gosec // makeKey had it from an int64
		fmt.Fprintf(out, "%s %s\n", at.UTC().Format(time.RFC3339), value)
	}
	return it.Close()
}

// keep removes what is older than a time: one range for each name, which costs the same however much is in it. A seek past
// all of a name's keys leads to the next name.
func keep(db *bloomkv.DB, from time.Time) error {
	var old bloomkv.Batch
	it := db.Iter(bloomkv.IterOptions{KeysOnly: true})
	for ok := it.First(); ok; {
		name, _, _ := bytes.Cut(bytes.Clone(it.Key()), []byte{0})
		old.DeleteRange(append(name, 0), makeKey(string(name), from))
		ok = it.SeekGE(append(name, 1))
	}
	if err := it.Close(); err != nil {
		return err
	}
	return db.Apply(&old, bloomkv.Sync)
}
