package clitest

import (
	"time"

	palyrav1 "palyra/gen/palyra/v1"
)

func delivery(id, target, kind, state string) *palyrav1.Delivery {
	return &palyrav1.Delivery{
		DeliveryId: id, Target: target, Notice: kind, Severity: "medium", Event: 12, ApprovalId: "01APPR0VA10000000000000000", State: state, Attempts: 1, QueuedAt: now,
	}
}

func serveNotices(f *Gateway) {
	waiting, sent := delivery("01DE11VERY0000000000000002", "ops", "approval_asked", "queued"), delivery("01DE11VERY0000000000000001", "team", "frozen", "delivered")
	waiting.NextAt, waiting.Problem = ago(-time.Minute), "the endpoint answers 503"
	sent.EndedAt, sent.ApprovalId = now, ""
	user := &palyrav1.ChatUser{MappingId: "01MAPP1NG00000000000000000", Team: "T012AB3CD", User: "U012AB3CD", Member: "user:ada", MappedBy: "user:ada", MappedAt: now}
	f.reply(
		&palyrav1.ListNotifyTargetsResponse{Targets: []*palyrav1.NotifyTarget{
			{Name: "ops", Type: "webhook", Where: "hooks.example.org:443", Events: []string{"approval_asked", "frozen"}, MinSeverity: "low", Include: "none", Queued: 2, Problem: "the endpoint answers 503"},
			{Name: "team", Type: "slack", Where: "channel C012AB3CD", MinSeverity: "medium", Include: "full", Connection: "connected"},
		}},
		&palyrav1.ListDeliveriesResponse{Deliveries: []*palyrav1.Delivery{waiting, sent}},
		&palyrav1.ListChatUsersResponse{Users: []*palyrav1.ChatUser{user}},
		&palyrav1.MapChatUserResponse{User: user},
		&palyrav1.ConsentToChatUserResponse{User: user},
		&palyrav1.UnmapChatUserResponse{User: user},
	)
	on(f, func(req *palyrav1.TestNotifyRequest) (*palyrav1.TestNotifyResponse, error) {
		d := delivery("01DE11VERY0000000000000003", req.GetTarget(), "test", "delivered")
		d.Event, d.ApprovalId, d.EndedAt = 0, "", now
		switch req.GetTarget() {
		case "ops":
		case "team":
			d.State, d.Problem = "failed", "chat.postMessage: Slack says \"channel_not_found\""
		default:
			return nil, notFound("there is no notification target")
		}
		return &palyrav1.TestNotifyResponse{Delivery: d}, nil
	})
	edit(f, func(req *palyrav1.ConsentToChatUserRequest, res *palyrav1.ConsentToChatUserResponse) {
		if !req.GetWithdraw() {
			res.User.ConsentedAt = now
		}
	})
}
