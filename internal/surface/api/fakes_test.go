package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/policy/policytests"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/exec/sandbox"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/run/model"
	"palyra/internal/store/sqlite"
	"palyra/internal/surface/api"
	"palyra/internal/vault/kek"
)

// audit records the calls of the guard.
type audit struct {
	mu       sync.Mutex
	refused  []refusal
	exported []string
	err      error
}

type refusal struct {
	source, procedure string
	code              reason.Code
}

func (a *audit) Refused(_ context.Context, source, procedure string, code reason.Code) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = append(a.refused, refusal{source, procedure, code})
}

func (a *audit) Exported(_ context.Context, c access.Caller, procedure string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exported = append(a.exported, c.Principal.String()+" "+procedure)
	return a.err
}

func (a *audit) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.refused)
}

func (a *audit) has(want refusal) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.refused, want)
}

// gatewayFake is a daemon with configurable problems; without problems it is ready.
type gatewayFake struct {
	mu       sync.Mutex
	problems []string
}

func (g *gatewayFake) set(problems ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.problems = problems
}

func (g *gatewayFake) Problems(context.Context) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.problems
}

// hostPlace is part of every text in the fake's status that may have a path of the host.
const hostPlace = "/srv/canary-of-the-host"

func (g *gatewayFake) Status(context.Context) (api.Status, error) {
	const place = hostPlace
	return api.Status{
		Version: "test", StartedAt: time.Now(), Notices: []string{"see " + place}, Degraded: []string{place + " is full"},
		PolicyDirectory: policyadmin.Directory{Path: place, Problem: place + " is gone"},
		Workspaces:      []config.Workspace{{Name: "default", Path: place}},
		Sandbox:         sandbox.Status{Available: true, Problem: place, Remedy: "install " + place},
		Models:          []model.Status{{Name: "m", Problem: reason.Errorf(reason.ConfigInvalid, "%s is gone", place).WithRemedy("Make %s.", place)}},
		Keys:            []ca.KeyPlace{{Key: "root", Place: "file", Detail: place}},
		Vault:           kek.Status{Locked: true, Why: place, Remedy: place},
	}, nil
}

func (g *gatewayFake) Freeze(_ context.Context, by access.Caller, why string) (api.FreezeState, int, error) {
	return api.FreezeState{Frozen: true, Reason: why, By: by.Principal.String()}, 3, nil
}

func (g *gatewayFake) Thaw(context.Context, access.Caller) (api.FreezeState, error) {
	return api.FreezeState{}, nil
}

var errPrivate = errors.New("opening /var/lib/palyra/secret.db: disk on fire")

// evidence reads attestations from the store; its snapshots fail.
type evidence struct {
	db     *sqlite.DB
	notary *attest.Notary
}

func (e *evidence) Snapshot(context.Context, string) ([]byte, error) { return nil, errPrivate }

func (e *evidence) Attestation(ctx context.Context, id string) (attest.Listed, error) {
	a, err := sqlite.NewAttestations(e.db).Attestation(ctx, id)
	return attest.Listed{ID: a.ID, ProposalID: a.ProposalID, Envelope: a.Envelope, Seq: a.Seq}, err
}

func (e *evidence) Attestations(context.Context, int, string) ([]attest.Listed, string, error) {
	return nil, "", nil
}

func (e *evidence) KeySet() (json.RawMessage, error) { return e.notary.KeySet().JSON() }

// policiesFake calls w.checking, if set, at each check.
type policiesFake struct{ w *world }

func (p policiesFake) Check(_ context.Context, sources []policy.Source) []finding.Finding {
	if p.w.checking != nil {
		p.w.checking()
	}
	list := make([]finding.Finding, len(sources))
	for i, s := range sources {
		list[i] = finding.Finding{File: s.Name, Message: "checked"}
	}
	return list
}

func (policiesFake) Reload(context.Context, access.Caller) (policyadmin.Reloaded, error) {
	return policyadmin.Reloaded{}, nil
}

func (policiesFake) Ceilings() []policyadmin.Ceiling {
	return []policyadmin.Ceiling{{Name: "*", Allowed: true}}
}

func (policiesFake) SetCeiling(_ context.Context, by access.Caller, c policyadmin.Ceiling) (policyadmin.Ceiling, error) {
	c.By = by.Principal
	return c, nil
}

func (policiesFake) Current() policyadmin.InForce { return policyadmin.InForce{LoadedAt: time.Now()} }

func (policiesFake) Directory() policyadmin.Directory {
	return policyadmin.Directory{Path: "/policies", Present: true, Files: 2, Policies: 3, Problem: "changed"}
}

