// Package access is the vocabulary of permissions: principals, roles, surfaces and the
// authenticated caller. It is a leaf: every package may import it, and it imports no other package
// of this module.
package access

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
)

// Kind is the kind of a principal.
type Kind string

// The kinds of principals.
const (
	KindUser    Kind = "user"
	KindAgent   Kind = "agent"
	KindDevice  Kind = "device"
	KindNode    Kind = "node"
	KindService Kind = "service"
)

var kinds = []Kind{KindUser, KindAgent, KindDevice, KindNode, KindService}

var nameForm = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// Principal is an actor, written "kind:name". The zero value is not a valid principal.
type Principal struct {
	Kind Kind
	Name string
}

// User returns the principal of a user.
func User(name string) Principal { return Principal{Kind: KindUser, Name: name} }

// Agent returns the principal of an agent.
func Agent(name string) Principal { return Principal{Kind: KindAgent, Name: name} }

// String returns "kind:name", or "" for the zero value.
func (p Principal) String() string {
	if p.IsZero() {
		return ""
	}
	return string(p.Kind) + ":" + p.Name
}

// IsZero reports whether p is the zero Principal.
func (p Principal) IsZero() bool { return p == Principal{} }

// MarshalText writes the form of String.
func (p Principal) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the form of String; the empty text is the zero Principal.
func (p *Principal) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*p = Principal{}
		return nil
	}
	parsed, err := ParsePrincipal(string(text))
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}

// ParsePrincipal reads "kind:name". A name has 1 to 63 characters of
// [a-z0-9._-] and begins with a letter or a digit.
func ParsePrincipal(s string) (Principal, error) {
	kind, name, ok := strings.Cut(s, ":")
	if !ok || !slices.Contains(kinds, Kind(kind)) {
		return Principal{}, fmt.Errorf("principal %q: want user:, agent:, device:, node: or service: and a name", s)
	}
	if !nameForm.MatchString(name) {
		return Principal{}, fmt.Errorf("principal %q: a name is 1 to 63 of a-z, 0-9, '.', '_', '-' and begins with a letter or digit", s)
	}
	return Principal{Kind: Kind(kind), Name: name}, nil
}
