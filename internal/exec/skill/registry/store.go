package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"palyra/internal/core/event"
)

// Store keeps what is installed. A change and its events are durable together or not at
// all.
type Store interface {
	// Skills returns all that is kept. Manifests and problems are no part of it.
	Skills(context.Context) (Kept, error)
	ChangeSkills(context.Context, Change) error
	// LastSkillEvent returns the newest event about a subject that has one of the codes,
	// without a payload where that was erased.
	LastSkillEvent(ctx context.Context, subject string, codes ...event.Code) (e event.Draft, found bool, err error)
}

// Kept is all that a store has.
type Kept struct {
	Versions   []Installed
	Publishers []Publisher
}

// digests are those of the packages.
func (k Kept) digests() []string {
	var list []string
	for _, i := range k.Versions {
		list = append(list, i.Digest)
	}
	return list
}

// Change is one unit.
type Change struct {
	// Put and Publishers are in place of the rows of the same names.
	Put        []Installed
	Publishers []Publisher
	// Drop are removed.
	Drop []Installed
	// Forget are skills whose guests' storage is removed.
	Forget []string
	Events []event.Draft
}

// The codes whose events say how a skill, and a publisher, are since then.
var (
	skillCodes     = []event.Code{event.SkillInstalled, event.SkillChanged, event.SkillRemoved}
	publisherCodes = []event.Code{event.PublisherTrusted, event.PublisherDistrusted}
)

// publisherSubject is the subject of the events of a publisher.
func publisherSubject(name string) string { return "publisher:" + name }

// skillSubject is the subject of the events of a skill.
func skillSubject(name string) string { return "skill:" + name }

// skillPayload is that of the events of a skill: which version it is about, and how all
// versions of the skill are since then. The rows are compared with it at the start.
type skillPayload struct {
	Skill     string `json:"skill"`
	Version   string `json:"version"`
	Publisher string `json:"publisher"`
	KeyID     string `json:"key_id"`
	Digest    string `json:"package_digest"`
	Status    Status `json:"status,omitempty"`
	Was       Status `json:"was,omitempty"`
	Why       string `json:"reason,omitempty"`
	// Replaces is the version that was the current one, Gains what is asked for beyond it.
	Replaces string         `json:"replaces,omitempty"`
	Gains    []string       `json:"gains,omitempty"`
	Mended   bool           `json:"mended,omitempty"`
	Versions []versionState `json:"versions"`
}

// versionState is how a version is.
type versionState struct {
	Version   string `json:"version"`
	Publisher string `json:"publisher"`
	KeyID     string `json:"key_id"`
	Digest    string `json:"package_digest"`
	Status    Status `json:"status"`
	Current   bool   `json:"current"`
}

func stateOf(i Installed) versionState {
	return versionState{i.Version, i.Publisher, i.KeyID, i.Digest, i.Status, i.Current}
}

// statesOf are those of the versions of one skill, by version. A row that nobody installed
// is none of them.
func statesOf(versions []Installed) []versionState {
	list := make([]versionState, 0, len(versions))
	for _, i := range versions {
		if i.Status != "" {
			list = append(list, stateOf(i))
		}
	}
	slices.SortFunc(list, func(a, b versionState) int { return strings.Compare(a.Version, b.Version) })
	return list
}

// payloadOf is the payload of an event about a version, with all versions as they are then.
func payloadOf(i Installed, all []Installed) skillPayload {
	return skillPayload{
		Skill: i.Skill, Version: i.Version, Publisher: i.Publisher, KeyID: i.KeyID, Digest: i.Digest, Status: i.Status, Why: i.Why, Versions: statesOf(all),
	}
}

// publisherPayload is that of the events of a publisher.
type publisherPayload struct {
	Publisher string `json:"publisher"`
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"`
	FirstUse  bool   `json:"first_use"`
}

func publisherPayloadOf(p Publisher) publisherPayload {
	return publisherPayload{p.Name, p.KeyID, base64.StdEncoding.EncodeToString(p.PublicKey), p.FirstUse}
}

// damagePayload is that of event.SkillTampered.
type damagePayload struct {
	Skill     string `json:"skill,omitempty"`
	Version   string `json:"version,omitempty"`
	Publisher string `json:"publisher,omitempty"`
	Digest    string `json:"package_digest,omitempty"`
	What      string `json:"what"`
}

// last decodes the newest event of a subject.
func (r *Registry) last(ctx context.Context, into any, subject string, codes ...event.Code) (event.Code, bool, error) {
	e, found, err := r.c.Store.LastSkillEvent(ctx, subject, codes...)
	if err != nil || !found || e.Payload == nil { // what was erased says nothing, and no row is like it
		return e.Code, found, err
	}
	return e.Code, true, json.Unmarshal(e.Payload, into)
}
