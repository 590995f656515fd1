package registry

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/dsse"
	"palyra/internal/exec/skill"
)

// maxWhy is the size of what people say of a change, in bytes.
const maxWhy = 500

// SetStatus gives a version a status; version "" is the current one. Active makes it the
// current version, too, and its package and key are checked before. A status that takes
// the version out of use holds at once, whatever waits for it.
func (r *Registry) SetStatus(ctx context.Context, by access.Caller, name, version string, s Status, why string) (Installed, error) {
	if !slices.Contains(Statuses, s) {
		return Installed{}, reason.Errorf(reason.InvalidInput, "there is no status %q", s).WithRemedy("The statuses are active, quarantined and disabled.")
	}
	if len(why) > maxWhy {
		return Installed{}, reason.Errorf(reason.InputTooLarge, "the reason has %d bytes; %d are allowed", len(why), maxWhy).WithRemedy("Shorten it.")
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	was, err := r.Get(name, version)
	if err != nil {
		return Installed{}, err
	}
	if was.Status == "" { // nobody installed it
		return was, was.Problem
	}
	one := was
	one.Status, one.Why, one.ChangedBy, one.ChangedAt = s, why, by.Principal, r.now()
	if err := r.mayBe(&one); err != nil {
		return was, err
	}
	if was.Status == one.Status && was.Why == one.Why && was.Current == one.Current && was.Problem == nil {
		return was, nil
	}
	versions, changed := r.placed(r.ofSkill(name), one)
	payload := payloadOf(one, versions)
	payload.Was = was.Status
	e, err := draft(ctx, event.SkillChanged, by, skillSubject(name), payload)
	if err != nil {
		return was, err
	}
	if err := r.keep(ctx, Change{Put: changed, Events: []event.Draft{e}}); err != nil {
		return was, err
	}
	return one, r.tell(ctx)
}

// mayBe checks a version before it gets its status. A row that was changed is written anew
// by that; a package that was changed is not mended by any status, and keeps its problem.
func (r *Registry) mayBe(one *Installed) error {
	p, problem := r.read(*one)
	one.Problem = problem
	if problem == nil {
		one.Manifest = p.Manifest
	}
	if one.Status != Active {
		return nil
	}
	if problem != nil {
		return problem
	}
	r.mu.RLock()
	err := r.pinned(*one)
	r.mu.RUnlock()
	one.Current = true
	return err
}

// Remove removes a version with its package; version "" is all versions of the skill. With
// the last one goes what the skill's guests keep. Where the current version is removed and
// others are left, the skill has no tools until one of them is made current.
func (r *Registry) Remove(ctx context.Context, by access.Caller, name, version string) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	gone, rest := r.ofSkill(name), []Installed(nil)
	if version != "" {
		rest = slices.DeleteFunc(slices.Clone(gone), func(i Installed) bool { return i.Version == version })
		gone = slices.DeleteFunc(gone, func(i Installed) bool { return i.Version != version })
	}
	if len(gone) == 0 {
		return missing(name, version)
	}
	change := Change{Drop: gone}
	for _, one := range gone {
		payload := payloadOf(one, rest)
		payload.Was, payload.Status = one.Status, ""
		e, err := draft(ctx, event.SkillRemoved, by, skillSubject(name), payload)
		if err != nil {
			return err
		}
		change.Events = append(change.Events, e)
	}
	if len(rest) == 0 {
		change.Forget = []string{name}
	}
	if err := r.keep(ctx, change); err != nil {
		return err
	}
	r.reached("dropped")
	for _, one := range gone {
		r.cache.drop(one.Digest)
		if err := r.files.remove(one.Digest); err != nil {
			r.c.Log.WarnContext(ctx, "the package of a removed skill is still there; the next start removes it", slog.String("skill", one.Name()), slog.Any("error", err))
		}
	}
	return r.tell(ctx)
}

