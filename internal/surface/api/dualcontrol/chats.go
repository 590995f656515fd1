package dualcontrol

import (
	"context"
	"fmt"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
	"palyra/internal/surface/api/things"
	"palyra/internal/surface/notify"
)

// ChatUsers are the users of chats: who may vote as whom takes a second person.
type ChatUsers struct {
	things.Users
	Gate *dualcontrol.Gate
}

// Map says which member a user is.
func (c ChatUsers) Map(ctx context.Context, by access.Caller, team, user string, member access.Principal) (notify.ChatUser, error) {
	return change[notify.ChatUser](ctx, c.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		changes, err := c.CheckMap(team, user, member)
		if err != nil {
			return nil, err
		}
		return &dualcontrol.Plan{
			Kind: dualcontrol.MapChatUser, Needs: access.PermNotifyWrite, Nothing: !changes,
			Question: dualcontrol.Question{
				ID: "chat_user:" + team + "/" + user, Title: fmt.Sprintf("Let a user of Slack vote as %s", member),
				Summary: fmt.Sprintf("Let the user %s of the Slack workspace %s answer approvals as %s.", user, team, member),
				Details: map[string]any{"team": team, "user": user, "member": member}, Rule: dualcontrol.Rule{Owner: true},
			},
			Make: func(ctx context.Context) (any, error) { return c.Users.Map(ctx, by, team, user, member) },
		}, nil
	})
}
