package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"palyra/internal/core/event"
)

// Store persists the installed skills. A change and its events become durable together or not at
// all.
type Store interface {
	// Skills returns all rows. Manifests and problems are not stored.
	Skills(context.Context) (Kept, error)
	ChangeSkills(context.Context, Change) error
	// LastSkillEvent returns the newest event about a subject with one of the codes. The event
	// has no payload if the payload was erased.
	LastSkillEvent(ctx context.Context, subject string, codes ...event.Code) (e event.Draft, found bool, err error)
}

// Kept is the complete content of a store.
type Kept struct {
	Versions   []Installed
	Publishers []Publisher
}

// digests returns the digests of the packages.
func (k Kept) digests() []string {
	var list []string
	for _, i := range k.Versions {
		list = append(list, i.Digest)
	}
	return list
}

// Change is one atomic change.
type Change struct {
	// Put and Publishers replace the rows of the same names.
	Put        []Installed
	Publishers []Publisher
	// Drop lists the rows to remove.
	Drop []Installed
	// Forget lists the skills whose guest storage is removed.
	Forget []string
	Events []event.Draft
}

// The codes of the events that contain the state of a skill and of a publisher.
var (
	skillCodes     = []event.Code{event.SkillInstalled, event.SkillChanged, event.SkillRemoved}
	publisherCodes = []event.Code{event.PublisherTrusted, event.PublisherDistrusted}
)

// publisherSubject returns the subject of a publisher's events.
func publisherSubject(name string) string { return "publisher:" + name }

// skillSubject returns the subject of a skill's events.
func skillSubject(name string) string { return "skill:" + name }

// skillPayload is the payload of skill events: the version concerned, and the resulting state of
// all versions of the skill. At start the rows are compared with it.
type skillPayload struct {
	Skill     string `json:"skill"`
	Version   string `json:"version"`
	Publisher string `json:"publisher"`
	KeyID     string `json:"key_id"`
	Digest    string `json:"package_digest"`
	Status    Status `json:"status,omitempty"`
	Was       Status `json:"was,omitempty"`
	Why       string `json:"reason,omitempty"`
	// Replaces is the previous current version, and Gains the permissions that it did not have.
	Replaces string         `json:"replaces,omitempty"`
	Gains    []string       `json:"gains,omitempty"`
	Mended   bool           `json:"mended,omitempty"`
	Versions []versionState `json:"versions"`
}

// versionState is the state of a version.
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

// statesOf returns the states of the versions of one skill, by version. It skips rows without an
// installation.
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

// payloadOf returns the payload of an event about a version, with the resulting state of all
// versions.
func payloadOf(i Installed, all []Installed) skillPayload {
	return skillPayload{
		Skill: i.Skill, Version: i.Version, Publisher: i.Publisher, KeyID: i.KeyID, Digest: i.Digest, Status: i.Status, Why: i.Why, Versions: statesOf(all),
	}
}

// publisherPayload is the payload of publisher events.
type publisherPayload struct {
	Publisher string `json:"publisher"`
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"`
	FirstUse  bool   `json:"first_use"`
}

func publisherPayloadOf(p Publisher) publisherPayload {
	return publisherPayload{p.Name, p.KeyID, base64.StdEncoding.EncodeToString(p.PublicKey), p.FirstUse}
}

// damagePayload is the payload of event.SkillTampered.
type damagePayload struct {
	Skill     string `json:"skill,omitempty"`
	Version   string `json:"version,omitempty"`
	Publisher string `json:"publisher,omitempty"`
	Digest    string `json:"package_digest,omitempty"`
	What      string `json:"what"`
}

// lastEvent decodes the newest event of a subject.
func lastEvent(ctx context.Context, store Store, into any, subject string, codes ...event.Code) (event.Code, bool, error) {
	e, found, err := store.LastSkillEvent(ctx, subject, codes...)
	if err != nil || !found || e.Payload == nil { // an erased payload matches no row
		return e.Code, found, err
	}
	return e.Code, true, json.Unmarshal(e.Payload, into)
}
