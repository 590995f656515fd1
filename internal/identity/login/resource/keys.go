package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"palyra/internal/core/canonical"
	"palyra/internal/core/dnsname"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/egress"
	"palyra/internal/identity/login"
)

const (
	// fresh is how long keys are cached without a query. stale is how long they are used if the
	// issuer cannot be reached: a withdrawn key verifies nothing after that.
	fresh = 5 * time.Minute
	stale = 15 * time.Minute
	// firstPause and longestPause limit the delay after a failed query of an issuer; each pause is
	// twice the previous one. rotation is the minimum interval between queries for an unknown key,
	// so that a sender of such tokens cannot trigger arbitrary queries.
	firstPause   = 5 * time.Second
	longestPause = 2 * time.Minute
	rotation     = 30 * time.Second
	// askTime limits one query, including metadata and keys. maxKeys limits the number of keys of
	// an issuer, and maxAnswer the bytes of an answer.
	askTime   = 15 * time.Second
	maxKeys   = 64
	maxAnswer = 1 << 20
)

// keys are an issuer's keys, fetched through the egress rules and cached. It is an oidc.KeySet.
type keys struct {
	issuer Issuer
	client *http.Client
	now    func() time.Time
	log    *slog.Logger

	// turn has a capacity of one, so that one query runs at a time.
	turn chan struct{}

	mu    sync.Mutex
	known []jose.JSONWebKey
	// at is the time when known was fetched, asked is the time of the last query, and pause is the
	// delay before the next query.
	at, asked time.Time
	pause     time.Duration
	// err is the error of the last query; nil if it succeeded.
	err *reason.Error
}

func newKeys(i Issuer, c Config) *keys {
	dialer := &egress.Dialer{Rules: i.Rules, Resolver: c.Resolver, Dial: c.Dial, Interfaces: c.Interfaces}
	return &keys{issuer: i, client: login.NewClient(dialer.DialContext, nil), now: c.Now, log: c.Log, turn: make(chan struct{}, 1)}
}

// away returns the reason why no keys are available; nil if keys are available.
func (k *keys) away() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil && !k.usable(k.now()) {
		return k.err
	}
	return nil
}

// usable reports whether the cached keys are still valid. The caller holds mu.
func (k *keys) usable(now time.Time) bool { return !k.at.IsZero() && now.Sub(k.at) < stale }

// VerifySignature implements oidc.KeySet. It returns the payload of a token that is signed by one
// of the issuer's keys with a permitted algorithm.
func (k *keys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	var algorithms []jose.SignatureAlgorithm
	for _, a := range k.issuer.Algorithms {
		algorithms = append(algorithms, jose.SignatureAlgorithm(a))
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, fmt.Errorf("parsing the token: %w", err)
	}
	header := signed.Signatures[0].Header
	payload, found := check(signed, header, k.current(ctx, false))
	if !found {
		payload, found = check(signed, header, k.current(ctx, true))
	}
	if !found {
		return nil, errors.New("no key of the issuer signed it")
	}
	return payload, nil
}

