//go:build !rocksdb

package main

// rocksdbEngines returns nothing in a program that was built without RocksDB.
func rocksdbEngines() []engineEntry { return nil }
