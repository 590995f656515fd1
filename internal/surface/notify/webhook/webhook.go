// Package webhook sends notices to HTTP endpoints, signed according to Standard Webhooks
// (https://www.standardwebhooks.com, version 1.0.0).
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/surface/notify"
)

// The headers of a delivery.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// Prefix is the prefix of a secret in the form for receivers.
const Prefix = "whsec_"

// The shortest and the longest key in bytes, by the specification.
const (
	leastKey = 24
	mostKey  = 64
)

// Config is the configuration of an endpoint.
type Config struct {
	Gateway string
	URL     string
	// Secrets are names in the vault: one, or two while the receiver changes to another secret.
	Secrets []string
	// Lend lends a secret for one delivery (lend.Desk).
	Lend func(ctx context.Context, name, run, purpose string) (value []byte, end func(), err error)
	// Client MUST NOT follow redirects, and MUST reach only the endpoint.
	Client *http.Client
	Now    func() time.Time
}

// Sender sends to one endpoint.
type Sender struct{ use Config }

var _ notify.Sender = (*Sender)(nil)

// New returns a sender.
func New(c Config) *Sender {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Sender{c}
}

// body is the body of a request.
type body struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      data      `json:"data"`
}

type data struct {
	Gateway string `json:"gateway"`
	notify.Description
}

// Send posts a message. It uses only the status and the Retry-After header of the response.
func (s *Sender) Send(ctx context.Context, m notify.Message) (ref string, err error) {
	d := m.Describe()
	text, err := json.Marshal(body{Type: "palyra." + string(d.Kind), Timestamp: d.At, Data: data{s.use.Gateway, d}})
	if err != nil {
		return "", notify.Permanent(fmt.Errorf("writing the body: %w", err))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.use.URL, bytes.NewReader(text))
	if err != nil {
		return "", notify.Permanent(fmt.Errorf("making the request: %w", err))
	}
	at := strconv.FormatInt(s.use.Now().Unix(), 10)
	signatures, err := s.sign(ctx, m.ID, at, text)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "palyrad")
	req.Header.Set(HeaderID, m.ID)
	req.Header.Set(HeaderTimestamp, at)
	req.Header.Set(HeaderSignature, signatures)
	res, err := s.use.Client.Do(req)
	if err != nil {
		return "", fmt.Errorf("posting: %w", withoutURL(err))
	}
	// A short body is read so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	_ = res.Body.Close()
	return "", outcome(res, s.use.Now())
}

// sign signs with every secret, the newest first.
func (s *Sender) sign(ctx context.Context, id, at string, text []byte) (string, error) {
	var list []string
	for _, name := range s.use.Secrets {
		value, end, err := s.use.Lend(ctx, name, id, "signature of a webhook")
		if err != nil {
			return "", fmt.Errorf("reading the secret %s: %w", name, err)
		}
		key, err := Key(string(value))
		clear(value)
		end()
		if err != nil {
			return "", reason.Errorf(reason.ConfigInvalid, "reading the secret %s: %w", name, err)
		}
		list = append(list, Sign(key, id, at, text))
		clear(key)
	}
	return strings.Join(list, " "), nil
}

// Key decodes a secret: "whsec_" and base64, or only base64, of 24 to 64 bytes.
func Key(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(secret), Prefix))
	if err != nil || len(key) < leastKey || len(key) > mostKey {
		return nil, reason.Errorf(reason.ConfigInvalid, "the key is not the base64 of %d to %d bytes", leastKey, mostKey).
			WithRemedy("Create a key with `printf 'whsec_%%s' \"$(openssl rand -base64 32)\"` and store it in the vault.")
	}
	return key, nil
}

// Sign returns the signature of a delivery: "v1," and the base64 of the HMAC-SHA256 over
// id.timestamp.body.
func Sign(key []byte, id, at string, text []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(text)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// outcome maps a status to an error.
func outcome(res *http.Response, now time.Time) error {
	err := fmt.Errorf("the endpoint returned status %d", res.StatusCode)
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return notify.Permanent(fmt.Errorf("%w; redirects are not followed", err))
	case code == http.StatusGone:
		return notify.Permanent(err)
	default:
		return notify.RetryAfter(err, retryAfter(res.Header.Get("Retry-After"), now))
	}
}

// retryAfter parses Retry-After (RFC 9110, section 10.2.3). It returns 0 if the header is absent or
// invalid.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// withoutURL removes the URL from an error of net/http, because the URL may contain a token.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