// check verifies a token with the keys that may have signed it. It ignores key data in the
// token's header other than the key id ("jwk", "jku", "x5u").
func check(signed *jose.JSONWebSignature, header jose.Header, known []jose.JSONWebKey) ([]byte, bool) {
	for i := range known {
		key := &known[i]
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// current returns the issuer's keys, or none if they are not available. It queries the issuer
// if the keys are old, or if unknown is true, which means that the key of a token is not among
// them.
func (k *keys) current(ctx context.Context, unknown bool) []jose.JSONWebKey {
	if !k.due(k.now(), unknown) {
		return k.counting()
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil
	}
	if now := k.now(); k.due(now, unknown) {
		// The query completes even if the caller disconnects, so that disconnecting does not
		// trigger another query.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
		defer cancel()
		known, err := k.fetch(ctx)
		k.note(ctx, now, known, err)
	}
	return k.counting()
}

// counting returns the keys that are valid now.
func (k *keys) counting() []jose.JSONWebKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.usable(k.now()) {
		return nil
	}
	return k.known
}

// due reports whether the issuer must be queried.
func (k *keys) due(now time.Time, unknown bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch since := now.Sub(k.asked); {
	case k.asked.IsZero():
		return true
	case k.err != nil:
		return since >= k.pause
	case unknown:
		return since >= rotation
	default:
		return now.Sub(k.at) >= fresh
	}
}

func (k *keys) note(ctx context.Context, now time.Time, known []jose.JSONWebKey, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = now
	if err == nil {
		k.known, k.at, k.err, k.pause = known, now, nil, 0
		return
	}
	k.pause = min(max(2*k.pause, firstPause), longestPause)
	k.err = reason.Errorf(reason.LoginUnavailable, "the keys of the issuer %s cannot be fetched: %s", k.issuer.Name, text.Ellipsis(err.Error(), maxText)).
		WithRemedy("Try again later, or use a token of the gateway's own. Ask an administrator to check that the gateway can reach the issuer (oauth_issuers.allowed_hosts).")
	k.log.WarnContext(ctx, "the keys of an OAuth issuer cannot be had", slog.String("error", k.err.Message))
}

// fetch requests the issuer's keys.
func (k *keys) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	at := k.issuer.JWKS
	if at == "" {
		var err error
		if at, err = k.discover(ctx); err != nil {
			return nil, err
		}
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.get(ctx, at, &set); err != nil {
		return nil, err
	}
	var known []jose.JSONWebKey
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var key jose.JSONWebKey
		// An unusable key, such as a key of another kind, does not invalidate the others (RFC 7517,
		// section 5).
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() && key.Valid() && (key.Use == "" || key.Use == "sig") {
			known = append(known, key)
		}
	}
	if len(known) == 0 {
		return nil, errors.New("its key set has no public key that signs")
	}
	return known, nil
}

// discover finds the URL of the keys in the issuer's metadata: OpenID Connect Discovery 1.0, or
// else RFC 8414. It ignores metadata of another issuer (issuer mix-up).
func (k *keys) discover(ctx context.Context) (string, error) {
	u, err := url.Parse(k.issuer.Name)
	if err != nil {
		return "", err
	}
	var said struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	path := strings.TrimSuffix(u.Path, "/")
	oauth := *u
	oauth.Path = "/.well-known/oauth-authorization-server" + path
	err = k.get(ctx, strings.TrimSuffix(k.issuer.Name, "/")+"/.well-known/openid-configuration", &said)
	if err != nil {
		err = k.get(ctx, oauth.String(), &said)
	}
	if err != nil {
		return "", err
	}
	if !SameIssuer(said.Issuer, k.issuer.Name) {
		return "", fmt.Errorf("its metadata is of %q", text.Ellipsis(said.Issuer, maxText))
	}
	jwks, err := url.Parse(said.JWKS)
	if err != nil || jwks.Host == "" || jwks.Scheme != "https" && (jwks.Scheme != "http" || u.Scheme != "http" || !dnsname.Loopback(jwks.Hostname())) {
		return "", fmt.Errorf("its jwks_uri is %q, which is not an https URL", text.Ellipsis(said.JWKS, maxText))
	}
	return said.JWKS, nil
}

// get reads a JSON document.
func (k *keys) get(ctx context.Context, at string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := k.client.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	if err := canonical.Read(text, into); err != nil {
		return fmt.Errorf("%s is not a JSON document: %w", at, err)
	}
	return nil
}

// Hosts returns the egress rules for an issuer's own hosts: the host of the issuer, and the
// host of its keys if configured.
func Hosts(urls ...string) ([]egress.Rule, error) {
	var list []string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" {
			continue
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80"}[u.Scheme]
		}
		if port == "" {
			port = "443"
		}
		host, err := egress.CanonicalHost(u.Hostname())
		if err != nil {
			return nil, err
		}
		number, err := egress.ParsePort(port)
		if err != nil {
			return nil, err
		}
		list = append(list, host.Join(number))
	}
	slices.Sort(list)
	return egress.ParseRules(slices.Compact(list))
}
