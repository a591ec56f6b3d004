module github.com/bloomkv/bloomkv/examples/bbolt

go 1.26.0

require (
	github.com/bloomkv/bloomkv v0.0.0
	go.etcd.io/bbolt v1.5.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/bloomkv/bloomkv => ../..
