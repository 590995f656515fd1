// Package egress determines where a call may connect. It defines the canonical form of a host, the
// rules for hosts and addresses, and a dialer that connects only to addresses that passed both.
// Names are resolved once, on the gateway's side. The dialled address is the checked one, so a
// second answer of the name server has no effect.
package egress

import "fmt"

// Mode is the degree of egress enforcement. The zero value is the strictest.
type Mode uint8

// The modes.
const (
	// Strict enforces the allowlist at run time; with an empty list the call is
	// offline.
	Strict Mode = iota
	// Preflight checks the named hosts before the start and enforces nothing
	// afterwards.
	Preflight
	// Unrestricted permits access to the host's network and requires an explicit policy permit.
	Unrestricted
)

// String returns the mode's name in policy facts and in the journal. Unrestricted is "none" there:
// policies compare context.egress.mode with it.
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

// ParseMode parses the name of a mode, as in the configuration or from String. The empty name is
// Strict.
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
