package model

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"time"

	"palyra/internal/core/dnsname"
	"palyra/internal/core/reason"
)

// DefaultIdleTimeout is how long a provider may send nothing.
const DefaultIdleTimeout = 2 * time.Minute

// Endpoint is a model at a provider. It is all that a provider knows: none
// reads environment variables or files.
type Endpoint struct {
	// Model is the provider's name for the model.
	Model string
	// BaseURL replaces the provider's own address; "" keeps it.
	BaseURL string
	// Key may be zero for a server of one's own.
	Key Key
	// Lend, where it is set, is asked for the key of each turn in place of Key, with
	// the run that asks and the host that gets it; done ends the loan with the turn.
	Lend func(ctx context.Context, run, host string) (key Key, done func(), err error) `json:"-"`
	// MaxOutputTokens bounds a turn; 0 leaves it to the provider, or, where its
	// API requires a bound, to a default.
	MaxOutputTokens int64
	// IdleTimeout is how long the provider may send nothing, be it before or
	// within an answer; 0 means DefaultIdleTimeout.
	IdleTimeout time.Duration
	Retries     Retries
}

// Resolve checks the endpoint and fills in its defaults. A key never travels
// unencrypted to another machine.
func (e Endpoint) Resolve(home string) (Endpoint, error) {
	if e.Model == "" {
		return e, reason.Errorf(reason.ConfigInvalid, "the model has no name at its provider").
			WithRemedy("Set model to the name that the provider uses.")
	}
	if e.BaseURL == "" && !e.keyed() {
		return e, reason.Errorf(reason.ConfigInvalid, "%s wants an API key", home).
			WithRemedy("Set api_key_secret or api_key_file, or base_url if the model runs on a server of your own.")
	}
	e.BaseURL = cmp.Or(e.BaseURL, home)
	e.IdleTimeout = cmp.Or(e.IdleTimeout, DefaultIdleTimeout)
	u, err := url.Parse(e.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// The address is not repeated: somebody may have written a key into it.
		return e, reason.Errorf(reason.ConfigInvalid, "base_url is not an address of the form https://host[:port][/path]").
			WithRemedy("Write base_url without user, query and fragment; a key belongs into the vault (api_key_secret).")
	}
	if u.Scheme == "http" && e.keyed() && !dnsname.Loopback(u.Hostname()) {
		return e, reason.Errorf(reason.ConfigInvalid, "the API key would travel to %s unencrypted", u.Host).
			WithRemedy("Use https in base_url, or leave the key out if that server wants none.")
	}
	return e, nil
}

// OutputTokens is the bound for the turn that r asks for; 0 is none.
func (e Endpoint) OutputTokens(r Request) int64 {
	if e.MaxOutputTokens > 0 && r.MaxTokens > 0 {
		return min(e.MaxOutputTokens, r.MaxTokens)
	}
	return cmp.Or(r.MaxTokens, e.MaxOutputTokens)
}

func (e Endpoint) keyed() bool { return !e.Key.IsZero() || e.Lend != nil }

// host is the provider's host of a resolved endpoint.
func (e Endpoint) host() string {
	u, err := url.Parse(e.BaseURL)
	if err != nil {
		return ""
	}
	return u.Host
}

// Generate makes attempts at the turn that r asks for. Ask makes one, with a key that
// may be zero; inStream returns the JSON of an error that came as an event of the
// stream, nil for any other error.
func (e Endpoint) Generate(ctx context.Context, r Request, observe func(Event), ask func(context.Context, Key) (Turn, error), inStream func(error) []byte) (Turn, error) {
	key := e.Key
	if e.Lend != nil {
		lent, done, err := e.Lend(ctx, r.Run, e.host())
		if err != nil {
			return Turn{}, err
		}
		defer done()
		key = lent
	}
	return e.Retries.Generate(ctx, observe, func(ctx context.Context) (Turn, error) {
		turn, err := ask(ctx, key)
		if err == nil {
			return Finish(r, turn), nil
		}
		if event := inStream(err); event != nil && ctx.Err() == nil {
			return Turn{}, FailureInStream(key, event)
		}
		return Turn{}, Failure(ctx, key, err)
	})
}

// dialer bounds how long it may take to reach the provider.
func dialer() *net.Dialer { return &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second} }
