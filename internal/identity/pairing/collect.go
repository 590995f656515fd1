package pairing

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// Collect returns the certificate to the candidate of an approved pairing. Its first call
// creates the device, so that a candidate that disappeared leaves no device. A repeated call
// returns the same certificate; after a restart of the gateway, it returns another one for the
// same device and key.
func (h *Host) Collect(ctx context.Context, conn Connection, msg Collection) (Collected, error) {
	key, err := requested(msg.Request)
	if err != nil {
		return Collected{}, err
	}
	digest, err := KeySHA256(key)
	if err != nil {
		return Collected{}, err
	}
	if len(conn.Exporter) != exporterSize || !ecdsa.VerifyASN1(key, statement(conn.Exporter, digest), msg.Signature) {
		return Collected{}, reason.Errorf(reason.PairingFailed, "the certificate was requested without a proof of its key on this connection")
	}
	fingerprint := "sha256:" + hex.EncodeToString(digest)
	h.forget(ctx)
	if c := h.used(fingerprint); c != nil {
		return h.give(ctx, c)
	}
	dev, cert, err := h.cfg.Issuer.PairAgain(ctx, fingerprint, msg.Request, collectWithin)
	if err != nil {
		return Collected{}, err
	}
	return Collected{DeviceID: dev.ID, Member: dev.Principal.String(), Chain: string(cert.PEM)}, nil
}

// used returns the code that a key used, or nil.
func (h *Host) used(fingerprint string) *code {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.codes {
		if c.State != Open && c.KeySHA256 == fingerprint {
			return c
		}
	}
	return nil
}

// holdFor is how long Collect waits for an answer before it returns without one.
const holdFor = 15 * time.Second

func (h *Host) give(ctx context.Context, c *code) (Collected, error) {
	pause := time.NewTimer(holdFor)
	defer pause.Stop()
	select {
	case <-c.answered:
	case <-pause.C:
		return Collected{Waiting: true}, nil
	case <-ctx.Done():
		return Collected{}, ctx.Err()
	}
	c.issuing.Lock()
	defer c.issuing.Unlock()
	h.mu.Lock()
	p, yes, no := c.For, c.yes, c.no
	h.mu.Unlock()
	given := Collected{DeviceID: p.DeviceID, Member: p.Member.String(), Chain: c.chain}
	if c.chain != "" {
		return given, nil
	}
	if no == nil {
		no = yes.Use(ctx)
	}
	if no != nil {
		return Collected{}, h.refused(ctx, c, no)
	}
	p.ApprovedBy = yes.By()
	made, err := h.cfg.Issuer.Pair(context.WithoutCancel(ctx), p)
	if err != nil {
		return Collected{}, h.refused(ctx, c, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c.chain, c.State, c.For.ApprovedBy = string(made.Certificate.PEM), Given, p.ApprovedBy
	given.Chain = c.chain
	return given, nil
}

// refused ends a code whose approval was denied or expired, or whose device could not be created.
func (h *Host) refused(ctx context.Context, c *code, why error) error {
	h.mu.Lock()
	h.drop(c)
	was := c.Code
	h.mu.Unlock()
	if err := recordEnd(context.WithoutCancel(ctx), h.cfg.Journal, identity.Daemon().String(), was, "refused"); err != nil {
		return err
	}
	return why
}
