package kek

import (
	"context"
	"errors"
	"fmt"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/vault/keyring"
)

// askTime is the timeout for the session's keyring. The keyring never prompts a user for
// palyrad, so the timeout need not allow for an answer.
const askTime = 5 * time.Second

// session is a backend in the keyring of the user's session: one item for each key, labeled with
// the gateway.
type session struct {
	name string
	ring keyring.Keyring
}

func newSession(name, gateway string, env func(string) string) *session {
	return &session{name, keyring.Session(env).OfGateway(gateway)}
}

func (s *session) Name() string { return s.name }

func item(id string) string { return "vault key " + id }

func (s *session) Get(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	key, err := s.ring.Get(ctx, item(id))
	if errors.Is(err, keyring.ErrNotFound) {
		return nil, fmt.Errorf("looking for %s in the keyring: %w", id, ErrNoKey)
	}
	return key, s.away(err)
}

func (s *session) Put(ctx context.Context, id string, key []byte) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return s.away(s.ring.Put(ctx, item(id), key))
}

func (s *session) Delete(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err := s.ring.Delete(ctx, item(id))
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return s.away(err)
}

// away adds the remedy for an unavailable keyring while palyrad runs.
func (s *session) away(err error) error {
	if err == nil {
		return nil
	}
	return reason.Errorf(reason.VaultLocked, "%w", err).
		WithRemedy("Log in to the session of the user that palyrad runs as and unlock its keyring; palyrad then continues automatically. palyrad must be started with that session's DBUS_SESSION_BUS_ADDRESS.")
}
