package vault_test

import (
	"strings"
	"testing"

	"palyra/internal/core/reason"
	"palyra/internal/vault"
)

// TestParseRef: an invalid reference is refused with the correct form.
func TestParseRef(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"vault://user/local/x":          "Write vault://user:local/x.",
		"user/local/x":                  "Write vault://user:local/x.",
		"vault://agent/claude/deploy":   "Write vault://agent:claude/deploy.",
		"vault://skill/notes.app/token": "Write vault://skill:notes.app/token.",
		"vault://user/x":                "Use global, or user:",
		"vault://people/ann/x":          "Use global, or user:",
		"vault://global/a/b":            "Use 1 to 128 of a-z",
		"vault://github":                "Write a scope and a key",
	} {
		_, err := vault.ParseRef(given)
		if e := reason.Known(err, reason.Internal); e.Code != reason.InvalidInput || !strings.Contains(e.Remedy, want) {
			t.Errorf("%s: %v, next %q, want %q", given, err, e.Remedy, want)
		}
	}
	for _, given := range []string{"vault://user:local/x", "global/github", "vault://skill:notes.app/token"} {
		if ref, err := vault.ParseRef(given); err != nil || strings.TrimPrefix(ref.String(), vault.Scheme) != strings.TrimPrefix(given, vault.Scheme) {
			t.Errorf("%s: %v, %v", given, ref, err)
		}
	}
}