// Trust pins a key of a publisher. The key of one that is trusted already is never
// replaced: it has to be distrusted first.
func (r *Registry) Trust(ctx context.Context, by access.Caller, p Publisher) error {
	if err := skill.CheckPublisher(p.Name); err != nil {
		return err
	}
	if len(p.PublicKey) != ed25519.PublicKeySize {
		return reason.Errorf(reason.InvalidInput, "the key of the publisher %s has %d bytes, and an Ed25519 key %d", p.Name, len(p.PublicKey), ed25519.PublicKeySize)
	}
	id := dsse.KeyID(p.PublicKey)
	if p.KeyID != "" && p.KeyID != id {
		return reason.Errorf(reason.VerificationFailed, "the fingerprint of the key is %s, and %s was named", id, p.KeyID).WithRemedy("Compare it with what the publisher says over another way.")
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.RLock()
	was, known := r.publishers[p.Name]
	count := len(r.publishers)
	r.mu.RUnlock()
	switch same := known && was.Problem == nil && was.KeyID == id; {
	case !known && count >= mostPublishers:
		return reason.Errorf(reason.QuotaExceeded, "the keys of %d publishers are kept, which is the most", count)
	case same && !was.FirstUse && !was.Distrusted:
		return nil
	case known && !same && !was.Distrusted && was.Problem == nil:
		return reason.Errorf(reason.AlreadyExists, "the publisher %s signs with the key %s already", p.Name, was.KeyID).
			WithRemedy("A key is not replaced: `palyra skills trust remove %s` first, which quarantines its skills.", p.Name)
	}
	p = Publisher{Name: p.Name, KeyID: id, PublicKey: slices.Clone(p.PublicKey), By: by.Principal, At: r.now()}
	e, err := draft(ctx, event.PublisherTrusted, by, publisherSubject(p.Name), publisherPayloadOf(p))
	if err != nil {
		return err
	}
	if err := r.keep(ctx, Change{Publishers: []Publisher{p}, Events: []event.Draft{e}}); err != nil {
		return err
	}
	return r.tell(ctx)
}

// Distrust has nothing of a publisher run or be installed any more: all versions of its
// skills are quarantined. Its key is remembered, so that it is not pinned by a first use.
func (r *Registry) Distrust(ctx context.Context, by access.Caller, name string) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.RLock()
	p, known := r.publishers[name]
	r.mu.RUnlock()
	if !known {
		return reason.Errorf(reason.NotFound, "no key of a publisher %s is kept", name).WithRemedy("`palyra skills trust list` has the publishers.")
	}
	if p.Distrusted && p.Problem == nil {
		return nil
	}
	p.Distrusted, p.Problem, p.By, p.At = true, nil, by.Principal, r.now()
	e, err := draft(ctx, event.PublisherDistrusted, by, publisherSubject(name), publisherPayloadOf(p))
	if err != nil {
		return err
	}
	change := Change{Publishers: []Publisher{p}, Events: []event.Draft{e}}
	if err := r.quarantineAll(ctx, by, p, &change); err != nil {
		return err
	}
	if err := r.keep(ctx, change); err != nil {
		return err
	}
	return r.tell(ctx)
}

// quarantineAll adds to a change that all of a publisher is quarantined.
func (r *Registry) quarantineAll(ctx context.Context, by access.Caller, p Publisher, c *Change) error {
	bySkill := map[string][]Installed{}
	var changed []Installed
	was := map[string]Status{}
	for _, i := range r.List() {
		if i.Publisher == p.Name && i.Status != Quarantined && i.Status != "" {
			was[i.Name()] = i.Status
			i.Status, i.Why, i.ChangedBy, i.ChangedAt = Quarantined, "the publisher "+p.Name+" is distrusted", p.By, p.At
			changed = append(changed, i)
		}
		bySkill[i.Skill] = append(bySkill[i.Skill], i)
	}
	for _, i := range changed {
		payload := payloadOf(i, bySkill[i.Skill])
		payload.Was = was[i.Name()]
		e, err := draft(ctx, event.SkillChanged, by, skillSubject(i.Skill), payload)
		if err != nil {
			return err
		}
		c.Put, c.Events = append(c.Put, i), append(c.Events, e)
	}
	return nil
}
