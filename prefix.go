package bloomkv

import (
	"github.com/bloomkv/bloomkv/internal/sstable"
)

// A PrefixRule says which prefix of a key the prefix filters hold: see [Options.FilterPrefix]. [PrefixLen] and [PrefixSeparator]
// make one, and the zero value is none. Rules may be compared with ==, and written as text, so that they may stand in JSON and in
// flags: "len:8", "sep:/:2"; a separator that is no visible ASCII character as in "sep:0x00:1".
type PrefixRule = sstable.PrefixRule

// PrefixLen is the rule of the first n bytes of a key, 1 to MaxKeySize. A shorter key has no prefix.
func PrefixLen(n int) PrefixRule { return sstable.PrefixLen(n) }

// PrefixSeparator is the rule of all bytes of a key up to the nth separator, which is one of them; n is 1 to MaxKeySize. A key with
// fewer separators has no prefix. By the second '/' the key "user/17/name" has the prefix "user/17/".
func PrefixSeparator(separator byte, n int) PrefixRule {
	return sstable.PrefixSeparator(separator, n)
}
