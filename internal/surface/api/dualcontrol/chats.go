package dualcontrol

import (
	"context"
	"fmt"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/surface/api/things"
	"palyra/internal/surface/notify"
)

// ChatUsers are the users of chats. A mapping to a member, who then votes from the chat, requires a
// second person.
type ChatUsers struct {
	things.Users
	Gate *dualcontrol.Gate
}

// Map maps a user to a member.
func (c ChatUsers) Map(ctx context.Context, by access.Caller, team, user string, member access.Principal) (notify.ChatUser, error) {
	return propose[notify.ChatUser](ctx, c.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		changes, err := c.CheckMap(team, user, member)
		if err != nil {
			return nil, err
		}
		return &dualcontrol.Plan{
			Kind: change.MapChatUser, Needs: access.PermNotifyWrite, Nothing: !changes,
			Question: dualcontrol.Question{
				ID: "chat_user:" + team + "/" + user, Title: fmt.Sprintf("Allow a user of Slack to vote as %s", member),
				Summary: fmt.Sprintf("Allow the user %s of the Slack workspace %s to answer approvals as %s.", user, team, member),
				Details: map[string]any{"team": team, "user": user, "member": member}, Rule: dualcontrol.Rule{Owner: true},
			},
			Make: func(ctx context.Context) (any, error) { return c.Users.Map(ctx, by, team, user, member) },
		}, nil
	})
}
