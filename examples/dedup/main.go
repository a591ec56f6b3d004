// Command dedup prints the lines of its input that it has never seen, in this run or an earlier one, and keeps them in
// a store, as a crawler does with the addresses it finds.
//
//	go run ./examples/dedup seen <urls.txt >new.txt
//
// A line is stored before it is printed, so a run that is killed may lose lines but prints none twice. A line may be as
// long as a key, 64 KiB.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/bloomkv/bloomkv"
)

func main() {
	log.SetFlags(0)
	flag.Usage = func() { log.Print("usage: dedup STORE <LINES") }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := dedup(flag.Arg(0), os.Stdin, os.Stdout, os.Stderr); err != nil {
		log.Fatal(err)
	}
}

func dedup(dir string, in io.Reader, out, summary io.Writer) (err error) {
	// No sync for each line: after a power cut the newest few may count as new again.
	db, err := bloomkv.Open(dir, &bloomkv.Options{Durability: bloomkv.DurabilityNoSync})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }() // makes all writes durable

	lines, news := 0, 0
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, bloomkv.MaxKeySize+2) // plus the end of the line
	printed := bufio.NewWriter(out)
	for ; scanner.Scan(); lines++ {
		isNew, err := db.PutIfAbsent(scanner.Bytes(), nil)
		if err != nil {
			return errors.Join(err, printed.Flush())
		}
		if isNew {
			news++
			fmt.Fprintf(printed, "%s\n", scanner.Bytes())
		}
	}
	fmt.Fprintf(summary, "%d lines, %d new, %d wasted table reads\n", lines, news, db.Metrics().Lookups.WastedReads)
	return errors.Join(scanner.Err(), printed.Flush())
}
