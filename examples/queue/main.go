// Command queue is a queue of lines that outlives its process.
//
//	go run ./examples/queue jobs push "resize a.png" "resize b.png"
//	go run ./examples/queue jobs pop
//
// pop removes and prints the oldest line, which no other process can get then. It exits 1 if the queue is empty.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/bloomkv/bloomkv"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: queue STORE push LINE..., or queue STORE pop")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(dir, verb string, items []string, out io.Writer) (err error) {
	db, err := bloomkv.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	q := queue{db}
	switch verb {
	case "push":
		for _, item := range items {
			if err := q.push([]byte(item)); err != nil {
				return err
			}
		}
		return nil
	case "pop":
		item, err := q.pop()
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", item)
		}
		return err
	}
	return fmt.Errorf("%q is neither push nor pop", verb)
}

// A queue stores items under ascending numbers. Any number of goroutines may push and pop: each operation ends in one
// conditional write, which only the first of several succeeds in; the others try again.
type queue struct{ db *bloomkv.DB }

var errEmpty = errors.New("the queue is empty")

// push appends an item, which is durable when push returns.
func (q queue) push(item []byte) error {
	for {
		next := uint64(0)
		it := q.db.Iter(bloomkv.IterOptions{KeysOnly: true})
		if it.Last() {
			next = binary.BigEndian.Uint64(it.Key()) + 1
		}
		if err := it.Close(); err != nil {
			return err
		}
		done, err := q.db.PutIfAbsent(binary.BigEndian.AppendUint64(nil, next), item)
		if done || err != nil {
			return err
		}
	}
}

// pop removes and returns the oldest item. A crash afterwards does not bring it back.
func (q queue) pop() ([]byte, error) {
	for {
		it := q.db.Iter(bloomkv.IterOptions{})
		found := it.First()
		key, item := bytes.Clone(it.Key()), bytes.Clone(it.Value()) // the iterator owns them
		if err := it.Close(); err != nil {
			return nil, err
		}
		if !found {
			return nil, errEmpty
		}
		done, err := q.db.CompareAndDelete(key, item)
		if done || err != nil {
			return item, err
		}
	}
}
