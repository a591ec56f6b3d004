package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/bloomkv/bloomkv"
	"github.com/bloomkv/bloomkv/digest"
)

// maxDigest is the largest digest or patch that the client reads: that of some 800 million keys.
const maxDigest = 1 << 30

// httpClient does not wait for ever for a server that answers nothing.
var httpClient = &http.Client{Timeout: time.Minute}

// A client asks several servers. It is for one goroutine.
type client struct {
	peers    []peer
	asked    int   // requests for values
	received int64 // bytes of digests and patches
}

// A peer is a server and the newest digest that the client has of it.
type peer struct {
	url    string
	digest *digest.Digest // nil: the server may have any key
}

func newClient(urls []string) *client {
	c := new(client)
	for _, u := range urls {
		c.peers = append(c.peers, peer{url: u})
	}
	return c
}

// update brings the digests of all servers up to date.
func (c *client) update(ctx context.Context) error {
	for i := range c.peers {
		p := &c.peers[i]
		if err := c.updateOne(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.url, err)
		}
	}
	return nil
}

func (c *client) updateOne(ctx context.Context, p *peer) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/digest", nil)
	if err != nil {
		return err
	}
	if p.digest != nil {
		r.Header.Set("If-None-Match", etag(p.digest.ID()))
		r.Header.Set("A-IM", patchEncoding)
	}
	resp, err := httpClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body := bufio.NewReader(io.LimitReader(resp.Body, maxDigest))
	switch {
	case resp.StatusCode == http.StatusNotModified && p.digest != nil:
		return nil
	case resp.StatusCode == http.StatusIMUsed && p.digest != nil:
		patch, err := digest.ReadPatch(body)
		if err != nil {
			return err
		}
		newer, err := p.digest.Apply(patch)
		if err != nil {
			return err
		}
		p.digest, c.received = newer, c.received+patch.Size()
		return nil
	case resp.StatusCode == http.StatusOK:
		d, err := digest.Read(body)
		if err != nil {
			return err
		}
		p.digest, c.received = d, c.received+d.Size()
		return nil
	default:
		return errors.New(resp.Status)
	}
}

// get returns the value of a key from the first server that has it. It asks only servers that may have it, as of the
// last update.
func (c *client) get(ctx context.Context, key []byte) ([]byte, error) {
	for i := range c.peers {
		p := &c.peers[i]
		if p.digest != nil && !p.digest.MayContain(key) {
			continue
		}
		c.asked++
		value, err := p.value(ctx, key)
		if !errors.Is(err, bloomkv.ErrNotFound) {
			return value, err
		}
	}
	return nil, bloomkv.ErrNotFound
}

func (p *peer) value(ctx context.Context, key []byte) ([]byte, error) {
	u := p.url + "/value?" + url.Values{"key": {string(key)}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	resp, err := httpClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		value, err := io.ReadAll(io.LimitReader(resp.Body, bloomkv.MaxValueSize+1))
		if len(value) > bloomkv.MaxValueSize {
			return nil, fmt.Errorf("%s: a value of more than %d bytes", p.url, bloomkv.MaxValueSize)
		}
		return value, err
	case http.StatusNotFound:
		return nil, bloomkv.ErrNotFound
	default:
		return nil, fmt.Errorf("%s: %s", p.url, resp.Status)
	}
}
