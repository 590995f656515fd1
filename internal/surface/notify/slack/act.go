package slack

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"strings"

	"github.com/oklog/ulid/v2"

	"palyra/internal/call/approval"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/surface/notify"
)

// act is an action of a user.
type act struct {
	Type string `json:"type"`
	User struct {
		ID     string `json:"id"`
		TeamID string `json:"team_id"`
	} `json:"user"`
	Team struct {
		ID string `json:"id"`
	} `json:"team"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
	TriggerID string `json:"trigger_id"`
	Actions   []struct {
		ActionID string `json:"action_id"`
		Value    string `json:"value"`
	} `json:"actions"`
	View struct {
		CallbackID      string `json:"callback_id"`
		PrivateMetadata string `json:"private_metadata"`
		State           struct {
			Values map[string]map[string]struct {
				Value string `json:"value"`
			} `json:"values"`
		} `json:"state"`
	} `json:"view"`
}

// handleAction performs the action of a user, or sends the user the reason why it cannot.
func (s *Channel) handleAction(ctx context.Context, team string, payload json.RawMessage) {
	var a act
	if canonical.Read(payload, &a) != nil {
		return
	}
	switch {
	case a.Type == "block_actions" && len(a.Actions) == 1 && a.Actions[0].ActionID == actionAllow:
		s.vote(ctx, team, a, a.Channel.ID, a.Actions[0].Value, true, "")
	case a.Type == "block_actions" && len(a.Actions) == 1 && a.Actions[0].ActionID == actionDeny:
		s.askWhy(ctx, team, a)
	case a.Type == "view_submission" && a.View.CallbackID == viewDeny:
		i := strings.LastIndex(a.View.PrivateMetadata, "/")
		if i < 0 {
			return
		}
		value, channel := a.View.PrivateMetadata[:i], a.View.PrivateMetadata[i+1:]
		s.vote(ctx, team, a, channel, value, false, strings.TrimSpace(a.View.State.Values[inputReason][inputReason].Value))
	}
}

// member refuses users who are not full members of the workspace, such as guests. It queries Slack
// for every action, so that a change of the user takes effect immediately.
func (s *Channel) member(ctx context.Context, team string, a act) error {
	stranger := func(what string) error {
		return reason.Errorf(reason.PermissionDenied, "%s cannot answer here", what).WithRemedy("Open its link.")
	}
	if a.Team.ID != team || a.User.TeamID != "" && a.User.TeamID != team {
		return stranger("a user of another workspace")
	}
	var got struct {
		User struct {
			ID              string `json:"id"`
			TeamID          string `json:"team_id"`
			Deleted         bool   `json:"deleted"`
			Bot             bool   `json:"is_bot"`
			AppUser         bool   `json:"is_app_user"`
			Restricted      bool   `json:"is_restricted"`
			UltraRestricted bool   `json:"is_ultra_restricted"`
			Stranger        bool   `json:"is_stranger"`
		} `json:"user"`
	}
	if err := s.get(ctx, "users.info", url.Values{"user": {a.User.ID}}, &got); err != nil {
		return reason.Errorf(reason.NotConnected, "looking up your Slack user: %w", err)
	}
	switch u := got.User; {
	case u.ID != a.User.ID || u.TeamID != team || u.Stranger:
		return stranger("a user of another workspace")
	case u.Restricted || u.UltraRestricted:
		return stranger("a guest")
	case u.Deleted || u.Bot || u.AppUser:
		return stranger("a user who is not a member of this workspace")
	}
	return nil
}

func (s *Channel) vote(ctx context.Context, team string, a act, channel, value string, allow bool, why string) {
	id, digest, ok := parseValue(value)
	if !ok {
		return
	}
	err := s.member(ctx, team, a)
	var r approval.Record
	if err == nil {
		r, err = s.use.Voter.Vote(ctx, notify.ChatVote{Team: team, User: a.User.ID, Approval: id, Digest: digest, Allow: allow, Reason: why})
	}
	switch {
	case err != nil:
		s.sendEphemeral(ctx, channel, a.User.ID, refusal(err))
	case r.State == approval.Pending:
		s.sendEphemeral(ctx, channel, a.User.ID, "Your vote was recorded. Still needed: "+r.Missing)
	}
}

// askWhy opens the dialog for the reason of a denial.
func (s *Channel) askWhy(ctx context.Context, team string, a act) {
	if err := s.member(ctx, team, a); err != nil {
		s.sendEphemeral(ctx, a.Channel.ID, a.User.ID, refusal(err))
		return
	}
	if _, err := s.use.Voter.Caller(team, a.User.ID); err != nil {
		s.sendEphemeral(ctx, a.Channel.ID, a.User.ID, refusal(err))
		return
	}
	body := struct {
		TriggerID string `json:"trigger_id"`
		View      view   `json:"view"`
	}{a.TriggerID, reasonView(a.Actions[0].Value, a.Channel.ID)}
	if err := s.call(ctx, "views.open", s.use.BotToken, ulid.Make().String(), body, nil); err != nil {
		s.use.Log.WarnContext(ctx, "the dialog for the reason of a denial could not be opened in Slack", slog.Any("error", err))
	}
}

// refusal returns the message for an error, with the next step.
func refusal(err error) string {
	var known *reason.Error
	if !errors.As(err, &known) {
		return "The answer failed. Open the link of the message."
	}
	return known.Message + ". " + known.NextStep()
}

// sendEphemeral sends a message that only one user sees.
func (s *Channel) sendEphemeral(ctx context.Context, channel, user, text string) {
	body := struct {
		Channel string `json:"channel"`
		User    string `json:"user"`
		Text    string `json:"text"`
		Parse   string `json:"parse"`
	}{channel, user, escape(text), "none"}
	if err := s.call(ctx, "chat.postEphemeral", s.use.BotToken, ulid.Make().String(), body, nil); err != nil {
		s.use.Log.WarnContext(ctx, "a user in Slack could not be notified that their answer was refused", slog.Any("error", err))
	}
}
