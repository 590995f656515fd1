package registry

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/dsse"
	"palyra/internal/exec/skill"
)

// take compares the rows of the store with the journal, and reads the packages. The journal is
// authoritative: a row that differs from it was tampered with.
func (r *Registry) take(ctx context.Context, kept Kept) error {
	for _, p := range kept.Publishers {
		if err := r.takePublisher(ctx, p); err != nil {
			return err
		}
	}
	bySkill := map[string][]Installed{}
	for _, i := range kept.Versions {
		bySkill[i.Skill] = append(bySkill[i.Skill], i)
	}
	for _, name := range slices.Sorted(maps.Keys(bySkill)) {
		if err := r.takeSkill(ctx, name, bySkill[name]); err != nil {
			return err
		}
	}
	return nil
}

// takePublisher checks a row of the trust store.
func (r *Registry) takePublisher(ctx context.Context, p Publisher) error {
	var payload publisherPayload
	code, found, err := r.last(ctx, &payload, publisherSubject(p.Name), publisherCodes...)
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
		r.damaged(ctx, damagePayload{Publisher: p.Name, What: reason.Known(p.Problem, reason.VerificationFailed).Message}, publisherSubject(p.Name))
	}
	r.publishers[p.Name] = p
	return nil
}

// takeSkill checks the rows of one skill.
func (r *Registry) takeSkill(ctx context.Context, name string, rows []Installed) error {
	var payload skillPayload
	if _, _, err := r.last(ctx, &payload, skillSubject(name), skillCodes...); err != nil {
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
		p, err := r.read(i)
		switch {
		case err == nil:
			i.Manifest = p.Manifest
		case i.Problem == nil:
			i.Problem = err
		}
		if i.Problem != nil {
			r.damaged(ctx, damageOf(i, i.Problem), skillSubject(i.Name()))
		}
		r.versions[i.Name()] = i
	}
	for _, s := range payload.Versions {
		if _, there := find(rows, s.Version); !there {
			gone := Installed{Skill: name, Version: s.Version, Digest: s.Digest}
			r.damaged(ctx, damageOf(gone, damaged("the row of %s was deleted", gone.Name())), skillSubject(gone.Name()))
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

// damaged records a damage in the journal and the log. A failure to write the journal is only
// logged, because the caller returns the error of the damage itself.
func (r *Registry) damaged(ctx context.Context, d damagePayload, subject string) {
	if err := r.damage(ctx, d, subject); err != nil {
		r.c.Log.ErrorContext(ctx, "recording a damaged skill in the journal failed", slog.Any("error", err))
	}
}

// damage records a damage in the journal once.
func (r *Registry) damage(ctx context.Context, d damagePayload, subject string) error {
	r.mu.Lock()
	reported := r.reported[subject+d.What]
	r.reported[subject+d.What] = true
	r.mu.Unlock()
	if reported {
		return nil
	}
	r.c.Log.WarnContext(ctx, "a skill, its package or its publisher was changed outside of palyrad, and does not run", slog.String("skill", subject), slog.String("problem", d.What))
	var before damagePayload
	if _, found, err := r.last(ctx, &before, subject, event.SkillTampered); err != nil || found && before == d {
		return err
	}
	e, err := event.DraftOf(event.SkillTampered, "service:palyrad", subject, d)
	if err != nil {
		return err
	}
	return r.c.Store.ChangeSkills(context.WithoutCancel(ctx), Change{Events: []event.Draft{e}})
}
