package clitest

import (
	"context"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/identity/passkey"
	"palyra/internal/surface/api/presenceproof"
)

// passkeys are the passkeys of the caller, for a console at palyra-test.localhost.
type passkeys struct {
	keeper
	f *Gateway
}

type keeper = presenceproof.Passkeys

func (passkeys) Proving() []access.Principal                   { return nil }
func (p passkeys) Passkeys(access.Principal) []passkey.Passkey { return p.f.Passkeys }

func (p passkeys) Lost() (list []passkey.Passkey) {
	for _, k := range p.f.Passkeys {
		if k.LostAt("palyra-test.localhost") {
			list = append(list, k)
		}
	}
	return list
}

// passkeyVotes are the fake's votes.
type passkeyVotes struct{}

func (passkeyVotes) Version(context.Context, string) (int64, error) { return 1, nil }

func (passkeyVotes) Said(access.Caller, string, *palyrav1.DecideApprovalRequest, *passkey.Assertion) (passkey.Vote, error) {
	return passkey.Vote{}, nil
}

func (passkeyVotes) MayRead(access.Caller) error { return nil }
