package registry

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"slices"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/dsse"
	"palyra/internal/exec/skill"
)

// maxWhy is the maximum length of the reason for a change, in bytes.
const maxWhy = 500

// SetStatus sets the status of a version; version "" is the current one. Active also makes it the
// current version, after its package and key were checked. A status that takes the version out of
// use takes effect immediately, even if notifying others fails.
func (r *Registry) SetStatus(ctx context.Context, by access.Caller, name, version string, s Status, why string) (Installed, error) {
	if !slices.Contains(Statuses, s) {
		return Installed{}, reason.Errorf(reason.InvalidInput, "the status %q does not exist", s).WithRemedy("Use active, quarantined or disabled.")
	}
	if s == Active {
		if err := r.c.Guard.Check(ctx, change.EnableSkill); err != nil {
			return Installed{}, err
		}
	}
	if len(why) > maxWhy {
		return Installed{}, reason.Errorf(reason.InputTooLarge, "the reason has %d bytes; the limit is %d", len(why), maxWhy).WithRemedy("Shorten it.")
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	was, err := r.Get(name, version)
	if err != nil {
		return Installed{}, err
	}
	if was.Status == "" { // it was never installed
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
	versions, changed := placed(r.ofSkill(name), one)
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

// mayBe checks a version before its status changes. The change replaces a tampered row. A
// tampered package keeps its problem under any status.
func (r *Registry) mayBe(one *Installed) error {
	p, problem := r.packages.read(*one)
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
	one.Current = true
	return r.checkPin(*one)
}

// Remove removes a version and its package; version "" removes all versions of the skill.
// Removing the last version also removes the storage of the skill's guests. If the current
// version is removed and others remain, the skill has no tools until another version becomes the
// current one.
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
		r.packages.cache.drop(one.Digest)
		if err := r.packages.files.remove(one.Digest); err != nil {
			r.c.Log.WarnContext(ctx, "the package of a removed skill was not deleted; the next start deletes it", slog.String("skill", one.Name()), slog.Any("error", err))
		}
	}
	return r.tell(ctx)
}

// Trust pins the key of a publisher. It never replaces the key of a trusted publisher: that
// publisher must be distrusted first.
func (r *Registry) Trust(ctx context.Context, by access.Caller, p Publisher) error {
	if err := r.c.Guard.Check(ctx, change.TrustPublisher); err != nil {
		return err
	}
	if err := skill.CheckPublisher(p.Name); err != nil {
		return err
	}
	if len(p.PublicKey) != ed25519.PublicKeySize {
		return reason.Errorf(reason.InvalidInput, "the key of the publisher %s has %d bytes, but an Ed25519 key has %d", p.Name, len(p.PublicKey), ed25519.PublicKeySize)
	}
	id := dsse.KeyID(p.PublicKey)
	if p.KeyID != "" && p.KeyID != id {
		return reason.Errorf(reason.VerificationFailed, "the fingerprint of the key is %s, not %s", id, p.KeyID).WithRemedy("Verify the fingerprint with the publisher over a separate channel.")
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	was, known, count := r.publisher(p.Name)
	switch same := known && was.Problem == nil && was.KeyID == id; {
	case !known && count >= mostPublishers:
		return reason.Errorf(reason.QuotaExceeded, "the limit of %d pinned publisher keys is reached", count)
	case same && !was.FirstUse && !was.Distrusted:
		return nil
	case known && !same && !was.Distrusted && was.Problem == nil:
		return reason.Errorf(reason.AlreadyExists, "the publisher %s already has the pinned key %s", p.Name, was.KeyID).
			WithRemedy("Run `palyra skills trust remove %s` first, which quarantines its skills: a pinned key is not replaced.", p.Name)
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

// Distrust prevents running and installing skills of a publisher: all versions of its skills are
// quarantined. Its key is kept, so that a first use cannot pin it again.
func (r *Registry) Distrust(ctx context.Context, by access.Caller, name string) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	p, known, _ := r.publisher(name)
	if !known {
		return reason.Errorf(reason.NotFound, "no key of the publisher %s is pinned", name).WithRemedy("List the publishers with `palyra skills trust list`.")
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

// quarantineAll adds the quarantine of all versions of a publisher to a change.
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
