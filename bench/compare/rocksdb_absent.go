//go:build !rocksdb

package main

// rocksdbEngines is empty in a program that was built without RocksDB.
func rocksdbEngines() []engineEntry { return nil }
