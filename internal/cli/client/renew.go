package client

import (
	"context"
	"encoding/pem"
	"fmt"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/reason"
)

// renewed returns the bundle in dir with a certificate that is young enough:
// past two thirds of its life it is renewed for the same key and the bundle's
// files are replaced. If that fails and the certificate is still valid, it is
// used as it is. The gateway renews one that expired for ca.RenewableFor.
func (a *App) renewed(ctx context.Context, dir string, b identity.Bundle, address string) (identity.Bundle, error) {
	now := a.Now()
	if now.Before(b.RenewAt()) {
		return b, nil
	}
	if end := b.NotAfter(); now.After(end.Add(ca.RenewableFor)) {
		return b, reason.Errorf(reason.CertificateExpired, "the certificate in %s expired at %s, too long ago to be renewed", dir, end.UTC().Format(time.RFC3339)).
			WithRemedy("Have another made with `palyrad operator bundle NAME` on the gateway's host.")
	}
	fresh, err := a.renew(ctx, dir, b, address)
	if err == nil {
		return fresh, nil
	}
	if now.Before(b.NotAfter()) {
		a.Say("the certificate in %s could not be renewed (it ends %s): %v", dir, b.NotAfter().UTC().Format(time.RFC3339), err)
		return b, nil
	}
	return b, fmt.Errorf("renewing the expired certificate in %s: %w", dir, err)
}

func (a *App) renew(ctx context.Context, dir string, b identity.Bundle, address string) (identity.Bundle, error) {
	request, err := identity.Request(b.Key)
	if err != nil {
		return b, err
	}
	block, _ := pem.Decode(request)
	reply, err := a.dial(b, address).Identity.RenewCertificate(ctx, &palyrav1.RenewCertificateRequest{CertificateRequest: block.Bytes})
	if err != nil {
		return b, err
	}
	chain, err := ca.ParseChain([]byte(reply.GetCertificateChain()))
	if err != nil {
		return b, reason.Errorf(reason.VerificationFailed, "the gateway's new certificate does not parse: %w", err)
	}
	fresh := b
	fresh.Chain = chain
	if err := identity.WriteBundle(dir, fresh); err != nil {
		return b, err
	}
	if fresh.Kept != nil {
		return fresh, nil // reading it again would lock it
	}
	return identity.ReadBundle(dir)
}
