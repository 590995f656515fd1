// Package egress says where a call may connect: the one way to write a host,
// the rules over hosts and addresses, and a dialer that connects only to
// addresses that passed both. Names are resolved once, on the gateway's side,
// and what is dialled is the address that was judged, so a second answer of
// the name server changes nothing.
package egress

import "fmt"

// Mode is how far egress is enforced. The zero value is the strictest.
type Mode uint8

// The modes.
const (
	// Strict enforces the allowlist at run time; with an empty list the call is
	// offline.
	Strict Mode = iota
	// Preflight checks the named hosts before the start and enforces nothing
	// afterwards.
	Preflight
	// Unrestricted leaves the host's network open and needs an explicit policy
	// permit.
	Unrestricted
)

// String returns the mode's name in the facts of policy and in the journal,
// where Unrestricted is "none": policies compare context.egress.mode with it.
func (m Mode) String() string {
	switch m {
	case Strict:
		return "strict"
	case Preflight:
		return "preflight"
	case Unrestricted:
		return "none"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// ParseMode reads the name of a mode, in configuration or as String writes it.
// The empty name is Strict.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "", "strict":
		return Strict, nil
	case "preflight":
		return Preflight, nil
	case "unrestricted", "none":
		return Unrestricted, nil
	}
	return Strict, fmt.Errorf("egress mode %q: want strict, preflight or unrestricted", s)
}

// MarshalText writes the form of String.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the form of String.
func (m *Mode) UnmarshalText(text []byte) error {
	parsed, err := ParseMode(string(text))
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}
