module github.com/bloomkv/bloomkv

go 1.26.0

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/google/btree v1.1.3
	github.com/klauspost/compress v1.20.3
	golang.org/x/sys v0.49.0
)
