package policy

import (
	"github.com/cedar-policy/cedar-go/types"
)

// commitAction is what a change set is decided under.
const commitAction = "workspace.commit"

// prepareCommit turns a request about a change set into Cedar's terms. All of
// its context is made of the types that the schema declares, so that it always
// fits.
func (s *Set) prepareCommit(r Request) (*call, *refusal) {
	c, refused := s.newCall(r, commitAttributes)
	if refused != nil {
		return nil, refused
	}
	c.req.Action = types.NewEntityUID(typeAction, commitAction)
	c.req.Resource = types.NewEntityUID(typeWorkspace, types.String(r.Commit.Workspace))
	if _, known := s.dir.entities[c.req.Resource]; !known {
		c.entities.extra = append(c.entities.extra, types.Entity{
			UID: c.req.Resource, Attributes: types.NewRecord(resourceAttributes(typeWorkspace, r.Commit.Workspace)),
		})
	}
	c.findPolicies()
	return c, nil
}
