package command

import (
	"palyra/internal/core/lazyregexp"
)

var digestForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// CheckDigest refuses an invalid digest; "" is accepted.
func CheckDigest(s string) error {
	if s == "" || digestForm.MatchString(s) {
		return nil
	}
	return Usage("%q is not a valid digest", s).WithRemedy("Copy it whole: sha256: and 64 digits from 0 to 9 and a to f.")
}

var nameForm = lazyregexp.New(`^[A-Za-z0-9._-]*$`)

// CheckName refuses a session or run name that the gateway would refuse.
func CheckName(flag, s string) error {
	const longest = 64
	if len(s) <= longest && nameForm.MatchString(s) {
		return nil
	}
	return Usage("--%s %q: use at most %d letters, digits, points, hyphens and underscores", flag, s, longest)
}
