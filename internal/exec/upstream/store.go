package upstream

import (
	"context"

	"palyra/internal/core/event"
	"palyra/internal/exec/upstream/declared"
)

// Store persists the servers. A put and its events become durable together or not at all.
type Store interface {
	Upstreams(ctx context.Context) ([]declared.Kept, error)
	PutUpstream(ctx context.Context, k declared.Kept, events ...event.Draft) error
	DeleteUpstream(ctx context.Context, name string, events ...event.Draft) error
}

// added is the payload of event.UpstreamAdded and event.UpstreamRemoved.
type added struct {
	Server declared.Server `json:"server"`
	Digest string          `json:"server_digest"`
}

// sighted is the payload of event.UpstreamSeen and event.UpstreamApproved.
type sighted struct {
	Server  string       `json:"server"`
	First   bool         `json:"first,omitempty"`
	Changes []changeNote `json:"changes"`
	LeftOut []string     `json:"left_out,omitempty"`
	// Unchecked are the keywords that only the server checks.
	Unchecked []string `json:"unchecked,omitempty"`
}

type changeNote struct {
	Kind   declared.Kind `json:"kind"`
	Name   string        `json:"name,omitempty"`
	Change string        `json:"change"`
	// Was and Is are digests of the definitions.
	Was string `json:"was_digest,omitempty"`
	Is  string `json:"is_digest,omitempty"`
}

func notesOf(changes []declared.Change) []changeNote {
	list := make([]changeNote, 0, len(changes))
	for _, c := range changes {
		list = append(list, changeNote{c.Kind, c.Name, c.Word(), digestOf(c.Was), digestOf(c.Is)})
	}
	return list
}
