package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/bloomkv/bloomkv/backup"
)

// maxNames is the largest list of names that remote reads, in bytes: some million names.
const maxNames = 64 << 20

// remote is a backup.Storage at a server. Its requests are those of handler: PUT, GET and DELETE of an object, and GET
// with the parameter "list" for names, one in each line.
type remote struct {
	client *http.Client
	base   string // a URL that ends with "/"
}

func (s remote) Put(ctx context.Context, name string, r io.Reader) error {
	// An error of r breaks the request off, so that the server sees that the object is not whole. NopCloser, since
	// the client would close r, which belongs to the caller.
	body, err := s.do(ctx, http.MethodPut, name, io.NopCloser(r))
	if err != nil {
		return err
	}
	return body.Close()
}

func (s remote) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.do(ctx, http.MethodGet, name, nil)
}

func (s remote) List(ctx context.Context, prefix string) ([]string, error) {
	body, err := s.do(ctx, http.MethodGet, "?list="+url.QueryEscape(prefix), nil)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(body, maxNames+1))
	if len(raw) > maxNames {
		err = fmt.Errorf("a list of more than %d bytes", maxNames)
	}
	return strings.Fields(string(raw)), errors.Join(err, body.Close())
}

func (s remote) Delete(ctx context.Context, name string) error {
	body, err := s.do(ctx, http.MethodDelete, name, nil)
	if err != nil {
		return err
	}
	return body.Close()
}

func (s remote) do(ctx context.Context, method, name string, body io.Reader) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.base+name, body)
	if err != nil {
		return nil, err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return answer.Body, nil
	case http.StatusNotFound:
		err = fs.ErrNotExist
	default:
		err = errors.New(answer.Status)
	}
	return nil, errors.Join(fmt.Errorf("%s %s: %w", method, name, err), answer.Body.Close())
}

var names = regexp.MustCompile(`^[a-z]+/[0-9a-z-]+$`)

// handler serves a storage. It lets everybody read and delete: a real one asks who they are.
func handler(objects backup.Storage) http.Handler {
	serve := func(do func(ctx context.Context, w io.Writer, name string, body io.Reader) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			name := r.PathValue("kind") + "/" + r.PathValue("name")
			if !names.MatchString(name) { // "%2F" is a slash in a PathValue
				http.Error(w, "no name of an object", http.StatusBadRequest)
				return
			}
			switch err := do(r.Context(), w, name, r.Body); {
			case errors.Is(err, fs.ErrNotExist):
				http.NotFound(w, r)
			case err != nil:
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /{kind}/{name}", serve(
		func(ctx context.Context, _ io.Writer, name string, body io.Reader) error {
			return objects.Put(ctx, name, body)
		}))
	mux.HandleFunc("GET /{kind}/{name}", serve(
		func(ctx context.Context, w io.Writer, name string, _ io.Reader) error {
			from, err := objects.Get(ctx, name)
			if err != nil {
				return err
			}
			defer from.Close() //nolint:errcheck // it was read
			if _, err := io.Copy(w, from); err != nil {
				panic(http.ErrAbortHandler) // so that the reader sees that the object is not whole
			}
			return nil
		}))
	mux.HandleFunc("DELETE /{kind}/{name}", serve(
		func(ctx context.Context, _ io.Writer, name string, _ io.Reader) error {
			return objects.Delete(ctx, name)
		}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if prefix := r.URL.Query().Get("list"); !names.MatchString(prefix + "x") {
			http.Error(w, "no prefix of a name", http.StatusBadRequest)
			return
		}
		found, err := objects.List(r.Context(), r.URL.Query().Get("list"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, strings.Join(found, "\n"))
	})
	return mux
}
