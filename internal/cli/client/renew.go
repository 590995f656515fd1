package client

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
)

// renewer renews the certificates of credential bundles.
type renewer struct{ dialer Dialer }

// renewed returns the bundle in dir with a sufficiently fresh certificate: past two thirds of
// its life the bundle gets a new key. If renewal fails, or another command renews it, a still
// valid certificate is used. The gateway still renews a certificate for ca.RenewableFor after
// it has expired.
func (r renewer) renewed(ctx context.Context, dir string, b identity.Bundle, address string) (identity.Bundle, error) {
	now := r.dialer.out.Now()
	if now.Before(b.RenewAt()) {
		return b, nil
	}
	if end := b.NotAfter(); now.After(end.Add(ca.RenewableFor)) {
		return b, reason.Errorf(reason.CertificateExpired, "the certificate in %s expired at %s, too long ago to be renewed", dir, end.UTC().Format(time.RFC3339)).
			WithRemedy("Create another with `palyrad operator bundle NAME` on the gateway's host.")
	}
	if b.Kept != nil {
		return r.renewedKept(ctx, dir, b, address)
	}
	valid := now.Before(b.NotAfter())
	fresh, err := r.renew(ctx, dir, address, !valid, func(b identity.Bundle) bool { return !now.Before(b.RenewAt()) })
	switch {
	case err == nil:
		return fresh, nil
	case errors.Is(err, identity.ErrRenewing):
		return b, nil
	case valid:
		r.dialer.out.Say("renewing the certificate in %s failed (it expires %s): %v", dir, b.NotAfter().UTC().Format(time.RFC3339), err)
		return b, nil
	}
	return b, fmt.Errorf("renewing the expired certificate in %s: %w", dir, err)
}

// renew gives the bundle in dir a new key, if it is due.
func (r renewer) renew(ctx context.Context, dir, address string, wait bool, due func(identity.Bundle) bool) (identity.Bundle, error) {
	return identity.RenewBundle(ctx, identity.Renewal{
		Dir: dir, Due: due, Wait: wait,
		Certify: func(ctx context.Context, b identity.Bundle, csr []byte) ([]*x509.Certificate, error) {
			block, _ := pem.Decode(csr)
			reply, err := r.dialer.dial(b, address, nil).Identity.RenewCertificate(ctx, &palyrav1.RenewCertificateRequest{CertificateRequest: block.Bytes})
			if err != nil {
				return nil, err
			}
			chain, err := ca.ParseChain([]byte(reply.GetCertificateChain()))
			if err != nil {
				return nil, reason.Errorf(reason.VerificationFailed, "the gateway's new certificate does not parse: %w", err)
			}
			return chain, nil
		},
	})
}

// renewedKept renews the certificate of a protected key for the same key, because a new key would
// have to be protected again. While the certificate is valid, a failed renewal is not an error.
func (r renewer) renewedKept(ctx context.Context, dir string, b identity.Bundle, address string) (identity.Bundle, error) {
	fresh, err := r.certifyAgain(ctx, b, address)
	if err == nil {
		err = identity.WriteBundle(dir, fresh)
	}
	switch {
	case err == nil:
		return fresh, nil
	case r.dialer.out.Now().Before(b.NotAfter()):
		r.dialer.out.Say("renewing the certificate in %s failed (it expires %s): %v", dir, b.NotAfter().UTC().Format(time.RFC3339), err)
		return b, nil
	}
	return b, fmt.Errorf("renewing the expired certificate in %s: %w", dir, err)
}

// certifyAgain returns the bundle with a new certificate of its key.
func (r renewer) certifyAgain(ctx context.Context, b identity.Bundle, address string) (identity.Bundle, error) {
	request, err := identity.Request(b.Key)
	if err != nil {
		return b, err
	}
	block, _ := pem.Decode(request)
	reply, err := r.dialer.dial(b, address, nil).Identity.RenewCertificate(ctx, &palyrav1.RenewCertificateRequest{CertificateRequest: block.Bytes})
	if err != nil {
		return b, err
	}
	if b.Chain, err = ca.ParseChain([]byte(reply.GetCertificateChain())); err != nil {
		return b, reason.Errorf(reason.VerificationFailed, "the gateway's new certificate does not parse: %w", err)
	}
	return b, nil
}

// Rotate gives the caller's own device a new key now, and connects with it. An id other than ""
// must be that device's.
func (a *App) Rotate(ctx context.Context, id string) (*Gateway, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	b, err := a.bundle(c)
	if err != nil {
		return nil, err
	}
	if b.Token != "" {
		return nil, reason.Errorf(reason.InvalidInput, "the credential in %s, or %s, is an API token, which has no key", c.credentials, TokenVariable).
			WithRemedy("Create another with `palyra tokens create` and revoke this one; or unset %s.", TokenVariable)
	}
	if b.Kept != nil {
		return nil, reason.Errorf(reason.InvalidInput, "the key of %s is protected (%s), and its certificate is renewed for the same key", c.credentials, b.Kept.Place).
			WithRemedy("Run `palyra key protect --undo` first, rotate, and protect the new key.")
	}
	if own := path.Base(b.Chain[0].URIs[0].Path); id != "" && id != own {
		return nil, reason.Errorf(reason.InvalidInput, "the bundle belongs to device %s; it cannot rotate the key of %s, because a device creates its own key", own, id).
			WithRemedy("Run `palyra devices rotate --self` with the bundle of that device, or revoke it with `palyra devices revoke %s`.", id)
	}
	address, err := c.reach(b)
	if err != nil {
		return nil, err
	}
	if _, err := a.renewals.renew(ctx, c.credentials, address, true, func(identity.Bundle) bool { return true }); err != nil {
		return nil, err
	}
	return a.Connect(ctx)
}
