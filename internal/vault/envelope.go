package vault

import (
	"bytes"
	"cmp"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/vault/aead"
)

// keySize is the length of data keys and derived keys, in bytes.
const keySize = aead.KeySize

// The purposes of the keys that are derived from a data key.
const (
	forValue    = "palyra vault value v1"
	forMetadata = "palyra vault metadata v1"
)

var errOpen = errors.New("the stored data does not match its seal")

// Version is one stored value of a secret.
type Version struct {
	Number int
	// KEK is the id of the key-encryption key that wraps Key.
	KEK string
	Key []byte
	// Box is the nonce and the sealed value; lists omit it.
	Box []byte
}

// Record is a stored secret.
type Record struct {
	Ref Ref
	// Metadata is canonical JSON, which Seal authenticates under the data key of the newest
	// version.
	Metadata, Seal []byte
	Newest         int
	// Placed is true for a secret that has hosts. It is an index only, and not authenticated; the
	// same applies to LastUsed, whose authoritative source is the journal.
	Placed   bool
	LastUsed time.Time
	// Versions are ordered by number; lists contain only the newest.
	Versions []Version
	// HeldBy is the holder of a secret whose sealed metadata lacks one: the holder at the upgrade
	// to the release that introduced holders.
	HeldBy string
	// Last is the newest journaled state of the secret.
	Last LastEvent
}

// LastEvent is the newest event that put, ended or removed a secret.
type LastEvent struct {
	// Code is "" if no such event exists.
	Code event.Code
	// Payload is nil once it was erased.
	Payload []byte
}

// version returns a version that the record has.
func (r Record) version(n int) (Version, bool) {
	for _, v := range r.Versions {
		if v.Number == n {
			return v, true
		}
	}
	return Version{}, false
}

// asTold refuses a record that does not match the newest journaled state: a complete older
// state passes all other checks.
func (r Record) asTold() error {
	var put struct {
		Version int    `json:"version"`
		Seal    []byte `json:"seal"`
	}
	switch {
	case r.Last.Code == "":
		return errors.New("the journal has no event of it")
	case r.Last.Code == event.SecretEnded: // the secret must not be used in any case
		return nil
	case r.Last.Code != event.SecretPut:
		return errors.New("the journal records its removal, but it exists")
	case r.Last.Payload == nil:
		return nil
	}
	if err := json.Unmarshal(r.Last.Payload, &put); err != nil {
		return fmt.Errorf("reading its newest event: %w", err)
	}
	if put.Version != r.Newest {
		return fmt.Errorf("its newest version is %d, but the journal records %d", r.Newest, put.Version)
	}
	// Events of older releases have no seal.
	if put.Seal != nil && !bytes.Equal(put.Seal, r.Seal) {
		return errors.New("it does not match the journal's last put")
	}
	return nil
}

// sameKeys reports whether two records have the same wrapped data keys.
func (r Record) sameKeys(of Record) bool {
	return slices.EqualFunc(r.Versions, of.Versions, func(a, b Version) bool {
		return a.Number == b.Number && a.KEK == b.KEK && bytes.Equal(a.Key, b.Key)
	})
}

// About returns the text that is authenticated with the wrapped data key of a version.
func About(r Ref, version int) string {
	return strings.Join([]string{aboutSecret, r.Scope, r.Key, strconv.Itoa(version)}, "\x00")
}

const aboutSecret = "secret"

// ParseAbout parses the result of About.
func ParseAbout(about string) (Ref, int, error) {
	parts := strings.Split(about, "\x00")
	if len(parts) != 4 || parts[0] != aboutSecret {
		return Ref{}, 0, fmt.Errorf("%q does not name a secret", about)
	}
	n, err := strconv.Atoi(parts[3])
	return Ref{Scope: parts[1], Key: parts[2]}, n, err
}

// sealed is the authenticated form of the metadata.
type sealed struct {
	Scope     string    `json:"scope"`
	Key       string    `json:"key"`
	Version   int       `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Note      string    `json:"note,omitempty"`
	Hosts     []string  `json:"hosts,omitempty"`
	Header    string    `json:"header,omitempty"`
	Env       string    `json:"env,omitempty"`
	File      string    `json:"file,omitempty"`
	Holder    string    `json:"holder,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	Versions  []Past    `json:"versions"`
}

// newKey returns a random data key.
func newKey() ([]byte, error) {
	key := make([]byte, keySize)
	_, err := rand.Read(key)
	return key, err
}

func derive(key []byte, purpose string) ([]byte, error) {
	return hkdf.Expand(sha256.New, key, purpose, keySize)
}

// authenticated returns the associated data of a version's box.
func authenticated(r Ref, p Past) []byte {
	return []byte(strings.Join([]string{forValue, r.Scope, r.Key, strconv.Itoa(p.Version), p.At.UTC().Format(time.RFC3339Nano), p.By.String()}, "\x00"))
}

func sealValue(key []byte, r Ref, p Past, value []byte) ([]byte, error) {
	sub, err := derive(key, forValue)
	if err != nil {
		return nil, err
	}
	defer clear(sub)
	return aead.Seal(sub, value, authenticated(r, p))
}

func openValue(key []byte, r Ref, p Past, box []byte) ([]byte, error) {
	sub, err := derive(key, forValue)
	if err != nil {
		return nil, err
	}
	defer clear(sub)
	value, err := aead.Open(sub, box, authenticated(r, p))
	if errors.Is(err, aead.ErrOpen) {
		return nil, errOpen
	}
	return value, err
}

// sealMetadata returns the stored form of the metadata, and its authentication tag.
func sealMetadata(key []byte, m Secret) (text, seal []byte, err error) {
	text, err = canonical.Marshal(sealed{
		Scope: m.Ref.Scope, Key: m.Ref.Key, Version: m.Version, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, ExpiresAt: m.ExpiresAt,
		Note: m.Note, Hosts: m.Hosts, Header: m.Header, Env: m.Env, File: m.File, Holder: m.Holder, Versions: m.Versions,
	})
	if err != nil {
		return nil, nil, err
	}
	seal, err = sum(key, text)
	return text, seal, err
}

func sum(key, text []byte) ([]byte, error) {
	sub, err := derive(key, forMetadata)
	if err != nil {
		return nil, err
	}
	defer clear(sub)
	mac := hmac.New(sha256.New, sub)
	mac.Write(text)
	return mac.Sum(nil), nil
}

// openMetadata verifies the metadata of a record under the data key of its newest version.
func openMetadata(key []byte, r Record) (Secret, error) {
	want, err := sum(key, r.Metadata)
	if err != nil {
		return Secret{}, err
	}
	if !hmac.Equal(want, r.Seal) {
		return Secret{}, errOpen
	}
	var s sealed
	if err := json.Unmarshal(r.Metadata, &s); err != nil {
		return Secret{}, errOpen
	}
	m := Secret{
		Ref: Ref{Scope: s.Scope, Key: s.Key}, Version: s.Version, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, ExpiresAt: s.ExpiresAt,
		Note: s.Note, Hosts: s.Hosts, Header: s.Header, Env: s.Env, File: s.File, Holder: cmp.Or(s.Holder, r.HeldBy), Versions: s.Versions, LastUsed: r.LastUsed,
	}
	if m.Ref != r.Ref || m.Version != r.Newest {
		return Secret{}, errOpen
	}
	return m, nil
}
