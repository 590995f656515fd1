package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/semver"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill"
)

// Inspection describes the effects of installing a package.
type Inspection struct {
	Digest   string
	Manifest *skill.Manifest
	// Signer is the signer, empty if the signature does not verify.
	Signer   skill.Signer
	Findings []skill.Finding
	// NewPublisher reports that no key of the publisher is pinned, so the installation would pin
	// it.
	NewPublisher bool
	// Replaces is the current version of the skill, nil for none.
	Replaces *Installed
	// Gains describes the permissions of its tools in addition to the running version's,
	// or all permissions if none runs.
	Gains []string
	// Installable is the reason why it cannot be installed, nil if it can.
	Installable error
}

// Inspect inspects a staged package and changes nothing.
func (r *Registry) Inspect(_ context.Context, digest string) (Inspection, error) {
	_, _, in, err := r.examine(digest)
	return in, err
}

// Audit audits the package of an installed version again; version "" is the current one. problem
// is the reason why its tools cannot be called, nil if they can.
func (r *Registry) Audit(ctx context.Context, name, version string) (findings []skill.Finding, problem error, err error) {
	i, err := r.Get(name, version)
	if err != nil {
		return nil, nil, err
	}
	if _, problem = r.Load(ctx, i.Skill, i.Version); problem == nil && !i.Current {
		whose := "not from any version"
		if current, err := r.Get(name, ""); err == nil {
			whose = "from its version " + current.Version
		}
		problem = reason.Errorf(reason.NotFound, "the tools of %s are %s", name, whose).
			WithRemedy("Run `palyra skills enable %s` to make this version the current one.", i.Name())
	}
	p, err := r.packages.read(i)
	if err != nil { // it becomes the problem
		return nil, problem, nil
	}
	return skill.Audit(p, r.c.Limits), problem, nil
}

// examine reads and checks a staged package.
func (r *Registry) examine(digest string) (data []byte, p *skill.Package, in Inspection, err error) {
	if data, err = r.Staging.read(digest); err != nil {
		return nil, nil, in, err
	}
	if p, err = skill.Open(data); err != nil {
		return nil, nil, in, err
	}
	in = Inspection{Digest: digest, Manifest: p.Manifest, Findings: skill.Audit(p, r.c.Limits)}
	signer, err := skill.Verify(p)
	if err == nil {
		in.Signer = signer
	}
	versions := r.ofSkill(p.Manifest.ID)
	var runs *skill.Manifest
	for _, i := range versions {
		if i.Current {
			in.Replaces = &i
		}
		if i.runs() {
			runs = i.Manifest
		}
	}
	in.Gains = gains(runs, p.Manifest)
	in.NewPublisher, in.Installable = r.admits(signer, err, int64(len(data)), in, versions)
	return data, p, in, nil
}

// admits returns an error if a package cannot be installed.
func (r *Registry) admits(signer skill.Signer, unsigned error, size int64, in Inspection, versions []Installed) (newPublisher bool, err error) {
	if unsigned != nil {
		return false, unsigned
	}
	_, known, publishers := r.publisher(signer.Publisher)
	if known {
		err = r.checkPin(Installed{Skill: in.Manifest.ID, Version: in.Manifest.Version, Publisher: signer.Publisher, KeyID: signer.KeyID})
	}
	if err == nil && !known && publishers >= mostPublishers {
		err = reason.Errorf(reason.QuotaExceeded, "the limit of %d pinned publisher keys is reached", publishers)
	}
	if err == nil {
		err = audited(in.Findings)
	}
	if err == nil {
		err = fits(in, versions)
	}
	if err == nil {
		err = r.room(size, in, versions)
	}
	return !known, err
}

// audited returns the first error of an audit.
func audited(findings []skill.Finding) error {
	for _, f := range findings {
		if f.Severity == skill.Error {
			return reason.Errorf(reason.InvalidInput, "%s: %s: %s", f.Code, f.About, f.What).WithRemedy("%s", f.Remedy)
		}
	}
	return nil
}

// fits compares a package with the installed versions of the skill.
func fits(in Inspection, versions []Installed) error {
	m := in.Manifest
	for _, i := range versions {
		if i.Publisher != m.Publisher {
			return reason.Errorf(reason.AlreadyExists, "the skill %s belongs to the publisher %s, but this package is from %s", i.Skill, i.Publisher, m.Publisher).
				WithRemedy("To install this package, remove the skill first. That also removes the storage of its guests.")
		}
		if i.Version != m.Version {
			continue
		}
		switch {
		case i.Digest != in.Digest:
			return reason.Errorf(reason.AlreadyExists, "%s is installed with another package, %s: a version never changes", i.Name(), i.Digest).
				WithRemedy("Have its publisher release a new version.")
		case i.Problem == nil:
			return reason.Errorf(reason.AlreadyExists, "%s is installed, and its status is %s", i.Name(), i.Status).WithRemedy("Run `palyra skills enable %s` to make it the current version.", i.Name())
		}
		return nil // the installation repairs it
	}
	if was := in.Replaces; was != nil && semver.Compare("v"+m.Version, "v"+was.Version) < 0 {
		return reason.Errorf(reason.InvalidInput, "the version %s is older than %s, which is the current one", m.Version, was.Name()).
			WithRemedy("Install a newer version. To go back to an installed version, run `palyra skills enable`.")
	}
	return nil
}

