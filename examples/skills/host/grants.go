package host

import (
	"errors"
	"fmt"
)

// Handle is a grant that was opened.
type Handle int32

// Kind is a kind of grants.
type Kind int32

// The kinds.
const (
	KindHTTP Kind = iota + 1
	KindSecret
	KindStorage
	KindChannel
)

// Level is how much a line of the log matters.
type Level int32

// The levels.
const (
	Debug Level = iota
	Info
	Warn
	Failure
)

// What grants refuse. errors.Is finds them; the text has more.
var (
	ErrNotGranted = errors.New("not granted")
	ErrRefused    = errors.New("refused by policy or rules")
	ErrFailed     = errors.New("failed")
	ErrArgument   = errors.New("bad argument")
	ErrBudget     = errors.New("over a budget")
	ErrNoKey      = errors.New("nothing is kept under this key")
)

// maxError is how much is read of the text of an error.
const maxError = 1000

// failure is a negative value as an error.
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

// Request is a request as http.fetch takes it. A header may hold the placeholder of a
// secret; Palyra puts the value in its place on the way.
type Request struct {
	Method  string            `json:"method,omitempty"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

// Response is what came back. Content is base64 where Encoding says so.
type Response struct {
	Status    int               `json:"status"`
	URL       string            `json:"url"`
	Headers   map[string]string `json:"headers"`
	Content   string            `json:"content"`
	Encoding  string            `json:"encoding"`
	Truncated bool              `json:"truncated"`
}

// HTTP is the grant for a host, by the rule in the manifest that has it.
func HTTP(rule string) (Handle, error) { return open(int32(KindHTTP), rule) }

// Secret is the grant for a secret, by its name in the manifest.
func Secret(name string) (Handle, error) { return open(int32(KindSecret), name) }

// Storage is the grant to keep things.
func Storage() (Handle, error) { return open(int32(KindStorage), "storage") }

// Channel is the grant for a channel, by its name in the manifest.
func Channel(name string) (Handle, error) { return open(int32(KindChannel), name) }
