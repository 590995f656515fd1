// Package secret enables a program or a tool to use a secret without access to its value. The
// program holds a placeholder. In outgoing requests the value replaces it in the one header
// that the operator declared, for the declared hosts and by verified TLS only. A placeholder
// anywhere else is refused. In answers the value, plain or encoded, is replaced by the
// placeholder.
//
// A text that only resembles a placeholder is refused like a misplaced one: its sender made a
// mistake, or tests the replacement. Only an exact placeholder of this session is replaced.
//
// Earlier values of a rotated secret are not searched for. They would stay in memory without
// use and be lost at a restart, and a credential is revoked when it is rotated.
package secret

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// marker is the prefix of every placeholder. It consists of characters that URL, JSON and HTML
// encoders leave unchanged.
const marker = "palyra-sec-"

// The length of values in bytes. A shorter value would match unrelated text, and a longer one does
// not fit into a header.
const (
	minValue = 8
	maxValue = 4096
)

// Exchange inserts and removes the secrets of one session. Its methods are safe for concurrent use
// and work on a nil Exchange, which has no secrets.
type Exchange struct {
	id      string
	secrets []egress.Secret

	// first ensures that the values are read once, before the first search.
	first  sync.Once
	mu     sync.Mutex
	values map[string][]byte
	closed bool
	// finds searches for all values; it is nil while no value is read. made holds all its versions:
	// earlier ones may still be in use.
	finds atomic.Pointer[Values]
	made  []*Values
}

// New returns the exchange of one session. Its id becomes part of the placeholders. A program gets
// a random id, so that placeholders left behind have no meaning in the next session. A tool gets
// "", because its placeholders are described to a model and must be stable.
func New(id string, secrets []egress.Secret) *Exchange {
	return &Exchange{id: id, secrets: slices.Clone(secrets), values: make(map[string][]byte)}
}

// Idle reports whether the exchange has no secrets.
func (x *Exchange) Idle() bool { return x == nil || len(x.secrets) == 0 }

// Placeholder returns the placeholder of the named secret.
func (x *Exchange) Placeholder(name string) string {
	// A vault reference contains characters with a special meaning in credentials, so
	// "user:ann/github" is written "user~ann~github". No part of a reference contains '~'.
	name = inPlaceholder.Replace(name)
	if x == nil || x.id == "" {
		return marker + name
	}
	return marker + x.id + "-" + name
}

// Asked returns the placeholder in a header value, or "" if no valid one is present. The result is
// a placeholder of an Exchange without an id if that Exchange has the secret.
func Asked(value string) string {
	if !Marked(value) {
		return ""
	}
	placeholder, _, _ := parse(value)
	return placeholder
}

// Named reports whether placeholder represents the named secret in an Exchange without an id.
func Named(placeholder, name string) bool {
	return len(placeholder) == len(marker)+len(name) && placeholder == (*Exchange)(nil).Placeholder(name)
}

var inPlaceholder = strings.NewReplacer(":", "~", "/", "~")

// Env returns the placeholders of the secrets that have a variable, as
// name=value pairs.
func (x *Exchange) Env() []string {
	if x.Idle() {
		return nil
	}
	var env []string
	for _, s := range x.secrets {
		if s.Env != "" {
			env = append(env, s.Env+"="+x.Placeholder(s.Name))
		}
	}
	return env
}

// Close wipes the values. The exchange MUST NOT be in use: all readers of Scrub have ended. Copies
// that net/http made in the text of a request cannot be wiped.
func (x *Exchange) Close() {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	x.finds.Store(nil)
	for _, v := range x.made {
		v.Wipe()
	}
	for _, value := range x.values {
		clear(value)
	}
	clear(x.values)
}

// of returns the secret with the given placeholder.
func (x *Exchange) of(placeholder string) (egress.Secret, bool) {
	for _, s := range x.secrets {
		if placeholder == x.Placeholder(s.Name) {
			return s, true
		}
	}
	return egress.Secret{}, false
}

