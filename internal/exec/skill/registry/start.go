package registry

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/dsse"
	"palyra/internal/exec/skill"
)

// rowCheck compares the rows of the store with the journal, and reads the packages. The journal is
// authoritative: a row that differs from it was tampered with.
type rowCheck struct {
	store    Store
	packages packages
	damages  *damages
}

// inventory returns the inventory of the rows.
func (c rowCheck) inventory(ctx context.Context, kept Kept) (*Inventory, error) {
	v := &Inventory{versions: map[string]Installed{}, publishers: map[string]Publisher{}}
	for _, p := range kept.Publishers {
		if err := c.addPublisher(ctx, v, p); err != nil {
			return nil, err
		}
	}
	bySkill := map[string][]Installed{}
	for _, i := range kept.Versions {
		bySkill[i.Skill] = append(bySkill[i.Skill], i)
	}
	for _, name := range slices.Sorted(maps.Keys(bySkill)) {
		if err := c.addSkill(ctx, v, name, bySkill[name]); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// addPublisher checks a row of the trust store.
func (c rowCheck) addPublisher(ctx context.Context, v *Inventory, p Publisher) error {
	var payload publisherPayload
	code, found, err := lastEvent(ctx, c.store, &payload, publisherSubject(p.Name), publisherCodes...)
	if err != nil {
		return fmt.Errorf("reading the publisher %s from the journal: %w", p.Name, err)
	}
	what := ""
	switch {
	case !found:
		what = "the journal has no record of it"
	case payload.KeyID != p.KeyID || payload.PublicKey != base64.StdEncoding.EncodeToString(p.PublicKey):
		what = fmt.Sprintf("it has the key %s, but the journal has %s", p.KeyID, payload.KeyID)
	case dsse.KeyID(p.PublicKey) != p.KeyID:
		what = "its key does not match its fingerprint"
	case (code == event.PublisherDistrusted) != p.Distrusted:
		what = fmt.Sprintf("it has distrusted = %t, and the journal does not", p.Distrusted)
	case payload.FirstUse != p.FirstUse:
		what = fmt.Sprintf("it has pinned on first use = %t, and the journal does not", p.FirstUse)
	}
	if what != "" {
		p.Problem = damaged("the row of the publisher %s in the trust store was changed: %s", p.Name, what).
			WithRemedy("Find out who changed it; then pin the publisher's key with `palyra skills trust add`.")
		c.damages.report(ctx, damagePayload{Publisher: p.Name, What: reason.Known(p.Problem, reason.VerificationFailed).Message}, publisherSubject(p.Name))
	}
	v.publishers[p.Name] = p
	return nil
}

// addSkill checks the rows of one skill.
func (c rowCheck) addSkill(ctx context.Context, v *Inventory, name string, rows []Installed) error {
	var payload skillPayload
	if _, _, err := lastEvent(ctx, c.store, &payload, skillSubject(name), skillCodes...); err != nil {
		return fmt.Errorf("reading the skill %s from the journal: %w", name, err)
	}
	for _, i := range rows {
		i.Manifest = &skill.Manifest{ID: i.Skill, Version: i.Version, Publisher: i.Publisher}
		n := slices.IndexFunc(payload.Versions, func(s versionState) bool { return s.Version == i.Version })
		if n < 0 {
			i.Status, i.Current = "", false
			i.Problem = mendable(i, damaged("the row of %s was changed: the journal has no record of this version", i.Name()))
		} else if is := payload.Versions[n]; is != stateOf(i) {
			i.Problem = mendable(i, damaged("the row of %s was changed: %s", i.Name(), differs(stateOf(i), is)))
			i.Publisher, i.KeyID, i.Digest, i.Status, i.Current = is.Publisher, is.KeyID, is.Digest, is.Status, is.Current
		}
		p, err := c.packages.read(i)
		switch {
		case err == nil:
			i.Manifest = p.Manifest
		case i.Problem == nil:
			i.Problem = err
		}
		if i.Problem != nil {
			c.damages.report(ctx, damageOf(i, i.Problem), skillSubject(i.Name()))
		}
		v.versions[i.Name()] = i
	}
	for _, s := range payload.Versions {
		if _, there := find(rows, s.Version); !there {
			gone := Installed{Skill: name, Version: s.Version, Digest: s.Digest}
			c.damages.report(ctx, damageOf(gone, damaged("the row of %s was deleted", gone.Name())), skillSubject(gone.Name()))
		}
	}
	return nil
}

// differs names the part of a row that differs from the journal.
func differs(row, is versionState) string {
	for _, part := range []struct{ what, row, is string }{
		{"status", string(row.Status), string(is.Status)}, {"package's digest", row.Digest, is.Digest},
		{"publisher", row.Publisher, is.Publisher}, {"key", row.KeyID, is.KeyID},
		{"current version", fmt.Sprint(row.Current), fmt.Sprint(is.Current)},
	} {
		if part.row != part.is {
			return fmt.Sprintf("it has the %s %q, but the journal has %q", part.what, part.row, part.is)
		}
	}
	return "it differs from the journal"
}

func damageOf(i Installed, problem error) damagePayload {
	return damagePayload{Skill: i.Skill, Version: i.Version, Publisher: i.Publisher, Digest: i.Digest, What: reason.Known(problem, reason.VerificationFailed).Message}
}