func (policiesFake) Activate(_ context.Context, by access.Caller, version string) (policyadmin.Reloaded, error) {
	return policyadmin.Reloaded{Version: version, WasVersion: "before " + by.Principal.String(), Changed: true}, nil
}

func (policiesFake) Version(_ context.Context, version string) (policyadmin.Version, error) {
	return policyadmin.Version{Version: version, Sources: []policy.Source{{Name: "old.cedar"}}}, nil
}

func (policiesFake) Versions(_ context.Context, size int, token string) ([]policyadmin.Version, string, error) {
	return []policyadmin.Version{{Version: token, Policies: size, Sources: []policy.Source{{Name: "a.cedar"}}}}, "next", nil
}

func (policiesFake) Build(_ context.Context, sources []policy.Source, _ bool) (*policy.Set, error) {
	cfg := policytest.Config(policytest.Options{})
	cfg.Sources = sources
	return policy.Load(cfg)
}

func (policiesFake) Test(ctx context.Context, sources, tests []policy.Source) (policytests.Report, error) {
	cfg := policytest.Config(policytest.Options{})
	cfg.Sources = sources
	return policytests.Run(ctx, cfg, tests)
}

func (policiesFake) Past(_ context.Context, _ access.Caller, id string) (policyadmin.PastCall, error) {
	if id != pastDecision {
		return policyadmin.PastCall{}, reason.Errorf(reason.NotFound, "no decision has the id %s", id)
	}
	cfg := policytest.Config(policytest.Options{})
	cfg.Sources = []policy.Source{{Name: "past.cedar", Text: `@id("past") forbid(principal, action == Action::"tool.execute/process.run", resource);`}}
	set, err := policy.Load(cfg)
	return policyadmin.PastCall{
		ProposalID: "01JZ8Q4T2M0000000000000009", Set: set, Request: policytest.Request("process.run", `{"argv":["make"]}`),
		Decision: decision.Record{ID: id, Reason: reason.BudgetExceeded, Message: "this is call 3 of the run and 2 are allowed"},
		Notes:    []string{"a note"},
	}, err
}

// pastDecision is the only decision that policiesFake has.
const pastDecision = "01JZ8Q4T2M0000000000000001"

// membersFake is the real identity service.
type membersFake struct {
	*identity.Members
	*identity.Confirmations
	*identity.Directory
	*identity.DeviceAdmin
	*identity.Logins
	w *world
}

func newMembersFake(w *world) membersFake {
	return membersFake{w.identity.Members, w.identity.Confirmations, w.identity.Directory, w.identity.Devices, w.identity.Logins, w}
}

// presenceFake implements the presence keys and the confirmations of the host.
type presenceFake struct {
	*identity.Directory
	*identity.PresenceKeys
	*identity.Confirmations
}

// originsFake implements the origins of members.
type originsFake struct {
	*identity.Directory
	*identity.Consents
}

// devicesFake implements the devices of DeviceService.
type devicesFake struct {
	*access.Registry
	*identity.Directory
	*identity.Keys
}

func (m membersFake) List() []access.Member { return m.w.registry.List() }

func (m membersFake) Add(ctx context.Context, by access.Caller, n api.NewMember) (api.Credential, error) {
	a, err := m.w.identity.Members.AddMember(ctx, by.Principal, n.Name, n.Kind, n.Roles, n.Owner, n.Request, n.AcceptLoss)
	return api.Credential{Member: a.Member, Device: a.Device}, err
}

func (m membersFake) Collect(context.Context, access.Caller, api.NewMember) (api.Credential, bool, error) {
	return api.Credential{}, false, nil
}

func (m membersFake) Renew(ctx context.Context, device, byKey string, csr []byte) (api.Credential, error) {
	issued, err := m.w.identity.Certificates.Renew(ctx, device, byKey, csr)
	return api.Credential{Chain: string(issued.PEM)}, err
}

func (m membersFake) Revoke(ctx context.Context, by access.Caller, deviceID, why string, acceptLoss bool) (identity.Device, error) {
	return m.w.identity.Devices.Revoke(ctx, by.Principal, deviceID, why, acceptLoss)
}

func (m membersFake) AddDevice(ctx context.Context, by access.Caller, r identity.Recovery) (api.Credential, error) {
	made, err := m.w.identity.Devices.AddDevice(ctx, by.Principal, by.DeviceID, r)
	return api.Credential{Device: made.Device, Revoked: made.Revoked}, err
}
