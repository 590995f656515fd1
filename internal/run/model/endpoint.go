package model

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"time"

	"palyra/internal/core/dnsname"
	"palyra/internal/core/reason"
)

// DefaultIdleTimeout is the default idle timeout of a provider's response.
const DefaultIdleTimeout = 2 * time.Minute

// Endpoint is a model at a provider. It is the provider's complete configuration: providers do not
// read environment variables or files.
type Endpoint struct {
	// Model is the provider's name for the model.
	Model string
	// BaseURL overrides the provider's default address.
	BaseURL string
	// Key may be zero for a server without authentication.
	Key Key
	// Lend, if set, returns the key of each turn instead of Key. It receives the run and the
	// provider's host. done ends the loan at the end of the turn.
	Lend func(ctx context.Context, run, host string) (key Key, done func(), err error) `json:"-"`
	// MaxOutputTokens bounds a turn; 0 leaves it to the provider, or to a default if the API
	// requires a bound.
	MaxOutputTokens int64
	// IdleTimeout is how long the provider may be silent, before or within an answer; 0 means
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
	Retries     Retries
}

// Resolve validates the endpoint and sets its defaults. A key is never sent unencrypted to another
// machine.
func (e Endpoint) Resolve(home string) (Endpoint, error) {
	if e.Model == "" {
		return e, reason.Errorf(reason.ConfigInvalid, "the model's name at its provider is missing").
			WithRemedy("Set model to the name that the provider uses.")
	}
	if e.BaseURL == "" && !e.keyed() {
		return e, reason.Errorf(reason.ConfigInvalid, "%s requires an API key", home).
			WithRemedy("Set api_key_secret or api_key_file, or base_url if the model runs on a server of your own.")
	}
	e.BaseURL = cmp.Or(e.BaseURL, home)
	e.IdleTimeout = cmp.Or(e.IdleTimeout, DefaultIdleTimeout)
	u, err := url.Parse(e.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// The address is not repeated, because it may contain a key.
		return e, reason.Errorf(reason.ConfigInvalid, "base_url is not an address of the form https://host[:port][/path]").
			WithRemedy("Write base_url without user, query and fragment; store a key in the vault (api_key_secret).")
	}
	if u.Scheme == "http" && e.keyed() && !dnsname.Loopback(u.Hostname()) {
		return e, reason.Errorf(reason.ConfigInvalid, "the API key would be sent to %s unencrypted", u.Host).
			WithRemedy("Use https in base_url, or remove the key if that server does not need one.")
	}
	return e, nil
}

// OutputTokens returns the bound of the requested turn; 0 means none.
func (e Endpoint) OutputTokens(r Request) int64 {
	if e.MaxOutputTokens > 0 && r.MaxTokens > 0 {
		return min(e.MaxOutputTokens, r.MaxTokens)
	}
	return cmp.Or(r.MaxTokens, e.MaxOutputTokens)
}

func (e Endpoint) keyed() bool { return !e.Key.IsZero() || e.Lend != nil }

// host returns the provider's host of a resolved endpoint.
func (e Endpoint) host() string {
	u, err := url.Parse(e.BaseURL)
	if err != nil {
		return ""
	}
	return u.Host
}

// Generate makes attempts at the turn of r. ask makes one attempt, with a key that may be zero. An
// ErrorEvent in the stream is its error.
func (e Endpoint) Generate(ctx context.Context, r Request, observe func(Event), ask func(context.Context, Key) (Turn, error)) (Turn, error) {
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
		if event := ErrorEvent(nil); errors.As(err, &event) && ctx.Err() == nil {
			return Turn{}, FailureInStream(key, event)
		}
		return Turn{}, Failure(ctx, key, err)
	})
}

// dialer limits the time to connect to the provider.
func dialer() *net.Dialer { return &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second} }
