package clitest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/pairing"
	"palyra/internal/surface/api/people"
)

// PairingID is the id of the one listed code, and PairingPIN the PIN of every new code.
const (
	PairingID  = "k7qf3m2x"
	PairingPIN = "48219930"
)

// Pairings is a real pairing host, with answers by the test.
type Pairings struct {
	*pairing.Host
	w *World
	// Answers are the approvers' answers; nil approves.
	Answers chan error

	mu     sync.Mutex
	Paired []identity.Pairing
	Asked  []pairing.Code
}

// Pairings runs a pairing host behind the gateway until the test ends.
func (w *World) Pairings() *Pairings {
	w.T.Helper()
	p := &Pairings{w: w, Answers: make(chan error, 4)}
	key := must.Get(pairing.KeySHA256(w.Server.TLS.Certificates[0].Leaf.PublicKey))(w.T)
	p.Host = must.Get(pairing.NewHost(pairing.Config{Issuer: p, Approvals: p, Journal: p, Server: func() (pairing.Server, error) {
		return pairing.Server{CA: w.CA.Cert.Raw, Name: serverName, Key: key}, nil
	}}))(w.T)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	w.T.Cleanup(func() { stop(); must.Check(w.T, <-done) })
	w.Gateway.Mu.Lock()
	defer w.Gateway.Mu.Unlock()
	w.Gateway.steps = &people.PairingService{Host: p.Host, Connection: func(ctx context.Context) (pairing.Connection, error) {
		state, _ := ctx.Value(connection{}).(*tls.ConnectionState)
		exporter, err := pairing.Exporter(state)
		return pairing.Connection{Exporter: exporter, Address: "192.0.2.7"}, err
	}}
	return p
}

// Code creates a code for a device of user:ada.
func (p *Pairings) Code(t *testing.T, kind pairing.Kind) pairing.Made {
	t.Helper()
	return must.Get(p.Create(t.Context(), pairing.Request{Kind: kind, For: identity.Pairing{Member: access.User("ada"), MadeBy: access.User("ada")}}))(t)
}

// MayPair implements pairing.Issuer.
func (p *Pairings) MayPair(identity.Pairing) error { return nil }

// Pair implements pairing.Issuer.
func (p *Pairings) Pair(_ context.Context, made identity.Pairing) (identity.Admission, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Paired = append(p.Paired, made)
	issued, err := p.certify(made)
	return identity.Admission{Certificate: issued}, err
}

func (p *Pairings) certify(made identity.Pairing) (ca.Issued, error) {
	req, err := x509.ParseCertificateRequest(made.Request)
	if err != nil {
		return ca.Issued{}, err
	}
	cert := p.w.CA.Sign(p.w.T, &x509.Certificate{
		URIs:      []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/device/" + made.DeviceID}},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, req.PublicKey)
	return ca.Issued{PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})}, nil
}

// PairAgain implements pairing.Issuer.
func (p *Pairings) PairAgain(_ context.Context, _ string, request []byte, _ time.Duration) (identity.Device, ca.Issued, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, made := range p.Paired {
		if string(made.Request) == string(request) {
			issued, err := p.certify(made)
			return identity.Device{ID: made.DeviceID, Principal: made.Member}, issued, err
		}
	}
	return identity.Device{}, ca.Issued{}, reason.Errorf(reason.NotFound, "no pairing of this key is under way")
}

