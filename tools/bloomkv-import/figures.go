package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/bloomkv/bloomkv"
)

// figures describe a sequence of pairs. Two sequences are equal if their figures are.
type figures struct {
	Pairs      uint64 `json:"pairs"`
	KeyBytes   uint64 `json:"key_bytes"`
	ValueBytes uint64 `json:"value_bytes"`
	// SHA256 is the hash of each pair in order, in hexadecimal digits: the length of the key as a varint
	// (encoding/binary), the key, the length of the value, the value.
	SHA256 string `json:"sha256"`
}

// A counter makes the figures of a sequence.
type counter struct {
	so   figures // without the hash
	hash hash.Hash
	buf  []byte // what the hash has not seen yet
}

func newCounter() *counter { return &counter{hash: sha256.New()} }

const counterBuffer = 64 << 10

func (c *counter) add(kv bloomkv.KV) {
	c.so.Pairs++
	c.so.KeyBytes += uint64(len(kv.Key))
	c.so.ValueBytes += uint64(len(kv.Value))
	for _, b := range [...][]byte{kv.Key, kv.Value} {
		c.buf = binary.AppendUvarint(c.buf, uint64(len(b)))
		if len(b) > counterBuffer { // saves the copy
			c.flush()
			c.hash.Write(b)
			continue
		}
		c.buf = append(c.buf, b...)
	}
	if len(c.buf) > counterBuffer {
		c.flush()
	}
}

func (c *counter) flush() {
	c.hash.Write(c.buf)
	c.buf = c.buf[:0]
}

func (c *counter) figures() figures {
	c.flush()
	f := c.so
	f.SHA256 = hex.EncodeToString(c.hash.Sum(nil))
	return f
}
