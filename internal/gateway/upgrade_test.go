//go:build unix

package gateway

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/test/upgrade/upgradetest"
)

// upgraded is the current gateway on the state directory of an older release, some time after
// that directory was created. It has no listeners, because it uses the clock of a bubble.
// test/upgrade covers the listeners and the real clock.
type upgraded struct {
	*clockWorld
	dir     string
	release upgradetest.Release
}

// upgradeAt runs a test on each archive, the duration later after the archive was created.
func upgradeAt(t *testing.T, later time.Duration, test func(u *upgraded)) {
	t.Helper()
	for _, archive := range upgradetest.Archives(t, "../../test/upgrade/testdata") {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			dir, r := upgradetest.Unpack(t, archive)
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(r.MadeAt.Add(later)))
				u := &upgraded{openUpgraded(t, dir), dir, r}
				defer u.close()
				test(u)
			})
		})
	}
}

func openUpgraded(t *testing.T, dir string) *clockWorld {
	t.Helper()
	cfg := config.Default()
	cfg.StateDir, cfg.Policy.Dir, cfg.Roles = filepath.Join(dir, "state"), filepath.Join(dir, "policies"), []access.Role{"security"}
	cfg.Workspaces = []config.Workspace{{Name: "default", Path: filepath.Join(dir, "workspace")}}
	cfg.ProcessRunner.Enabled = false
	g := must.Get(build(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)}))(t)
	w := &clockWorld{t: t, g: g, parts: &errgroup.Group{}}
	w.caller = firstOperator(t, g)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.parts.Go(func() error { return g.desk.Run(ctx) })
	synctest.Wait()
	return w
}

// as returns a member as a caller with the certificate of the archive.
func (u *upgraded) as(name string) (access.Caller, error) {
	u.t.Helper()
	var chain []*x509.Certificate
	for rest := must.Get(os.ReadFile(filepath.Join(u.dir, "bundles", name, "cert.pem")))(u.t); len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block.Type != "CERTIFICATE" {
			continue // the private key
		}
		chain = append(chain, must.Get(x509.ParseCertificate(block.Bytes))(u.t))
	}
	c, err := u.g.identity.Callers.Authenticate(chain)
	c.Surface = access.SurfaceGRPC
	return c, err
}

// works makes the call of an ask, which must be allowed without waiting.
func (u *upgraded) works(a upgradetest.Ask) decision.Record {
	u.t.Helper()
	caller := must.Get(u.as(a.Member))(u.t)
	ctx, leave := context.WithCancel(u.t.Context())
	defer leave()
	out, err := u.g.pipeline.Call(ctx, call.Submission{Caller: caller, Tool: a.Tool, Input: []byte(a.Input)}, func(e call.Event) {
		if e.Asked != nil && e.Asked.State == approval.Pending {
			leave()
		}
	})
	if err != nil || !out.Decision.Allowed {
		u.t.Errorf("%s's call of %s %s: %v, %+v", a.Member, a.Tool, a.Input, err, out.Decision)
	}
	return out.Decision
}

func (u *upgraded) decide(name string, a upgradetest.Ask, b approval.Ballot) approval.State {
	u.t.Helper()
	b.ShownDigest = a.Digest
	rec, err := u.g.desk.Votes.Decide(u.t.Context(), must.Get(u.as(name))(u.t), a.ID, b)
	if err != nil {
		u.t.Errorf("%s on %s: %v", name, a.Input, err)
	}
	return rec.State
}

// TestUpgradeSoon: pending approvals and grants from before the upgrade remain pending and valid
// after it, for every earlier credential.
func TestUpgradeSoon(t *testing.T) {
	t.Parallel()
	upgradeAt(t, time.Hour, func(u *upgraded) {
		for name, member := range map[string]string{
			"ann": "user:ann", "bob": "user:bob", "bob2": "user:bob", "eve": "user:eve", "cyd": "user:cyd", "dev": "user:dev", "helper": "agent:helper",
		} {
			if c, err := u.as(name); err != nil || c.Principal.String() != member {
				u.t.Errorf("%s is %v, %v", name, c.Principal, err)
			}
		}
		if _, err := u.as("revoked"); reason.Of(err) != reason.Unauthenticated {
			u.t.Errorf("a revoked device: %v", err)
		}
		if d := u.works(u.release.Granted); d.GrantID != u.release.Granted.Grant {
			u.t.Errorf("the granted call is allowed by %+v", d)
		}
		one, two, agents := u.release.Asks[0], u.release.Asks[1], u.release.Asks[2]
		if got := u.decide("ann", one, approval.Ballot{Allow: true}); got != approval.Allowed {
			u.t.Errorf("after ann's yes it is %s", got)
		}
		if got := u.decide("eve", two, approval.Ballot{Allow: true}); got != approval.Allowed {
			u.t.Errorf("after the second of two it is %s", got)
		}
		for _, a := range []upgradetest.Ask{one, two} {
			if d := u.works(a); d.ApprovalID != a.ID {
				u.t.Errorf("%s is allowed by %+v", a.Input, d)
			}
		}
		if got := u.decide("ann", agents, approval.Ballot{Reason: "no"}); got != approval.Denied {
			u.t.Errorf("after a no it is %s", got)
		}
		u.verify()
	})
}

// TestUpgradeLate: years later, the host's user can connect, the journal is complete, and expired
// approvals no longer apply.
func TestUpgradeLate(t *testing.T) {
	t.Parallel()
	upgradeAt(t, 5*365*24*time.Hour, func(u *upgraded) {
		for _, name := range []string{"ann", "bob", "eve", "cyd", "dev", "helper"} {
			if _, err := u.as(name); reason.Of(err) != reason.Unauthenticated && reason.Of(err) != reason.CertificateExpired {
				u.t.Errorf("%s: %v", name, err)
			}
		}
		if n := u.g.desk.Counts(); n.Grants != 0 || n.Pending != 0 {
			u.t.Errorf("after five years %+v", n)
		}
		for _, a := range u.release.Asks {
			rec := must.Get(u.g.desk.Records.Get(u.t.Context(), a.ID))(u.t)
			if rec.State != approval.Expired || rec.CallDigest != a.Digest {
				u.t.Errorf("%s is %s", a.Input, rec.State)
			}
		}
		keys := u.g.notary.KeySet()
		for _, id := range u.release.Attested {
			stored := must.Get(u.g.stores.attestations.Attestation(u.t.Context(), id))(u.t)
			if _, err := attest.Verify(stored.Envelope, keys); err != nil {
				u.t.Errorf("attestation %s: %v", id, err)
			}
		}
		u.verify()
	})
}
