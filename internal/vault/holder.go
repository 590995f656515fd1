package vault

import (
	"context"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// A name is not an identity: an agent can get another owner, and a skill with the same id can be
// signed with another key. Secrets of these scopes therefore have a holder, which the gateway looks
// up when a secret is put and when it is used.

// Holders returns the current holder of the secrets of a scope: the owner of the agent, or the id
// of the publisher's key of the skill. It returns "" for an unknown agent or skill.
type Holders func(kind Kind, id string) string

// held returns the kind and id of a scope whose secrets have a holder.
func held(ref Ref) (kind Kind, id string, is bool) {
	kind, id, err := ParseScope(ref.Scope)
	return kind, id, err == nil && (kind == Agent || kind == Skill)
}

// of returns the holder of a new secret.
func (h Holders) of(ref Ref) (string, error) {
	kind, id, is := held(ref)
	if !is {
		return "", nil
	}
	if holder := h(kind, id); holder != "" {
		return holder, nil
	}
	if kind == Skill {
		return "", reason.Errorf(reason.NotFound, "no version of the skill %s is in use, so its secrets would have no holder", id).
			WithRemedy("Install the skill first: `palyra skills install PACKAGE`.")
	}
	return "", reason.Errorf(reason.NotFound, "no agent %s exists, so its secrets would have no holder", id).
		WithRemedy("Add the agent first: `palyra members add %s --role agent --owner USER`.", id)
}

// ended returns why a secret must not be lent, or nil. last is the newest event that put or
// ended the secret.
func (h Holders) ended(ref Ref, holder string, last event.Code) *reason.Error {
	kind, id, is := held(ref)
	if !is {
		return nil
	}
	now := h(kind, id)
	var why *reason.Error
	switch {
	case last == event.SecretEnded:
		why = reason.Errorf(reason.SecretEnded, "the secret %s ended with the ownership of %s", ref, holder)
	case holder == "":
		why = reason.Errorf(reason.SecretEnded, "the secret %s was put before %s existed", ref, ref.Scope)
	case holder == now:
		return nil
	case now == "":
		why = reason.Errorf(reason.SecretEnded, "the secret %s belongs to %s, and %s does not exist", ref, holder, ref.Scope)
	default:
		why = reason.Errorf(reason.SecretEnded, "the secret %s belongs to %s, and %s belongs to %s", ref, holder, ref.Scope, now)
	}
	return why.WithRemedy("Store your own value: `palyra vault put %s`. Or remove the secret: `palyra vault rm %[1]s`.", ref)
}

// withheld removes the metadata that the former holder set on an ended secret.
func withheld(m Secret) Secret {
	if m.Ended == nil {
		return m
	}
	return Secret{
		Ref: m.Ref, Version: m.Version, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, LastUsed: m.LastUsed,
		Holder: m.Holder, Ended: m.Ended, Versions: m.Versions,
	}
}

// Endings returns the events that end the secrets of an agent. The caller commits them in the
// transaction that changes its owner, so that no later owner gets the secrets.
func (s *Service) Endings(ctx context.Context, actor, agent access.Principal) (list []event.Draft, err error) {
	const page = 500
	for q := (Query{Scope: agent.String(), Limit: page}); ; {
		records, err := s.records.store.Records(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if r.Last.Code == event.SecretEnded {
				continue
			}
			e, err := draft(ctx, event.SecretEnded, actor, r.Ref, secretEnded{Scope: r.Ref.Scope, Key: r.Ref.Key, Version: r.Newest})
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		if len(records) < page {
			return list, nil
		}
		q.After = records[page-1].Ref
	}
}
