package api_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api"
)

// expired returns a world whose certificates expired an hour ago.
func expired(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, func(w *world) { w.ago.Store(int64(25 * time.Hour)) })
	w.ago.Store(0)
	return w
}

// sendEmpty sends an empty JSON object, and returns status and body.
func (c *client) sendEmpty(procedure string) (int, string) {
	c.w.t.Helper()
	req := must.Get(http.NewRequestWithContext(c.w.t.Context(), http.MethodPost, c.w.url+procedure, strings.NewReader("{}")))(c.w.t)
	req.Header.Set("Content-Type", "application/json")
	res := must.Get(c.http.Do(req))(c.w.t)
	defer res.Body.Close()
	return res.StatusCode, string(must.Get(io.ReadAll(res.Body))(c.w.t))
}

// With an expired certificate, every method of the table is refused with the reason and the
// next step, except the renewal. After the renewal all methods are available again.
func TestExpiredCertificateRenewsAndNothingElse(t *testing.T) {
	t.Parallel()
	w := expired(t)
	const renewal = palyrav1connect.IdentityServiceRenewCertificateProcedure
	for procedure, method := range api.Methods() {
		if procedure == renewal || method.Needs == api.NeedsNothing {
			continue
		}
		code, body := w.alice.sendEmpty(procedure)
		if code != http.StatusUnauthorized || !strings.Contains(body, string(reason.CertificateExpired)) || !strings.Contains(body, "operator bundle") {
			t.Errorf("%s answers %d %s", procedure, code, body)
		}
	}
	_, err := w.alice.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
	wantError(t, "status", err, reason.CertificateExpired)
	_, err = w.alice.call(reading())
	wantError(t, "a call", err, reason.CertificateExpired)
	if w.read.Runs.Load() != 0 {
		t.Error("the tool ran")
	}
	if !w.audit.has(refusal{"127.0.0.1", statusProcedure, reason.CertificateExpired}) {
		t.Errorf("audited %v", w.audit.refused)
	}

	key, csr := request(t)
	block, _ := pem.Decode(csr)
	req := &palyrav1.RenewCertificateRequest{CertificateRequest: block.Bytes}
	renew := func(c *client) (*palyrav1.RenewCertificateResponse, error) {
		return palyrav1connect.NewIdentityServiceClient(c.http, w.url).RenewCertificate(t.Context(), req)
	}
	var chain []*x509.Certificate
	res := must.Get(renew(w.alice))(t)
	for rest := []byte(res.GetCertificateChain()); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		chain = append(chain, must.Get(x509.ParseCertificate(b.Bytes))(t))
	}
	if _, err := w.connect(w.alice.device, certificate(chain, key)).status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{}); err != nil {
		t.Errorf("with the new certificate: %v", err)
	}

	// Callers without a certificate, and revoked devices, cannot renew.
	_, err = renew(w.connect("", nil))
	wantError(t, "without a certificate", err, reason.Unauthenticated)
	must.Get(w.identity.Devices.Revoke(t.Context(), access.User("alice"), w.bob.device, "lost", true))(t)
	_, err = renew(w.bob)
	wantError(t, "a revoked device", err, reason.Unauthenticated)
	_, err = w.bob.status().GetStatus(t.Context(), &palyrav1.GetStatusRequest{})
	wantError(t, "a revoked device's status", err, reason.Unauthenticated)
	if _, body := w.bob.sendEmpty(statusProcedure); bytes.Contains([]byte(body), []byte(reason.CertificateExpired)) {
		t.Errorf("a revoked device is told to renew: %s", body)
	}
}
