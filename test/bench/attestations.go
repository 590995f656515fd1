//go:build linux

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/identity/ca"
)

// attestationVerify is the second half of goal 14, on one core, compared with only the Ed25519
// verification.
func attestationVerify(ctx context.Context, b *bench) ([]*line, error) {
	notary, err := b.notary()
	if err != nil {
		return nil, err
	}
	verifier, err := attest.NewVerifier(notary.KeySet())
	if err != nil {
		return nil, err
	}
	envelopes := make([][]byte, b.size.envelopes)
	for i := range envelopes {
		e, err := notary.Sign(ctx, execution())
		if err != nil {
			return nil, err
		}
		envelopes[i] = e.JSON
	}
	signature, err := newSignature(len(envelopes[0]))
	if err != nil {
		return nil, err
	}
	l := &line{
		goal: "14", what: "attestations verified on one core", unit: "/s", limit: atLeast(15_000),
		note: fmt.Sprintf("envelopes have %d bytes", len(envelopes[0])),
	}
	bare := &line{goal: "14", what: "Ed25519 alone on one core", unit: "/s"}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	return []*line{l, bare}, b.each(ctx, func() error {
		started := time.Now()
		for range envelopes {
			if err := signature.check(); err != nil {
				return err
			}
		}
		bare.add(0, perSecond(len(envelopes), time.Since(started)))
		started = time.Now()
		for _, e := range envelopes {
			if _, err := verifier.Verify(e); err != nil {
				return err
			}
		}
		l.add(0, perSecond(len(envelopes), time.Since(started)))
		return nil
	})
}

// signature is one Ed25519 signature over a message of a given size.
type signature struct {
	key          ed25519.PublicKey
	message, sig []byte
}

func newSignature(size int) (signature, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return signature{}, err
	}
	message := make([]byte, size)
	return signature{public, message, ed25519.Sign(private, message)}, nil
}

func (s signature) check() error {
	if !ed25519.Verify(s.key, s.message, s.sig) {
		return fmt.Errorf("a good signature of %d bytes does not verify", len(s.message))
	}
	return nil
}

func (b *bench) notary() (*attest.Notary, error) {
	dir, err := b.path("notary")
	if err != nil {
		return nil, err
	}
	authority, _, err := ca.Open(filepath.Join(dir, "ca"), ca.Options{})
	if err != nil {
		return nil, err
	}
	key := authority.Notary.Key()
	return attest.NewNotary(attest.NotaryConfig{Signer: key.Signer, Chain: key.Chain, Gateway: authority.TrustDomain()})
}

// execution is the execution of a call of a builtin tool, as the notary receives it.
func execution() attest.Execution {
	digest := "sha256:" + strings.Repeat("ab", 32)
	now := time.Now().UTC()
	return attest.Execution{
		AttestationID: ulid.Make().String(), ProposalID: ulid.Make().String(), DecisionID: ulid.Make().String(),
		Session: "01JD0000000000000000000000.default", Run: "01JD0000000000000000000001",
		Principal: "user:local", OnBehalfOf: "user:local", Tool: "echo",
		ToolDefinitionDigest: digest, CallDigest: digest, ArgumentsDigest: digest,
		PolicyVersion: "01JD0000000000000000000002", SnapshotDigest: digest, Determining: []string{"defaults/20-tools.cedar#0"},
		ProposedAt: now, DecidedAt: now,
		Report: tool.Report{
			Outcome: tool.Succeeded, Result: []byte(`{"text":"hello"}`),
			Executor:    tool.ExecutorInfo{Name: tool.Builtin, Version: "dev", Tier: "builtin"},
			Enforcement: tool.Enforcement{Level: "none"}, StartedAt: now, FinishedAt: now,
		},
	}
}
