package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/call/policy"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
	"palyra/internal/core/statedir"
	"palyra/internal/identity"
	"palyra/internal/identity/passkey"
)

// people examines the members: who can approve, and who can prove presence.
type people struct{ Config }

// dualControl reports whether changes of the gateway take a second person, and the possible second
// people. A single person is not a defect.
func (p people) dualControl(ctx context.Context) finding {
	if _, err := os.Stat(statedir.Store(p.Settings.StateDir)); err != nil {
		return skipped("the gateway has no members yet")
	}
	found, _, err := p.load(ctx)
	if err != nil {
		return broken(err)
	}
	standing := found.DualControl(!p.Settings.DualControl)
	switch {
	case standing.On:
		return fine("on: a change of the gateway takes two independent people of " + standing.Why)
	case p.Settings.DualControl:
		return fine("not in force: " + standing.Why)
	case found.DualControl(false).On:
		return doubtful("off: "+standing.Why+", and there are two people", "Leave dual_control out, so that changes of members and policies, and a thaw, take a second person.")
	}
	return fine("off: " + standing.Why)
}

// presence reports policies that require proof of presence while no member can give it.
func (p people) presence(ctx context.Context) finding {
	if _, err := os.Stat(statedir.Store(p.Settings.StateDir)); err != nil {
		return skipped("the gateway has no members yet")
	}
	sources, _, err := readPolicies(p.Settings)
	if err != nil {
		return skipped("the policies cannot be read, see the check policy")
	}
	tools, err := p.Tools()
	if err != nil {
		return broken(err)
	}
	found, devices, err := p.load(ctx)
	if err != nil {
		return broken(err)
	}
	byPasskey, err := p.passkeys(ctx)
	if err != nil {
		return broken(err)
	}
	set, err := policy.Load(policyadmin.SetConfig(p.Settings, sources, tools, found.Members.List(), found.Members.Roles()))
	if err != nil {
		return skipped("the policies do not load, see the check policy")
	}
	proving := identity.Proving(devices)
	for _, m := range byPasskey {
		if !slices.Contains(proving, m) {
			proving = append(proving, m)
		}
	}
	if problem, remedy := set.View().NobodyPresent(proving); problem != "" {
		return doubtful(problem, remedy)
	}
	if len(proving) == 0 {
		return fine("no policy asks for it")
	}
	return fine(fmt.Sprintf("people who can prove it: %d", len(proving)))
}

// load returns the people in the store, as a start would load them.
func (p people) load(ctx context.Context) (found dualcontrol.People, devices []identity.Device, err error) {
	db, err := p.OpenStore(ctx)
	if err != nil {
		return found, nil, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	registry, err := access.NewRegistry(ctx, db, p.Settings.Roles)
	if err != nil {
		return found, nil, err
	}
	if devices, err = db.Devices(ctx); err != nil {
		return found, nil, err
	}
	bindings, err := db.Bindings(ctx)
	if err != nil {
		return found, nil, err
	}
	var bound []access.Principal
	for _, b := range bindings {
		bound = append(bound, b.Member)
	}
	registry.Reach(identity.Reachable(devices, bound))
	history, err := db.Provenance(ctx)
	if err != nil {
		return found, nil, err
	}
	engine, err := p.ceiled(ctx, db, registry)
	return dualcontrol.People{Members: registry, History: func() provenance.History { return history }, Engine: engine}, devices, err
}

// storedPasskeys returns all passkeys in the store.
func (p people) storedPasskeys(ctx context.Context) (list []passkey.Passkey, err error) {
	db, err := p.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	return db.Passkeys(ctx)
}

// passkeys returns the members with a passkey that counts.
func (p people) passkeys(ctx context.Context) (list []access.Principal, err error) {
	stored, err := p.storedPasskeys(ctx)
	for _, k := range stored {
		if k.Counts() {
			list = append(list, k.Member)
		}
	}
	return list, err
}

// ceiled returns an engine with the configuration and the ceilings only. They alone decide who is
// admitted, so the operator's policies are not needed.
func (p people) ceiled(ctx context.Context, db Store, registry *access.Registry) (*policy.Engine, error) {
	ceilings, err := db.Ceilings(ctx)
	if err != nil {
		return nil, err
	}
	cfg := policyadmin.SetConfig(p.Settings, nil, nil, registry.List(), registry.Roles())
	policyadmin.Lower(&cfg.Snapshot, ceilings)
	set, err := policy.Load(cfg)
	if err != nil {
		return nil, err
	}
	return policy.NewEngine(set), nil
}
