package clitest

import (
	"context"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/access"
	"palyra/internal/passkey"
	"palyra/internal/rpc/presenceproof"
)

// passkeys are those of a gateway without a console: nobody has one.
type passkeys struct{ keeper }

type keeper = presenceproof.Passkeys

func (passkeys) Proving() []access.Principal                 { return nil }
func (passkeys) Passkeys(access.Principal) []passkey.Passkey { return nil }

// passkeyVotes are the votes of the fake.
type passkeyVotes struct{}

func (passkeyVotes) Version(context.Context, string) (int64, error) { return 1, nil }

func (passkeyVotes) Said(access.Caller, string, *palyrav1.DecideApprovalRequest, *passkey.Assertion) (passkey.Vote, error) {
	return passkey.Vote{}, nil
}

func (passkeyVotes) MayRead(access.Caller) error { return nil }
