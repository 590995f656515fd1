package dualcontrol

import (
	"context"
	"fmt"

	"palyra/internal/access"
	"palyra/internal/gatewaychange"
	"palyra/internal/notify"
	"palyra/internal/rpc/notices"
)

// ChatUsers are the users of chats: who may vote as whom takes a second person.
type ChatUsers struct {
	notices.Users
	Gate *gatewaychange.Gate
}

// Map says which member a user is.
func (c ChatUsers) Map(ctx context.Context, by access.Caller, team, user string, member access.Principal) (notify.ChatUser, error) {
	return change[notify.ChatUser](ctx, c.Gate, by, func(context.Context) (*gatewaychange.Plan, error) {
		changes, err := c.CheckMap(team, user, member)
		if err != nil {
			return nil, err
		}
		return &gatewaychange.Plan{
			Kind: gatewaychange.MapChatUser, Needs: access.PermNotifyWrite, Nothing: !changes,
			Question: gatewaychange.Question{
				ID: "chat_user:" + team + "/" + user, Title: fmt.Sprintf("Let a user of Slack vote as %s", member),
				Summary: fmt.Sprintf("Let the user %s of the Slack workspace %s answer approvals as %s.", user, team, member),
				Details: map[string]any{"team": team, "user": user, "member": member}, Rule: gatewaychange.Rule{Owner: true},
			},
			Make: func(ctx context.Context) (any, error) { return c.Users.Map(ctx, by, team, user, member) },
		}, nil
	})
}
