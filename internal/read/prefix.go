package read

import (
	"sync/atomic"

	"github.com/bloomkv/bloomkv/bloomblock"
	"github.com/bloomkv/bloomkv/internal/ikey"
	"github.com/bloomkv/bloomkv/internal/sstable"
	"github.com/bloomkv/bloomkv/internal/tree"
)

// A prefixProbe is the question that a cursor has for prefix filters: is there a key with the prefix that all the keys it may come
// to have? It counts the answers.
type prefixProbe struct {
	asking bool // there is such a prefix
	hash   bloomblock.Hash

	probes, negatives, unasked uint64
}

// ask makes it the question for the keys of [lower, upper), upper nil for no end.
func (p *prefixProbe) ask(rule sstable.PrefixRule, lower, upper []byte) {
	*p = prefixProbe{}
	if prefix := rule.Of(stem(lower, upper)); prefix != nil {
		p.asking, p.hash = true, bloomblock.HashKey(prefix)
	}
}

// stem is a start that all keys of [lower, upper) have, the longest there is where that is what all keys with a prefix lie in;
// upper nil is no end. It is a part of lower.
func stem(lower, upper []byte) []byte {
	n := 0
	if upper != nil {
		n = ikey.CommonPrefix(lower, upper)
		if n == len(lower) || len(upper) != n+1 || upper[n] != lower[n]+1 {
			return lower[:n]
		}
		n++ // what is less than upper has no greater byte here than lower, and what is not less than lower has no lesser one
	}
	for n < len(lower) && lower[n] == 0xff { // no byte is greater
		n++
	}
	return lower[:n]
}

// PrefixCounts are what prefix filters did for cursors that were closed.
type PrefixCounts struct {
	Probes    uint64 // prefix filters asked
	Negatives uint64 // of these, said no
	Unasked   uint64 // tables opened without a prefix filter that could be asked
}

// Prefixes returns what prefix filters did.
func (r *Reader) Prefixes() PrefixCounts { return r.prefixes.load() }

// prefixCounts are the counters behind PrefixCounts.
type prefixCounts struct{ probes, negatives, unasked atomic.Uint64 }

// add counts what a cursor has asked, once.
func (c *prefixCounts) add(p *prefixProbe) {
	if p.probes+p.unasked > 0 {
		c.probes.Add(p.probes)
		c.negatives.Add(p.negatives)
		c.unasked.Add(p.unasked)
	}
}

func (c *prefixCounts) load() PrefixCounts {
	return PrefixCounts{Probes: c.probes.Load(), Negatives: c.negatives.Load(), Unasked: c.unasked.Load()}
}

// without reports whether the prefix filter of a table says that it has no key that the cursor may come to. The first to ask
// has to load the filter.
func (r *runCursor) without(t *tree.Table) (bool, error) {
	p := r.prefix
	maybe, probed, loaded := t.Reader.MayContainPrefix(p.hash)
	if !loaded {
		if err := r.reader.tables.LoadPrefixes(t); err != nil {
			return false, err
		}
		maybe, probed, _ = t.Reader.MayContainPrefix(p.hash)
	}
	if !probed {
		p.unasked++
		return false, nil
	}
	p.probes++
	if !maybe {
		p.negatives++
	}
	return !maybe, nil
}
