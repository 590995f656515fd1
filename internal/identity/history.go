package identity

import (
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/provenance"
)

// History returns the acts on members, oldest first.
func (dir *Directory) History() provenance.History {
	dir.mu.RLock()
	defer dir.mu.RUnlock()
	return slices.Clone(dir.history)
}

// acts returns the acts of a change on members (provenance.Table). Renewing, renaming or
// revoking is not an act, because it gives no key to another holder.
func (dir *Directory) acts(actor access.Principal, c Change) (acts provenance.History) {
	by := dir.authors(actor)
	add := func(kind provenance.Kind, p access.Principal) {
		if !slices.ContainsFunc(acts, func(a provenance.Act) bool { return a.Member == p }) {
			acts = append(acts, provenance.Act{Member: p, Kind: kind, By: by, At: dir.instant()})
		}
	}
	for _, m := range c.NewMembers {
		add(provenance.Made, m.Principal)
	}
	if !c.consent { // a consent gives no key to another holder
		for _, m := range c.Members {
			add(provenance.Changed, m.Principal)
		}
	}
	for _, d := range c.NewDevices {
		if d.Session() {
			continue // like a renewal: the user of the identity provider already has access
		}
		add(provenance.DeviceGiven, d.Principal)
	}
	return acts
}

// authors returns the possible authors of an act by an actor. An act on the gateway's host
// could come from every member that holds a device there. An act of the identity provider has
// no author, because the administrator of the host chose the provider.
func (dir *Directory) authors(actor access.Principal) []access.Principal {
	switch actor {
	case Daemon():
	case Provider():
		return nil
	default:
		return []access.Principal{actor}
	}
	var holders []access.Principal
	for _, d := range dir.Devices() {
		if d.Local && !slices.Contains(holders, d.Principal) {
			holders = append(holders, d.Principal)
		}
	}
	return holders
}

// withConsent returns an agent after the actor created it or changed its owner. The owner's own
// act implies consent, an act of another principal does not. An act on the gateway's host
// implies consent only if no other member holds a device there. Other changes keep the consent.
func (dir *Directory) withConsent(actor access.Principal, m access.Member) access.Member {
	was, known := dir.registry.Get(m.Principal)
	switch {
	case m.Principal.Kind != access.KindAgent:
		m.AwaitsConsent = false
	case known && was.Owner == m.Owner:
		m.AwaitsConsent = was.AwaitsConsent
	default:
		m.AwaitsConsent = !slices.Equal(dir.authors(actor), []access.Principal{m.Owner})
	}
	return m
}

// settleConsent enforces consent on every change, regardless of the requester.
func (dir *Directory) settleConsent(actor access.Principal, c *Change) {
	if c.consent {
		return
	}
	for _, list := range [][]access.Member{c.NewMembers, c.Members} {
		for i, m := range list {
			list[i] = dir.withConsent(actor, m)
		}
	}
}
