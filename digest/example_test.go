package digest_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/digest"
	"github.com/bloomkv/bloomkv/vfs/vfstest"
)

// A peer asks a digest in place of the store. A patch brings the digest up to date.
func Example() {
	db, err := bloomkv.Open("store", &bloomkv.Options{FS: vfstest.NewMem()}) // default: the operating system's files
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	// The store puts a key, and sends its digest.
	if err := db.Put([]byte("apple"), nil); err != nil {
		log.Fatal(err)
	}
	sent, err := db.Digest(context.Background(), bloomkv.DigestOptions{})
	if err != nil {
		log.Fatal(err)
	}
	var wire bytes.Buffer
	if _, err := sent.WriteTo(&wire); err != nil {
		log.Fatal(err)
	}

	// The peer reads it, and asks it.
	peer, err := digest.Read(&wire)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(peer.MayContain([]byte("apple")), peer.MayContain([]byte("pear")))

	// The store puts another key, and sends what has changed since.
	if err := db.Put([]byte("pear"), nil); err != nil {
		log.Fatal(err)
	}
	newer, err := db.Digest(context.Background(), bloomkv.DigestOptions{})
	if err != nil {
		log.Fatal(err)
	}
	patch, err := newer.Since(sent)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := patch.WriteTo(&wire); err != nil {
		log.Fatal(err)
	}

	// The peer reads and applies it.
	if patch, err = digest.ReadPatch(&wire); err != nil {
		log.Fatal(err)
	}
	if peer, err = peer.Apply(patch); err != nil {
		log.Fatal(err)
	}
	fmt.Println(peer.MayContain([]byte("apple")), peer.MayContain([]byte("pear")))
	// Output:
	// true false
	// true true
}

// A program makes the digest of sorted keys that are in no store.
func ExampleNew() {
	keys := []string{"apple", "cherry", "plum"}
	var hashes bloomblock.Builder
	hashes.Seed = bloomblock.NewSeed()
	for _, key := range keys {
		hashes.Add(bloomblock.HashKey([]byte(key)))
	}
	params, err := bloomblock.ParamsFor(0.001)
	if err != nil {
		log.Fatal(err)
	}
	part := digest.Part{Keys: 3, Lo: []byte(keys[0]), Hi: []byte(keys[2])}
	if err := part.SetFilter(hashes.AppendBlock(nil, params)); err != nil {
		log.Fatal(err)
	}
	d, err := digest.New(hashes.Seed, [][]*digest.Part{{&part}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Keys(), "keys,", d.MayContain([]byte("plum")), d.MayContain([]byte("zucchini")))
	// Output: 3 keys, true false
}
