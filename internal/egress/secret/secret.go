// Package secret lets a program or a tool use a secret that it never sees. It
// knows a placeholder; on the way out the value takes its place in the one
// header that the operator declared, for the declared hosts and by verified TLS
// alone. A placeholder anywhere else is refused. On the way back the value,
// plain or encoded, becomes the placeholder again.
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

// marker begins every placeholder. It is made of characters that no usual
// encoding of URLs, JSON or HTML changes.
const marker = "palyra-sec-"

// The length of values in bytes. A shorter one would be found where it is not
// meant, and a longer one is no header.
const (
	minValue = 8
	maxValue = 4096
)

// Exchange puts the secrets of one session in and takes them out again. Its
// methods are safe for concurrent use and work on a nil Exchange, which has no
// secrets.
type Exchange struct {
	id      string
	secrets []egress.Secret

	// first is for the first text that is searched.
	first  sync.Once
	mu     sync.Mutex
	values map[string][]byte
	closed bool
	// finds knows all values; nil while there is none. made are all that there
	// were: those before it may still be in use.
	finds atomic.Pointer[Values]
	made  []*Values
}

// New returns the exchange of one session. Its id becomes part of the
// placeholders: a random one for a program, so that what it leaves behind means
// nothing to the next; "" for a tool whose placeholders are described to a
// model, and therefore have to stay the same.
func New(id string, secrets []egress.Secret) *Exchange {
	return &Exchange{id: id, secrets: slices.Clone(secrets), values: make(map[string][]byte)}
}

// Idle reports whether there is nothing to exchange.
func (x *Exchange) Idle() bool { return x == nil || len(x.secrets) == 0 }

// Placeholder returns what stands for the secret of that name.
func (x *Exchange) Placeholder(name string) string {
	// A reference of the vault has characters that mean something where credentials
	// stand: "user:ann/github" is written "user~ann~github". No part of one has a '~'.
	name = inPlaceholder.Replace(name)
	if x == nil || x.id == "" {
		return marker + name
	}
	return marker + x.id + "-" + name
}

// Asked returns the placeholder in the value of a header, "" where none stands as it
// has to. It is one of an Exchange without an id if that has the secret.
func Asked(value string) string {
	if !Marked(value) {
		return ""
	}
	placeholder, _, _ := parse(value)
	return placeholder
}

// Named reports whether a placeholder is that of the secret of a name, in an Exchange
// without an id.
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

// Close wipes the values. Nothing of the exchange is in use any more; readers
// of Scrub have come to their end. What net/http copied into the text of a
// request is out of its reach.
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

// of returns the secret that a text is the placeholder of.
func (x *Exchange) of(placeholder string) (egress.Secret, bool) {
	for _, s := range x.secrets {
		if placeholder == x.Placeholder(s.Name) {
			return s, true
		}
	}
	return egress.Secret{}, false
}

// known returns what finds all values. They are read, once, before anything
// is searched, also those that this session never uses: a host may show what
// another session sent to it. One that cannot be read now is not looked for, and
// does not stand in the way of those who do without it.
func (x *Exchange) known() *Values {
	if x.Idle() {
		return nil
	}
	x.read()
	return x.finds.Load()
}

// read reads all values, and reports whether it was the first to do so.
func (x *Exchange) read() (first bool) {
	x.first.Do(func() {
		first = true
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, s := range x.secrets {
			// Whoever uses the secret asks again, and is told of the error.
			_ = x.ask(context.Background(), s)
		}
		x.look()
	})
	return first
}

// value returns the value of a secret, which is kept for the session. One that
// could not be read before is asked for again, and looked for from then on; of one that
// is lent, it is asked each time whether it still is.
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

// stillLent is the error of a secret that was taken back since it was lent: it is sent
// no more, and still looked for.
func stillLent(ctx context.Context, s egress.Secret) error {
	value, err := s.Source.Secret(ctx, s.Name)
	clear(value)
	return err
}

var errNoSource = errors.New("there is nobody to ask")

// ask keeps the value that the source has.
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

// look looks for the values that were read.
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

// checkValue refuses what cannot be a secret: 8 to 4,096 printable ASCII
// characters, without spaces at the ends, and no placeholder. The error does
// not tell the value.
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

// unavailableError is told to the caller by its text, which says nothing about
// the place of a secret; its cause is for the operator.
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
