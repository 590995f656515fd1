package journal

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/reason"
)

// ParseKey parses a signing key in the text form of signed notes, PRIVATE+KEY+name+hash+base64
// (note.GenerateKey). The text is a secret and is not part of any error.
func ParseKey(text string) (*Key, error) {
	signer, err := note.NewSigner(text)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigInvalid, "the checkpoint key is malformed")
	}
	// The base64 may itself contain a '+', so that it is everything after the fourth one.
	parts := strings.SplitN(text, "+", 5)
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	// note.NewSigner has checked the algorithm byte in front of the seed.
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return nil, reason.Errorf(reason.ConfigInvalid, "the checkpoint key is not an Ed25519 key")
	}
	return NewKey(signer.Name(), ed25519.NewKeyFromSeed(raw[1:]))
}
