package model

import (
	"log/slog"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// redacted is the printed form of a Key.
const redacted = "redacted"

// Key is the secret of a provider's API. It prints, logs and marshals as "redacted". The zero Key
// means none.
type Key struct {
	// text is a pointer so that a Key inside an unexported field, whose methods
	// fmt does not call, prints as an address.
	text *string
}

// NewKey returns the Key in a key file or a secret: one line without surrounding white space. Empty
// contents mean no key.
func NewKey(contents string) (Key, error) {
	text := strings.TrimSpace(contents)
	if text == "" {
		return Key{}, nil
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Key{}, reason.Errorf(reason.ConfigInvalid, "the API key contains a space, a line break or an invalid character").
			WithRemedy("Store only the key in the secret or file that api_key_secret or api_key_file names.")
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

// IsZero reports whether the key is missing.
func (k Key) IsZero() bool { return k.text == nil }

// String returns "redacted".
func (Key) String() string { return redacted }

// LogValue returns "redacted" for slog.
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns "redacted" for encoders such as encoding/json.
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// maxSaid bounds the repeated part of a provider's message, in bytes.
const maxSaid = 500

// clean prepares a message of the provider or the network for display: without the key, on one
// line, and shortened.
func (k Key) clean(said string) string {
	if !k.IsZero() {
		said = strings.ReplaceAll(said, k.Reveal(), "["+redacted+"]")
	}
	said = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(said, "?"), unfit), " ")
	return text.Ellipsis(said, maxSaid)
}
