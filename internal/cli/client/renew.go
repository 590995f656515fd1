package client

import (
	"context"
	"fmt"
	"time"

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
	if b.Kept != nil {
		return a.renewedKept(ctx, dir, b, address)
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
	fresh, err := a.certifyAgain(ctx, b, address)
	if err != nil {
		return b, err
	}
	if err := identity.WriteBundle(dir, fresh); err != nil {
		return b, err
	}
	return identity.ReadBundle(dir)
}
