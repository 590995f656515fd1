package clitest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

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
	must.Run(w.T, p.Run)
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
	cert := p.w.deviceCertificate(made.DeviceID, req.PublicKey, time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	return ca.Issued{PEM: []byte(certificatePEM(cert))}, nil
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

func somePairing() *palyrav1.Pairing {
	return &palyrav1.Pairing{
		PairingId: PairingID, CodeKind: palyrav1.PairingKind_PAIRING_KIND_PIN, State: palyrav1.PairingState_PAIRING_STATE_OPEN, Member: "user:ada", MadeBy: "user:ada",
		CreatedAt: now, ExpiresAt: ago(-10 * time.Minute), DeviceId: "01DEV1CE000000000000000000",
	}
}

// servePairings answers members with constant replies, and machines through a real host.
func servePairings(f *Gateway) {
	asked := somePairing()
	asked.PairingId, asked.CodeKind, asked.State, asked.Guesses = "z9aa4bcd", palyrav1.PairingKind_PAIRING_KIND_QR, palyrav1.PairingState_PAIRING_STATE_ASKED, 1
	asked.Member, asked.NewMember, asked.Roles = "user:bob", true, []string{"operator"}
	asked.ApprovalId, asked.Comparison, asked.Address, asked.KeySha256 = ApprovalID, "123 456", "192.0.2.7", "sha256:"+strings.Repeat("ab", 32)
	f.reply(&palyrav1.ListPairingsResponse{Pairings: []*palyrav1.Pairing{somePairing(), asked}})
	f.replyAbout(PairingID, "pairing %s not found", &palyrav1.CancelPairingResponse{Pairing: somePairing()})
	on(f, func(req *palyrav1.CreatePairingCodeRequest) (*palyrav1.CreatePairingCodeResponse, error) {
		if f.Loss != "" && !req.GetAcceptLoss() {
			return nil, f.lossError()
		}
		p, secret := somePairing(), PairingPIN
		p.CodeKind, p.NewMember, p.Roles = req.GetKind(), req.GetNewMember(), req.GetRoles()
		if req.GetMember() != "" {
			p.Member = "user:" + strings.TrimPrefix(req.GetMember(), "user:")
		}
		if req.GetKind() == palyrav1.PairingKind_PAIRING_KIND_QR {
			secret = "AAAAAAAAAAAAAAAAAAAAAA"
		}
		return &palyrav1.CreatePairingCodeResponse{Pairing: p, Secret: secret}, nil
	})
	pair(f, (*people.PairingService).BeginPairing)
	pair(f, (*people.PairingService).ProvePairing)
	pair(f, (*people.PairingService).ConfirmPairing)
	pair(f, (*people.PairingService).CollectPairing)
}

// pair answers a step of a machine through the host, if there is one.
func pair[Q, A proto.Message](f *Gateway, do func(*people.PairingService, context.Context, Q) (A, error)) {
	serve(f, func(ctx context.Context, req Q) (res A, err error) {
		f.Mu.Lock()
		steps := f.steps
		f.Mu.Unlock()
		if steps == nil {
			return res, notFound("no such pairing code is open at this gateway")
		}
		return do(steps, ctx, req)
	})
}
