package people

import (
	"context"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

// shownActs is the default number of listed acts.
const shownActs = 50

// showDevice is `palyra devices show`.
func (a *deviceCommands) showDevice() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "show ID", Short: "Show a device and its approvals, runs and changes", Args: command.Args(1, 1),
		Long:              "Show a device: its key and certificate, who added it, when it was last used, and the approvals, runs and changes that were made with it, newest first, each with the command that reverts it.\n\nChanges of members, devices, tokens, policies and ceilings are listed only since the release that records their device; for older ones use `palyra journal list --actor`.",
		Example:           "palyra devices show 01J...",
		ValidArgsFunction: a.completeDevices(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			reply, err := g.Life.GetDevice(ctx, &palyrav1.GetDeviceRequest{DeviceId: given[0]})
			if err != nil {
				return err
			}
			return a.printDevice(ctx, g, reply, limit)
		})}
	c.Flags().IntVar(&limit, "limit", shownActs, "maximum number of listed acts; 0 means all")
	return c
}

// printDevice prints a device with its acts.
func (a *deviceCommands) printDevice(ctx context.Context, g *client.Gateway, reply *palyrav1.GetDeviceResponse, limit int) error {
	d := reply.GetDevice()
	acts, more, err := client.Collect(limit, actPages(ctx, g, d.GetDeviceId()))
	if err != nil {
		return err
	}
	done := []printer.Object{}
	for _, act := range acts {
		done = append(done, printer.ProtoObject(act))
	}
	body := append(printer.ProtoObject(reply), printer.Member{Name: "acts", Value: done}, printer.Member{Name: "more_acts", Value: more})
	return a.PrintOne("Device", printer.Record{Name: d.GetDeviceId(), Body: body}, func(p *printer.Page) {
		a.deviceFields(p, reply)
		p.Gap()
		if len(acts) == 0 {
			p.Line("nothing was approved, started or changed with it")
			return
		}
		p.Line("approved, started and changed with it, newest first:")
		for _, act := range acts {
			p.Item(printer.Clock(act.GetAt()) + "  " + act.GetSummary() + subjectOf(act))
			if act.GetUndo() != "" {
				p.Item("    revert: " + act.GetUndo())
			}
		}
		if more {
			p.Line("the list is truncated: palyra devices show " + d.GetDeviceId() + " --limit 0")
		}
	})
}

// subjectOf returns the subject of an act that the reverting command does not name.
func subjectOf(act *palyrav1.DeviceAct) string {
	if act.GetUndo() != "" || act.GetSubject() == "" {
		return ""
	}
	return " (" + act.GetSubject() + ")"
}

func actPages(ctx context.Context, g *client.Gateway, id string) client.Pages[*palyrav1.DeviceAct] {
	req := &palyrav1.ListDeviceActsRequest{DeviceId: id}
	return func(size int32) ([]*palyrav1.DeviceAct, bool, error) {
		req.PageSize = size
		reply, err := g.Life.ListDeviceActs(ctx, req)
		req.PageToken = reply.GetNextPageToken()
		return reply.GetActs(), req.GetPageToken() != "", err
	}
}

// deviceFields prints the details of a device.
func (a *deviceCommands) deviceFields(p *printer.Page, r *palyrav1.GetDeviceResponse) {
	d := r.GetDevice()
	p.Field("device", d.GetDeviceId())
	p.Field("of", d.GetPrincipal())
	p.Field("name", d.GetName())
	p.Field("added", a.Moment(d.GetCreatedAt())+" by "+r.GetAddedBy())
	if r.GetLastUsedAt() != nil {
		p.Field("last used", a.Moment(r.GetLastUsedAt()))
	}
	for _, k := range r.GetKeys() {
		p.Field("key", k.GetSha256()+a.keyState(k))
	}
	p.Field("presence", presenceOf(r.GetPresenceKey()))
	p.Field("certificate", "ends "+a.Moment(d.GetCertificateExpiresAt()))
	if d.GetRevokedAt() != nil {
		p.Field("revoked", a.Moment(d.GetRevokedAt()))
	}
	if r.GetOldKeyUsedAt() != nil {
		p.Field("alarm", "a replaced key of it was used "+a.Moment(r.GetOldKeyUsedAt()))
	}
}

func presenceOf(k *palyrav1.PresenceKey) string {
	switch {
	case k == nil:
		return "no presence key"
	case k.GetWaits():
		return k.GetSha256() + ", not confirmed"
	default:
		return k.GetSha256()
	}
}

func (a *deviceCommands) keyState(k *palyrav1.DeviceKey) string {
	switch {
	case k.GetEndsAt() != nil:
		return ", replaced: ends " + a.Relative(k.GetEndsAt())
	case k.GetUsedAt() == nil:
		return ", not used yet"
	default:
		return ""
	}
}
