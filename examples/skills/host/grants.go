package host

import (
	"errors"
	"fmt"
)

// Handle is an open grant.
type Handle int32

// Kind is a kind of grant.
type Kind int32

// The kinds.
const (
	KindHTTP Kind = iota + 1
	KindSecret
	KindStorage
	KindChannel
)

// Level is the severity of a log line.
type Level int32

// The levels.
const (
	Debug Level = iota
	Info
	Warn
	Failure
)

// The errors of grants, for errors.Is. The text of a returned error has more details.
var (
	ErrNotGranted = errors.New("not granted")
	ErrRefused    = errors.New("refused by policy or rules")
	ErrFailed     = errors.New("failed")
	ErrArgument   = errors.New("bad argument")
	ErrBudget     = errors.New("budget exceeded")
	ErrNoKey      = errors.New("nothing is kept under this key")
)

// maxError is the maximum length of an error text that is read.
const maxError = 1000

// failure converts a negative value into an error.
func failure(value int32, text string) error {
	known := []error{ErrNotGranted, ErrRefused, ErrFailed, ErrArgument, ErrBudget, ErrNoKey}
	err := ErrFailed
	if at := int(-value) - 1; at >= 0 && at < len(known) {
		err = known[at]
	}
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// Request is a request in the form of http.fetch. A header may contain the placeholder of a
// secret; Palyra replaces it by the value.
type Request struct {
	Method  string            `json:"method,omitempty"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

// Response is the response to a request. Content is base64 if Encoding is "base64".
type Response struct {
	Status    int               `json:"status"`
	URL       string            `json:"url"`
	Headers   map[string]string `json:"headers"`
	Content   string            `json:"content"`
	Encoding  string            `json:"encoding"`
	Truncated bool              `json:"truncated"`
}

// HTTP opens the grant for a host, by its rule in the manifest.
func HTTP(rule string) (Handle, error) { return open(int32(KindHTTP), rule) }

// Secret opens the grant for a secret, by its name in the manifest.
func Secret(name string) (Handle, error) { return open(int32(KindSecret), name) }

// Storage opens the grant for storage.
func Storage() (Handle, error) { return open(int32(KindStorage), "storage") }

// Channel opens the grant for a channel, by its name in the manifest.
func Channel(name string) (Handle, error) { return open(int32(KindChannel), name) }
