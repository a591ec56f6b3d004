// Command timeseries stores measurements by name and time, and deletes old ones.
//
//	go run ./examples/timeseries store add cpu 0.93
//	go run ./examples/timeseries store show cpu 1h     # of the last hour, newest first
//	go run ./examples/timeseries store keep 720h       # deletes all older ones, of every name
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

// A key is the name, a zero byte, and the nanoseconds since 1970, big-endian, so that keys are sorted by name and then
// time.
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

// show prints the measurements of a name since the given time, newest first.
func show(db *bloomkv.DB, name string, from time.Time, out io.Writer) error {
	it := db.Iter(bloomkv.IterOptions{Prefix: append([]byte(name), 0), Lower: makeKey(name, from)})
	for key, value := range it.Backward() {
		at := time.Unix(0, int64(binary.BigEndian.Uint64(key[len(name)+1:]))) //nolint:gosec // from makeKey
		fmt.Fprintf(out, "%s %s\n", at.UTC().Format(time.RFC3339), value)
	}
	return it.Close()
}

// keep deletes measurements older than the given time: one range for each name, which costs the same whatever the
// number of keys. A seek past all keys of a name finds the next name.
func keep(db *bloomkv.DB, from time.Time) error {
	var old bloomkv.Batch
	it := db.Iter(bloomkv.IterOptions{KeysOnly: true})
	for ok := it.First(); ok; {
		name, _, _ := bytes.Cut(bytes.Clone(it.Key()), []byte{0})
		old.DeleteRange(bloomkv.KeyRange{Lower: append(name, 0), Upper: makeKey(string(name), from)})
		ok = it.SeekGE(append(name, 1))
	}
	if err := it.Close(); err != nil {
		return err
	}
	return db.Apply(&old)
}