// room checks the limits of the storage for packages.
func (r *Registry) room(size int64, in Inspection, versions []Installed) error {
	all := r.List()
	for _, i := range all {
		size += r.packages.files.size(i.Digest)
	}
	const remedy = "Remove unused versions with `palyra skills remove`."
	switch {
	case len(all) >= mostVersions:
		return reason.Errorf(reason.QuotaExceeded, "the limit of %d installed versions of skills is reached", len(all)).WithRemedy(remedy)
	case len(versions) >= mostOfOneSkill:
		return reason.Errorf(reason.QuotaExceeded, "the limit of %d installed versions of the skill %s is reached", len(versions), in.Manifest.ID).WithRemedy(remedy)
	case size > mostBytes:
		return reason.Errorf(reason.QuotaExceeded, "the packages would have %d bytes; the limit is %d", size, int64(mostBytes)).WithRemedy(remedy)
	}
	return nil
}

// compareVersions orders semantic versions; versions of equal precedence are ordered as text.
func compareVersions(a, b string) int {
	return cmp.Or(semver.Compare("v"+a, "v"+b), strings.Compare(a, b))
}

// Install installs a staged package. The package becomes the current, active version. If no key
// of its publisher is known, its key is pinned. The caller is responsible for the required
// approvals.
//
// The package file is written before the row that refers to it. A crash in between leaves a file
// that the next start removes.
func (r *Registry) Install(ctx context.Context, by access.Caller, digest string) (Installed, error) {
	if err := r.c.Guard.Check(ctx, change.InstallSkill); err != nil {
		return Installed{}, err
	}
	if err := r.Prepare(ctx, digest); err != nil {
		return Installed{}, err
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	data, p, in, err := r.examine(digest)
	if err == nil {
		err = in.Installable
	}
	if err != nil {
		return Installed{}, err
	}
	change, one, err := r.installation(ctx, by, p, in)
	if err != nil {
		return Installed{}, err
	}
	if err := r.packages.files.put(digest, data); err != nil {
		return Installed{}, err
	}
	r.reached("named")
	if err := r.keep(ctx, change); err != nil {
		return Installed{}, err
	}
	r.reached("kept")
	r.unstage(digest)
	return one, r.tell(ctx)
}

// installation returns the change for an installation.
func (r *Registry) installation(ctx context.Context, by access.Caller, p *skill.Package, in Inspection) (c Change, one Installed, err error) {
	now := r.now()
	one = Installed{
		Skill: p.Manifest.ID, Version: p.Manifest.Version, Publisher: in.Signer.Publisher, KeyID: in.Signer.KeyID, Digest: in.Digest,
		Status: Active, Manifest: p.Manifest, InstalledBy: by.Principal, InstalledAt: now, ChangedBy: by.Principal, ChangedAt: now, Current: true,
	}
	versions := r.ofSkill(one.Skill)
	was, mends := find(versions, one.Version)
	if mends { // the package is unchanged, and so are its status and reason
		one.Status, one.Why, one.Current, one.ChangedBy, one.ChangedAt = was.Status, was.Why, was.Current, was.ChangedBy, was.ChangedAt
		if one.Status == "" {
			one.Status = Disabled
		}
	}
	versions, c.Put = placed(versions, one)
	payload := payloadOf(one, versions)
	payload.Mended = mends
	if !mends {
		payload.Gains = in.Gains
		if in.Replaces != nil {
			payload.Replaces = in.Replaces.Version
		}
	}
	installed, err := draft(ctx, event.SkillInstalled, by, skillSubject(one.Skill), payload)
	if err != nil {
		return c, one, err
	}
	if in.NewPublisher {
		pin := Publisher{Name: in.Signer.Publisher, KeyID: in.Signer.KeyID, PublicKey: in.Signer.PublicKey, FirstUse: true, By: by.Principal, At: now}
		if err := r.neverPinned(ctx, pin.Name); err != nil {
			return c, one, err
		}
		trusted, err := draft(ctx, event.PublisherTrusted, by, publisherSubject(pin.Name), publisherPayloadOf(pin))
		if err != nil {
			return c, one, err
		}
		c.Publishers, c.Events = append(c.Publishers, pin), append(c.Events, trusted)
	}
	c.Events = append(c.Events, installed)
	return c, one, nil
}

func find(versions []Installed, version string) (Installed, bool) {
	for _, i := range versions {
		if i.Version == version {
			return i, true
		}
	}
	return Installed{}, false
}

// placed returns the versions of a skill including the new state of one, and the changed rows: at
// most one version is the current one.
func placed(versions []Installed, one Installed) (all, changed []Installed) {
	changed = []Installed{one}
	for _, i := range versions {
		if i.Version == one.Version {
			continue
		}
		if i.Current && one.Current {
			i.Current = false
			changed = append(changed, i)
		}
		all = append(all, i)
	}
	return append(all, one), changed
}

// neverPinned refuses a first use if the journal has a key of the publisher: in that case its row
// was deleted.
func (r *Registry) neverPinned(ctx context.Context, publisher string) error {
	var payload publisherPayload
	_, found, err := lastEvent(ctx, r.c.Store, &payload, publisherSubject(publisher), publisherCodes...)
	if err == nil && found {
		err = damaged("the journal has the key %s of the publisher %s, but the trust store has none", payload.KeyID, publisher).
			WithRemedy("Find out who changed the store; then pin the key with `palyra skills trust add`.")
		return errors.Join(err, r.damages.record(ctx, damagePayload{Publisher: publisher, What: reason.Known(err, reason.VerificationFailed).Message}, publisherSubject(publisher)))
	}
	if err != nil {
		return fmt.Errorf("reading the publisher %s from the journal: %w", publisher, err)
	}
	return nil
}
