package model

import (
	"log/slog"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// redacted is all that a Key says of itself.
const redacted = "redacted"

// Key is the secret that a provider knows its customer by. It says "redacted"
// wherever it is printed, logged or marshalled. The zero Key is no key.
type Key struct {
	// text is a pointer so that a Key inside an unexported field, whose methods
	// fmt does not call, prints as an address.
	text *string
}

// NewKey makes a Key of what a key file or a secret holds: one line, in which
// surrounding white space does not count. Empty contents are no key.
func NewKey(contents string) (Key, error) {
	text := strings.TrimSpace(contents)
	if text == "" {
		return Key{}, nil
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Key{}, reason.Errorf(reason.ConfigInvalid, "the API key holds a space, a line break or a character that no key has").
			WithRemedy("Put the key and nothing else into what api_key_secret or api_key_file names.")
	}
	return Key{text: &text}, nil
}

// Reveal returns the key itself, for the request to the provider.
func (k Key) Reveal() string {
	if k.text == nil {
		return ""
	}
	return *k.text
}

// IsZero reports whether there is no key.
func (k Key) IsZero() bool { return k.text == nil }

// String says only that there is a secret.
func (Key) String() string { return redacted }

// LogValue is what slog logs.
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText is what encoders such as encoding/json write.
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// maxSaid bounds, in bytes, what is repeated of a provider's message.
const maxSaid = 500

// clean makes what a provider or the network said fit to be shown: without the
// key, on one line, and not too long.
func (k Key) clean(said string) string {
	if !k.IsZero() {
		said = strings.ReplaceAll(said, k.Reveal(), "["+redacted+"]")
	}
	said = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(said, "?"), unfit), " ")
	return text.Ellipsis(said, maxSaid)
}
