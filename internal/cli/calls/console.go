package calls

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/browser"
	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// answer is a vote that prefills the console's page of an approval.
type answer struct {
	Approval string `json:"approval"`
	Digest   string `json:"digest"`
	Allow    bool   `json:"allow"`
	Scope    int32  `json:"scope,omitempty"`
	Match    int32  `json:"match,omitempty"`
	// TTLMS is the duration in milliseconds.
	TTLMS  int64  `json:"ttl_ms,omitempty"`
	Uses   int64  `json:"uses,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// hasPasskey reports whether the caller has a passkey that the console accepts.
func hasPasskey(ctx context.Context, g *client.Gateway) bool {
	reply, err := g.Presence.ListPasskeys(ctx, &palyrav1.ListPasskeysRequest{})
	return err == nil && slices.ContainsFunc(reply.GetPasskeys(), func(p *palyrav1.Passkey) bool { return !p.GetWaits() && !p.GetLost() })
}

// castInConsole lets the user vote in the console with a passkey: it opens the page of the
// approval, prefilled, and waits for the result.
func (a *answerCommands) castInConsole(ctx context.Context, g *client.Gateway, vote *palyrav1.DecideApprovalRequest, noBrowser bool) error {
	link, err := g.Console.CreateConsoleLogin(ctx, &palyrav1.CreateConsoleLoginRequest{})
	if err != nil {
		return err
	}
	text, err := json.Marshal(answer{
		Approval: vote.GetApprovalId(), Digest: vote.GetShownDigest(), Allow: vote.GetAllow(), Scope: int32(vote.GetScope()), Match: int32(vote.GetMatch()),
		TTLMS: vote.GetTtl().AsDuration().Milliseconds(), Uses: vote.GetUses(), Reason: vote.GetReason(),
	})
	if err != nil {
		return err
	}
	address := link.GetUrl() + "&" + url.Values{"to": {"/approvals/" + vote.GetApprovalId()}, "answer": {string(text)}}.Encode()
	if !noBrowser {
		page, err := browser.Write(browser.Dir(a.App), address)
		if err != nil {
			return err
		}
		defer page.Remove()
		if err := page.Open(ctx); err != nil {
			a.Say("starting a browser failed: %v", err)
			noBrowser = true
		}
	}
	if noBrowser {
		a.Say("opening this link logs in as you; it is valid once, until %s", a.Moment(link.GetExpiresAt()))
		a.Say("%s", address)
	} else {
		a.Say("opening the approval in a browser: answer it there, with your passkey ... (if none appears: --no-browser)")
	}
	in, err := browser.Await(ctx, a.App, g, link)
	if err != nil {
		return err
	}
	return a.awaitAnswer(ctx, g, vote, in.GetPrincipal())
}

// awaitAnswer waits until the member has voted or voting has ended, and prints the result.
func (a *answerCommands) awaitAnswer(ctx context.Context, g *client.Gateway, vote *palyrav1.DecideApprovalRequest, member string) error {
	tick := time.NewTicker(browser.LookInterval)
	defer tick.Stop()
	for {
		reply, err := g.Approvals.GetApproval(ctx, &palyrav1.GetApprovalRequest{ApprovalId: vote.GetApprovalId()})
		if err != nil {
			return err
		}
		now := reply.GetApproval()
		for _, v := range now.GetVotes() {
			// An earlier approval without a proof must be repeated.
			if v.GetUser() != member || !v.GetPresent() && now.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
				continue
			}
			if v.GetAllow() != vote.GetAllow() {
				a.Say("you gave a different answer in the console")
			}
			return a.printAnswered(now)
		}
		if now.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
			return reason.Errorf(reason.ApprovalConflict, "approval %s is already %s, by another user", now.GetApprovalId(), printer.Enum(now.GetState()))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