// Ask implements pairing.Approvals.
func (p *Pairings) Ask(ctx context.Context, c pairing.Code, stands func(string)) (pairing.Consent, error) {
	p.mu.Lock()
	p.Asked = append(p.Asked, c)
	p.mu.Unlock()
	stands(ApprovalID)
	select {
	case err := <-p.Answers:
		return yes{}, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type yes struct{}

// By implements pairing.Yes.
func (yes) By() []access.Principal { return []access.Principal{access.User("ada")} }

// Use implements pairing.Yes.
func (yes) Use(context.Context, ...event.Draft) error { return nil }

// Record implements pairing.Journal.
func (p *Pairings) Record(context.Context, event.Code, string, string, any) error { return nil }

// connection is the key of a request's connection.
type connection struct{}

// stranger admits a machine that pairs.
func stranger(r *http.Request) (*http.Request, bool) {
	for _, step := range []string{"Begin", "Prove", "Confirm", "Collect"} {
		if r.URL.Path == "/palyra.v1.PairingService/"+step+"Pairing" {
			return r.WithContext(context.WithValue(r.Context(), connection{}, r.TLS)), true
		}
	}
	return r, false
}

// fakePairings answers members from a script, and machines through a real host.
type fakePairings struct{ f *Gateway }

func somePairing() *palyrav1.Pairing {
	return &palyrav1.Pairing{
		PairingId: PairingID, CodeKind: palyrav1.PairingKind_PAIRING_KIND_PIN, State: palyrav1.PairingState_PAIRING_STATE_OPEN, Member: "user:ada", MadeBy: "user:ada",
		CreatedAt: timestamppb.New(Now), ExpiresAt: timestamppb.New(Now.Add(10 * time.Minute)), DeviceId: "01DEV1CE000000000000000000",
	}
}

// CreatePairingCode returns a code for the requested member.
func (s fakePairings) CreatePairingCode(_ context.Context, req *palyrav1.CreatePairingCodeRequest) (*palyrav1.CreatePairingCodeResponse, error) {
	s.f.Mu.Lock()
	defer s.f.Mu.Unlock()
	if s.f.Loss != "" && !req.GetAcceptLoss() {
		return nil, GatewayError(connect.CodeFailedPrecondition, reason.LossNotAccepted, s.f.Loss, nil)
	}
	s.f.PairingCodes = append(s.f.PairingCodes, req)
	p, secret := somePairing(), PairingPIN
	p.CodeKind, p.NewMember, p.Roles = req.GetKind(), req.GetNewMember(), req.GetRoles()
	if req.GetMember() != "" {
		p.Member = "user:" + strings.TrimPrefix(req.GetMember(), "user:")
	}
	if req.GetKind() == palyrav1.PairingKind_PAIRING_KIND_QR {
		secret = "AAAAAAAAAAAAAAAAAAAAAA"
	}
	return &palyrav1.CreatePairingCodeResponse{Pairing: p, Secret: secret}, nil
}

// ListPairings returns an open code and a used code.
func (s fakePairings) ListPairings(context.Context, *palyrav1.ListPairingsRequest) (*palyrav1.ListPairingsResponse, error) {
	asked := somePairing()
	asked.PairingId, asked.CodeKind, asked.State, asked.Guesses = "z9aa4bcd", palyrav1.PairingKind_PAIRING_KIND_QR, palyrav1.PairingState_PAIRING_STATE_ASKED, 1
	asked.Member, asked.NewMember, asked.Roles = "user:bob", true, []string{"operator"}
	asked.ApprovalId, asked.Comparison, asked.Address, asked.KeySha256 = ApprovalID, "123 456", "192.0.2.7", "sha256:"+strings.Repeat("ab", 32)
	return &palyrav1.ListPairingsResponse{Pairings: []*palyrav1.Pairing{somePairing(), asked}}, nil
}

// CancelPairing cancels only the open code.
func (s fakePairings) CancelPairing(_ context.Context, req *palyrav1.CancelPairingRequest) (*palyrav1.CancelPairingResponse, error) {
	if req.GetPairingId() != PairingID {
		return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "pairing "+req.GetPairingId()+" not found", nil)
	}
	return &palyrav1.CancelPairingResponse{Pairing: somePairing()}, nil
}

// step calls the host, and returns its errors in the form of the gateway.
func step[Q, A any](f *Gateway, ctx context.Context, req *Q, do func(*people.PairingService, context.Context, *Q) (*A, error)) (*A, error) { //nolint:revive // the host before the context
	f.Mu.Lock()
	steps := f.steps
	f.Mu.Unlock()
	if steps == nil {
		return nil, GatewayError(connect.CodeNotFound, reason.NotFound, "no such pairing code is open at this gateway", nil)
	}
	res, err := do(steps, ctx, req)
	var known *reason.Error
	if errors.As(err, &known) {
		code := map[reason.Code]connect.Code{reason.NotFound: connect.CodeNotFound, reason.PairingFailed: connect.CodeUnauthenticated, reason.RateLimited: connect.CodeResourceExhausted}[known.Code]
		if code == 0 {
			code = connect.CodeFailedPrecondition
		}
		return nil, GatewayError(code, known.Code, known.Message, map[string]string{"remedy": known.Remedy})
	}
	return res, err
}

// BeginPairing calls the host.
func (s fakePairings) BeginPairing(ctx context.Context, req *palyrav1.BeginPairingRequest) (*palyrav1.BeginPairingResponse, error) {
	return step(s.f, ctx, req, (*people.PairingService).BeginPairing)
}

// ProvePairing calls the host.
func (s fakePairings) ProvePairing(ctx context.Context, req *palyrav1.ProvePairingRequest) (*palyrav1.ProvePairingResponse, error) {
	return step(s.f, ctx, req, (*people.PairingService).ProvePairing)
}

// ConfirmPairing calls the host.
func (s fakePairings) ConfirmPairing(ctx context.Context, req *palyrav1.ConfirmPairingRequest) (*palyrav1.ConfirmPairingResponse, error) {
	return step(s.f, ctx, req, (*people.PairingService).ConfirmPairing)
}

// CollectPairing calls the host.
func (s fakePairings) CollectPairing(ctx context.Context, req *palyrav1.CollectPairingRequest) (*palyrav1.CollectPairingResponse, error) {
	return step(s.f, ctx, req, (*people.PairingService).CollectPairing)
}
