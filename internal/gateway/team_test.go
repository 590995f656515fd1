package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/surface/api"
)

// team is a gateway with four members: the owners local and bob, the admin cyd, and the
// operator dan. The host confirmed all of them, so that they count as four people.
type team struct {
	*running
	dirs map[string]string
}

func newTeam(t *testing.T, cfg *config.Config) *team {
	t.Helper()
	// bob reads the whole state before and after each of dozens of changes.
	cfg.RateLimits.Read.Burst = 100_000
	d := &team{running: start(t, cfg), dirs: map[string]string{}}
	for name, role := range map[string]access.Role{"bob": access.RoleOwner, "cyd": access.RoleAdmin, "dan": access.RoleOperator} {
		d.dirs[name] = filepath.Join(t.TempDir(), name)
		must.Get(AddOperator(t.Context(), cfg, NewOperator{Name: name, Roles: []access.Role{role}, Dir: d.dirs[name], AcceptLoss: true}))(t)
	}
	d.end()
	must.Get(ConfirmMembers(t.Context(), cfg, nil))(t)
	d.again()
	return d
}

// again restarts the gateway.
func (d *team) again() {
	d.t.Helper()
	d.running = start(d.t, d.cfg)
	d.dirs["local"] = d.Credentials
}

// person is a member with clients of each service on the member's own device.
type person struct {
	*team
	name      string
	access    palyrav1connect.AccessServiceClient
	identity  palyrav1connect.IdentityServiceClient
	policy    palyrav1connect.PolicyServiceClient
	status    palyrav1connect.StatusServiceClient
	approvals palyrav1connect.ApprovalsServiceClient
	journal   palyrav1connect.JournalServiceClient
	review    palyrav1connect.AccessReviewServiceClient
	mcp       palyrav1connect.McpServiceClient
	notices   palyrav1connect.NotifyServiceClient
	skills    palyrav1connect.SkillServiceClient
}

func (d *team) as(name string) person {
	d.t.Helper()
	return d.with(name, dialAs(d.t, d.dirs[name]))
}

func (d *team) with(name string, c *http.Client) person {
	url := d.url()
	return person{
		d, name, palyrav1connect.NewAccessServiceClient(c, url), palyrav1connect.NewIdentityServiceClient(c, url), palyrav1connect.NewPolicyServiceClient(c, url),
		palyrav1connect.NewStatusServiceClient(c, url), palyrav1connect.NewApprovalsServiceClient(c, url), palyrav1connect.NewJournalServiceClient(c, url),
		palyrav1connect.NewAccessReviewServiceClient(c, url), palyrav1connect.NewMcpServiceClient(c, url), palyrav1connect.NewNotifyServiceClient(c, url),
		palyrav1connect.NewSkillServiceClient(c, url),
	}
}

// waiting is a change that waits for an approval.
type waiting struct {
	person
	question *palyrav1.Approval
	leave    context.CancelFunc
	done     chan error
}

// ask starts a change as a member, and returns when the receiver sees the approval request.
func (p person) ask(by string, change func(context.Context, person) error) *waiting {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	p.t.Cleanup(cancel)
	watch, stop := context.WithCancel(p.t.Context())
	defer stop()
	seen := must.Get(p.approvals.WatchApprovals(watch, &palyrav1.WatchApprovalsRequest{}))(p.t)
	defer func() { _ = seen.Close() }()
	w := &waiting{person: p, leave: cancel, done: make(chan error, 1)}
	asker := p.team.as(by)
	go func() {
		w.done <- change(ctx, asker)
		stop()
	}()
	for seen.Receive() {
		v := seen.Msg().GetApproval()
		if v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING && v.GetRequestedBy() == "user:"+by {
			w.question = v
			return w
		}
	}
	p.t.Fatalf("nobody was asked: %v, %v", <-w.done, seen.Err())
	return nil
}

func (p person) vote(v *palyrav1.Approval, allow bool) error {
	_, err := p.approvals.DecideApproval(p.t.Context(), &palyrav1.DecideApprovalRequest{
		ApprovalId: v.GetApprovalId(), Allow: allow, Reason: "because", ShownDigest: v.GetCallDigest(),
	})
	return api.ReasonOf(err)
}

// withdraw ends the requester's wait and cancels the approval, which would otherwise stay
// pending without a caller.
func (w *waiting) withdraw() {
	w.t.Helper()
	seen := must.Get(w.approvals.WatchApprovals(w.t.Context(), &palyrav1.WatchApprovalsRequest{}))(w.t)
	defer func() { _ = seen.Close() }()
	if !seen.Receive() { // the message that opens the stream
		w.t.Fatal(seen.Err())
	}
	w.leave()
	if err := <-w.done; err == nil {
		w.t.Errorf("%s: done for somebody who left", w.question.GetSubjectId())
	}
	id := w.question.GetApprovalId()
	if v := must.Get(w.approvals.GetApproval(w.t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: id}))(w.t).GetApproval(); v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		w.t.Errorf("%s is %s once its caller left", w.question.GetSubjectId(), v.GetState())
	}
	asker := w.team.as(strings.TrimPrefix(w.question.GetRequestedBy(), "user:"))
	must.Get(asker.approvals.CancelApproval(w.t.Context(), &palyrav1.CancelApprovalRequest{ApprovalId: id}))(w.t)
	for seen.Receive() {
		v := seen.Msg().GetApproval()
		if v.GetApprovalId() == w.question.GetApprovalId() && v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
			if v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_CANCELLED {
				w.t.Errorf("%s is %s", w.question.GetSubjectId(), v.GetState())
			}
			return
		}
	}
	w.t.Fatalf("the question was not withdrawn: %v", seen.Err())
}

// state returns everything that the changes of the table can change.
func (d *team) state() string {
	d.t.Helper()
	p := d.as("bob")
	var text []string
	add := func(m any, err error) {
		must.Do(d.t, err)
		text = append(text, string(must.Get(json.Marshal(m))(d.t)))
	}
	members, err := p.access.ListMembers(d.t.Context(), &palyrav1.ListMembersRequest{Removed: true})
	add(members, err)
	devices, err := p.identity.ListDevices(d.t.Context(), &palyrav1.ListDevicesRequest{})
	add(devices, err)
	ceilings, err := p.review.ListCeilings(d.t.Context(), &palyrav1.ListCeilingsRequest{})
	add(ceilings, err)
	servers, err := p.mcp.ListUpstreams(d.t.Context(), &palyrav1.ListUpstreamsRequest{})
	add(servers, err)
	chats, err := p.notices.ListChatUsers(d.t.Context(), &palyrav1.ListChatUsersRequest{})
	add(chats, err)
	skills, err := p.skills.ListSkills(d.t.Context(), &palyrav1.ListSkillsRequest{})
	add(skills, err)
	publishers, err := p.skills.ListPublishers(d.t.Context(), &palyrav1.ListPublishersRequest{})
	add(publishers, err)
	st := must.Get(p.status.GetStatus(d.t.Context(), &palyrav1.GetStatusRequest{}))(d.t)
	in := must.Get(p.policy.GetPolicy(d.t.Context(), &palyrav1.GetPolicyRequest{}))(d.t)
	return strings.Join(append(text, st.GetFreeze().String(), in.GetVersion(), protojson.Format(&palyrav1.GetPolicyResponse{Activated: in.GetActivated()})), "\n")
}

func (p person) events(code event.Code) []*palyrav1.Event {
	p.t.Helper()
	return must.Get(p.journal.ListEvents(p.t.Context(), &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Code: string(code)}}))(p.t).GetEvents()
}
