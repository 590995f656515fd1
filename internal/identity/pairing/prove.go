package pairing

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/identity/pairing/spake2plus"
)

// attempt is a guess that its candidate has not confirmed yet.
type attempt struct {
	code     *code
	verifier *spake2plus.Verifier
	at       time.Time
	bound    bound
	request  []byte
	address  string
}

// failed returns the only error that a candidate receives for a failed exchange. It does not
// reveal the cause.
func failed() error {
	return reason.Errorf(reason.PairingFailed, "the pairing failed: another secret, another connection, or too late")
}

// noCode returns the error if no code is open, for any reason.
func noCode() error {
	return reason.Errorf(reason.NotFound, "no such pairing code is open at this gateway: it was used, had %d wrong guesses, expired, was cancelled, or the gateway was started again", MostGuesses).
		WithRemedy("Create another code with `palyra pairing code` where you can use the gateway.")
}

// Begin returns the open code and the gateway's data. Without an id it selects the only open
// PIN. It stores nothing about the caller.
func (h *Host) Begin(id string) (Offer, error) {
	c, err := h.open(id)
	if err != nil {
		return Offer{}, err
	}
	server, err := h.cfg.Server()
	if err != nil {
		return Offer{}, err
	}
	return Offer{
		Code: c.ID, Kind: c.Kind, Salt: c.salt, DeviceID: c.For.DeviceID, CA: server.CA, ServerName: server.Name, ServerKey: server.Key,
	}, nil
}

// open finds a code that still accepts guesses.
func (h *Host) open(id string) (*code, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id != "" {
		if c := h.codes[id]; c.guessable() {
			return c, nil
		}
		return nil, noCode()
	}
	var found *code
	for _, c := range h.codes {
		if c.Kind != PIN || !c.guessable() {
			continue
		}
		if found != nil {
			return nil, reason.Errorf(reason.InvalidInput, "several PINs are open at this gateway").
				WithRemedy("Name one: `palyra pair ADDRESS --code ID`; `palyra pairing code` printed the id.")
		}
		found = c
	}
	if found == nil {
		return nil, noCode()
	}
	return found, nil
}

func (c *code) guessable() bool {
	return c != nil && c.State == Open && c.Guesses < MostGuesses && time.Now().Before(c.ExpiresAt)
}

// Prove processes a guess. It counts the guess for the code and for the address before it
// checks the guess, regardless of the result.
func (h *Host) Prove(conn Connection, p Proof) (Answer, error) {
	key, err := requested(p.Request)
	if err != nil {
		return Answer{}, err
	}
	deviceKey, err := KeySHA256(key)
	if err != nil {
		return Answer{}, err
	}
	if len(p.Commitment) != commitmentSize || len(conn.Exporter) != exporterSize {
		return Answer{}, failed()
	}
	c, left, err := h.spend(p.Code, conn.Address)
	if err != nil {
		return Answer{}, err
	}
	server, err := h.cfg.Server()
	if err != nil {
		return Answer{}, err
	}
	ca := sha256.Sum256(server.CA)
	a := &attempt{code: c, at: time.Now(), request: bytes.Clone(p.Request), address: conn.Address, bound: bound{
		exporter: bytes.Clone(conn.Exporter), deviceKey: deviceKey, serverKey: server.Key, ca: ca[:],
		deviceID: c.For.DeviceID, code: c.ID, kind: c.Kind, name: p.Name, commitment: bytes.Clone(p.Commitment),
	}}
	context, err := a.bound.context()
	if err != nil {
		return Answer{}, failed()
	}
	if a.verifier, err = spake2plus.NewVerifier(c.record, context, p.Share); err != nil {
		return Answer{}, failed()
	}
	return h.begun(a, left)
}

// spend counts a guess, or refuses it if none is left.
func (h *Host) spend(id, address string) (c *code, left int, err error) {
	key := limit.Address(address)
	ok, wait := h.lockout.Try(key)
	h.mu.Lock()
	defer h.mu.Unlock()
	c = h.codes[id]
	kind := tried{address: key, outcome: "guess"}
	if c != nil {
		kind.code = id
	}
	if !ok {
		kind.outcome = "locked out"
	}
	h.tries.note(kind)
	if !ok {
		return nil, 0, reason.Errorf(reason.RateLimited, "too many wrong guesses from here; try again in %s", wait.Round(time.Second)).
			WithField("retry_after", wait.String())
	}
	if !c.guessable() {
		return nil, 0, noCode()
	}
	c.Guesses++
	c.guessed = time.Now()
	return c, MostGuesses - c.Guesses, nil
}

// begun stores an attempt until its candidate confirms it. A code has at most MostGuesses attempts.
func (h *Host) begun(a *attempt, left int) (Answer, error) {
	id, err := random(attemptSize)
	if err != nil {
		return Answer{}, err
	}
	h.mu.Lock()
	h.attempts[string(id)] = a
	h.mu.Unlock()
	share, confirmation := a.verifier.Answer()
	return Answer{Attempt: id, Share: share, Confirmation: confirmation, GuessesLeft: left}, nil
}

// Confirm completes an exchange. If the candidate knew the secret, the code is used up and
// people receive a request for approval.
func (h *Host) Confirm(ctx context.Context, conn Connection, msg Confirmation) error {
	a, err := h.finish(conn, msg)
	if err != nil {
		return err
	}
	key, err := a.verifier.Finish(msg.Confirmation)
	if err != nil || !hmac.Equal(commit(msg.Nonce), a.bound.commitment) {
		return failed()
	}
	digits, err := comparison(key, msg.Nonce)
	if err != nil {
		return err
	}
	c, err := h.use(a, digits)
	if err != nil {
		return err
	}
	h.lockout.Succeeded(limit.Address(conn.Address))
	return h.ask(ctx, c)
}

// finish removes and returns an attempt, which can be confirmed only once.
func (h *Host) finish(conn Connection, msg Confirmation) (*attempt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.attempts[string(msg.Attempt)]
	delete(h.attempts, string(msg.Attempt))
	if a == nil || time.Since(a.at) > answerWithin || len(msg.Nonce) != nonceSize || !bytes.Equal(a.bound.exporter, conn.Exporter) {
		return nil, failed()
	}
	return a, nil
}

// use marks a code as used by the first candidate that knew its secret.
func (h *Host) use(a *attempt, digits string) (Code, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := a.code
	if h.codes[c.ID] != c || c.State != Open || time.Now().After(c.ExpiresAt) {
		return Code{}, noCode()
	}
	c.State, c.Comparison, c.Address = Asked, digits, a.address
	c.KeySHA256 = "sha256:" + hex.EncodeToString(a.bound.deviceKey)
	c.For.Request, c.For.Name = a.request, a.bound.name
	return c.Code, nil
}
