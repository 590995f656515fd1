package things

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/access"
	"palyra/internal/core/page"
	"palyra/internal/core/reason"
	"palyra/internal/surface/notify"
)

// Users maps chat users to members. It is implemented by notify.Users.
type Users interface {
	List() []notify.ChatUser
	CheckMap(team, user string, member access.Principal) (changes bool, err error)
	Map(ctx context.Context, by access.Caller, team, user string, member access.Principal) (notify.ChatUser, error)
	Consent(ctx context.Context, by access.Caller, team, user string, withdraw bool) (notify.ChatUser, error)
	Waiting(member access.Principal) []notify.ChatUser
	Unmap(ctx context.Context, by access.Caller, team, user string) (notify.ChatUser, error)
}

// NotifyService implements the NotifyService of the API. All fields are required.
type NotifyService struct {
	Notify *notify.Service
	Users  Users
	// Caller returns the caller of a request.
	Caller func(context.Context) access.Caller
}

// ListNotifyTargets returns all targets.
func (s *NotifyService) ListNotifyTargets(ctx context.Context, _ *palyrav1.ListNotifyTargetsRequest) (*palyrav1.ListNotifyTargetsResponse, error) {
	list, err := s.Notify.Targets(ctx)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListNotifyTargetsResponse{}
	for _, t := range list {
		m := &palyrav1.NotifyTarget{
			Name: t.Name, Type: t.Type, Where: t.Where, MinSeverity: t.MinSeverity, Include: string(t.Include),
			Queued: int32(t.Queued), Problem: t.Problem, Connection: t.Connection,
		}
		for _, k := range t.Events {
			m.Events = append(m.Events, string(k))
		}
		res.Targets = append(res.Targets, m)
	}
	return res, nil
}

// TestNotify sends a notice to one target.
func (s *NotifyService) TestNotify(ctx context.Context, req *palyrav1.TestNotifyRequest) (*palyrav1.TestNotifyResponse, error) {
	d, err := s.Notify.Test(ctx, req.GetTarget())
	if err != nil {
		return nil, err
	}
	return &palyrav1.TestNotifyResponse{Delivery: deliveryMessage(d)}, nil
}

// ListDeliveries returns one page, newest first.
func (s *NotifyService) ListDeliveries(ctx context.Context, req *palyrav1.ListDeliveriesRequest) (*palyrav1.ListDeliveriesResponse, error) {
	p, err := page.Parse(int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	f := notify.Filter{Target: req.GetTarget(), Size: p.Size, Before: p.Before}
	for _, state := range req.GetStates() {
		f.States = append(f.States, notify.State(state))
	}
	list, err := s.Notify.Deliveries(ctx, f)
	if err != nil {
		return nil, err
	}
	res := &palyrav1.ListDeliveriesResponse{}
	for _, d := range list {
		res.Deliveries = append(res.Deliveries, deliveryMessage(d))
	}
	if len(list) > 0 {
		res.NextPageToken = p.Next(len(list), list[len(list)-1].Position)
	}
	return res, nil
}

func deliveryMessage(d notify.Delivery) *palyrav1.Delivery {
	m := &palyrav1.Delivery{
		DeliveryId: d.ID, Target: d.Target, Notice: string(d.Kind), Severity: d.Severity, Event: d.Seq, ApprovalId: d.Approval,
		State: string(d.State), Attempts: int32(d.Attempts), QueuedAt: timestamppb.New(d.QueuedAt), Problem: d.Problem,
	}
	if d.State == notify.Queued {
		m.NextAt = timestamppb.New(d.NextAt)
	}
	if !d.EndedAt.IsZero() {
		m.EndedAt = timestamppb.New(d.EndedAt)
	}
	return m
}

// ListChatUsers returns the mapped chat users.
func (s *NotifyService) ListChatUsers(context.Context, *palyrav1.ListChatUsersRequest) (*palyrav1.ListChatUsersResponse, error) {
	res := &palyrav1.ListChatUsersResponse{}
	for _, u := range s.Users.List() {
		res.Users = append(res.Users, userMessage(u))
	}
	return res, nil
}

// MapChatUser maps a chat user to a member.
func (s *NotifyService) MapChatUser(ctx context.Context, req *palyrav1.MapChatUserRequest) (*palyrav1.MapChatUserResponse, error) {
	member, err := access.ParsePrincipal(req.GetMember())
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "%w", err)
	}
	u, err := s.Users.Map(ctx, s.Caller(ctx), req.GetTeam(), req.GetUser(), member)
	if err != nil {
		return nil, err
	}
	return &palyrav1.MapChatUserResponse{User: userMessage(u)}, nil
}

// ConsentToChatUser gives or withdraws the caller's consent to the votes of a chat user.
func (s *NotifyService) ConsentToChatUser(ctx context.Context, req *palyrav1.ConsentToChatUserRequest) (*palyrav1.ConsentToChatUserResponse, error) {
	u, err := s.Users.Consent(ctx, s.Caller(ctx), req.GetTeam(), req.GetUser(), req.GetWithdraw())
	if err != nil {
		return nil, err
	}
	return &palyrav1.ConsentToChatUserResponse{User: userMessage(u)}, nil
}

// UnmapChatUser removes the mapping of a chat user.
func (s *NotifyService) UnmapChatUser(ctx context.Context, req *palyrav1.UnmapChatUserRequest) (*palyrav1.UnmapChatUserResponse, error) {
	u, err := s.Users.Unmap(ctx, s.Caller(ctx), req.GetTeam(), req.GetUser())
	if err != nil {
		return nil, err
	}
	return &palyrav1.UnmapChatUserResponse{User: userMessage(u)}, nil
}

func userMessage(u notify.ChatUser) *palyrav1.ChatUser {
	m := &palyrav1.ChatUser{
		MappingId: u.ID, Team: u.Team, User: u.User, Member: u.Member.String(), MappedBy: u.By.String(), MappedAt: timestamppb.New(u.At),
	}
	if u.Votes() {
		m.ConsentedAt = timestamppb.New(u.ConsentedAt)
	}
	return m
}