// known returns the searcher for all values. All values are read once before the first search,
// including unused ones: a host may return a value that another session sent to it. An unreadable
// value is not searched for, and does not block requests that do not use it.
func (x *Exchange) known() *Values {
	if x.Idle() {
		return nil
	}
	x.read()
	return x.finds.Load()
}

// read reads all values, and reports whether it was the first call.
func (x *Exchange) read() (first bool) {
	x.first.Do(func() {
		first = true
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, s := range x.secrets {
			// The use of the secret retries and returns the error.
			_ = x.ask(context.Background(), s)
		}
		x.look()
	})
	return first
}

// value returns the value of a secret, which is cached for the session. If it was unreadable, it is
// read again and searched for from then on. On each use of a lent value, value checks that it is
// still lent.
func (x *Exchange) value(ctx context.Context, s egress.Secret) (string, error) {
	first := x.read()
	x.mu.Lock()
	defer x.mu.Unlock()
	var err error
	if _, ok := x.values[s.Name]; !ok {
		if err = x.ask(ctx, s); err == nil {
			x.look()
		}
	} else if s.Lent() && !first {
		err = stillLent(ctx, s)
	}
	if err != nil {
		return "", unavailable(s.Name, err)
	}
	return string(x.values[s.Name]), nil
}

// stillLent returns an error if a lent secret was revoked: the value is no longer sent, but texts
// are still searched for it.
func stillLent(ctx context.Context, s egress.Secret) error {
	value, err := s.Source.Secret(ctx, s.Name)
	clear(value)
	return err
}

var errNoSource = errors.New("the value has no source")

// ask reads the value from the source and caches it.
func (x *Exchange) ask(ctx context.Context, s egress.Secret) error {
	if x.closed || s.Source == nil {
		return errNoSource
	}
	value, err := s.Source.Secret(ctx, s.Name)
	if err == nil {
		err = checkValue(value)
	}
	if err != nil {
		clear(value)
		return err
	}
	x.values[s.Name] = value
	return nil
}

// look builds the searcher from the values read.
func (x *Exchange) look() {
	var list []Value
	for _, s := range x.secrets {
		if value, known := x.values[s.Name]; known {
			list = append(list, Value{Secret: value, Shown: x.Placeholder(s.Name)})
		}
	}
	if len(list) == 0 {
		return
	}
	v := newValues(list)
	x.made = append(x.made, v)
	x.finds.Store(v)
}

// checkValue refuses a value that is not a valid secret: it needs 8 to 4,096 printable ASCII
// characters, without spaces at the ends, and MUST NOT be a placeholder. The error does not contain
// the value.
func checkValue(value []byte) error {
	switch {
	case len(value) < minValue:
		return reason.Errorf(reason.ConfigInvalid, "the value has fewer than %d bytes", minValue)
	case len(value) > maxValue:
		return reason.Errorf(reason.ConfigInvalid, "the value has more than %d bytes", maxValue)
	case bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return reason.Errorf(reason.ConfigInvalid, "the value has characters that a header cannot hold")
	case value[0] == ' ' || value[len(value)-1] == ' ':
		return reason.Errorf(reason.ConfigInvalid, "the value begins or ends with a space")
	case bytes.Contains(value, []byte(marker)):
		return reason.Errorf(reason.ConfigInvalid, "the value is a placeholder")
	}
	return nil
}

// unavailableError has a text for the caller that does not reveal where the secret is stored; its
// cause is for the operator.
type unavailableError struct {
	name  string
	cause error
}

func (e unavailableError) Error() string { return "the secret " + e.name + " cannot be read" }

func (e unavailableError) Unwrap() error { return e.cause }

func unavailable(name string, cause error) error {
	return reason.Errorf(reason.EgressDenied, "%w", unavailableError{name, cause}).
		WithRemedy("Ask the operator to look at it with `palyra config check`.")
}
