// Package people has the commands for the gateway itself and its members: status, freeze and thaw,
// configuration, members and devices, keys, logins, pairing, tokens, the console, contexts, and
// access reviews.
package people

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/witness"
	"palyra/internal/core/text"
)

// statusCommands provides the commands of this family.
type statusCommands struct{ *client.App }

// StatusCommand is `palyra status`.
func StatusCommand(program *client.App) *cobra.Command {
	a := &statusCommands{program}
	return &cobra.Command{Use: "status", Short: "Show the status of the gateway, and your identity", Args: command.Args(0, 0),
		Long: "Show the status of the gateway, and your identity. Exits 1 if the gateway is\nreachable but not ready, and 8 if its journal does not extend the one seen\n" +
			"before: it was rolled back or restored, or two copies of the gateway run.",
		RunE: a.Connected(a.showStatus)}
}

func (a *statusCommands) showStatus(ctx context.Context, g *client.Gateway, _ []string) error {
	s, doubt, err := witness.Status(ctx, a.App, g)
	if err != nil {
		return err
	}
	err = a.PrintOne("Status", printer.Record{Name: s.GetGatewayId(), Body: printer.ProtoObject(s)}, func(p *printer.Page) { a.statusPage(p, g.Address, s) })
	switch {
	case err != nil:
		return err
	case doubt != nil:
		return doubt
	case !s.GetReady():
		return command.Exit(1)
	}
	return nil
}

func (a *statusCommands) statusPage(p *printer.Page, address string, s *palyrav1.GetStatusResponse) {
	p.Field("gateway", fmt.Sprintf("palyrad %s at %s", s.GetVersion(), address))
	p.Field("id", s.GetGatewayId())
	p.Field("state", readiness(s))
	p.List("problem", s.GetProblems())
	p.List("degraded", s.GetDegraded())
	if f := s.GetFreeze(); f.GetFrozen() {
		p.Field("frozen", fmt.Sprintf("by %s %s: %s", f.GetBy(), a.Relative(f.GetAt()), cmp.Or(f.GetReason(), "no reason given")))
	}
	p.Field("started", a.Moment(s.GetStartedAt()))
	p.Field("policy", s.GetPolicyVersion())
	if d := s.GetPolicyDirectory(); d != nil {
		p.Wrapped("policies", client.PolicyDirectory(d))
	}
	p.Field("snapshot", s.GetSnapshotDigest())
	p.Field("journal", fmt.Sprintf("%s, last checkpoint over %d", text.Plural(int(s.GetJournalSize()), "event"), s.GetLastCheckpointSize()))
	p.Field("waiting", text.Plural(int(s.GetPendingApprovals()), "approval"))
	p.Field("grants", fmt.Sprintf("%d live", s.GetLiveGrants()))
	p.Field("in flight", text.Plural(int(s.GetCallsInFlight()), "call"))
	p.Field("runs", fmt.Sprintf("%d active", s.GetActiveRuns()))
	p.List("workspaces", workspaceLines(s.GetWorkspaces()))
	p.List("models", modelLines(s.GetModels()))
	p.List("keys", keyLines(s.GetKeys()))
	if v := s.GetVault(); v != nil {
		p.Wrapped("vault", vaultLine(v))
	}
	sandboxFields(p, s.GetSandbox())
	p.Field("you", callerLine(s.GetCaller()))
	if c := s.GetCaller(); c != nil {
		if end := c.GetCertificateExpiresAt(); end != nil { // the socket has none
			p.Field("certificate", "ends "+a.Moment(end))
		}
	}
	p.List("notice", s.GetNotices())
}

func readiness(s *palyrav1.GetStatusResponse) string {
	switch {
	case s.GetFreeze().GetFrozen():
		return "frozen"
	case s.GetReady() && len(s.GetDegraded()) > 0:
		return "degraded"
	case s.GetReady():
		return "ready"
	}
	return "not ready"
}

func workspaceLines(workspaces []*palyrav1.WorkspaceStatus) []string {
	var lines []string
	for _, w := range workspaces {
		line := w.GetName()
		if path := w.GetPath(); path != "" { // not returned to agents
			line += "  " + path
		}
		if w.GetReadOnly() {
			line += "  (read-only)"
		} else if w.GetMode() != "" {
			line += "  (" + strings.ReplaceAll(w.GetMode(), "_", "-") + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func keyLines(keys []*palyrav1.KeyPlace) []string {
	var lines []string
	for _, k := range keys {
		lines = append(lines, fmt.Sprintf("%s  %s  %s", k.GetKey(), k.GetPlace(), k.GetDetail()))
	}
	return lines
}

func vaultLine(v *palyrav1.VaultStatus) string {
	if v.GetLocked() {
		return v.GetSummary() + "; " + v.GetRemedy()
	}
	return strings.TrimSpace(v.GetSummary() + "  " + v.GetKeyId())
}

func modelLines(models []*palyrav1.ModelStatus) []string {
	var lines []string
	for _, m := range models {
		line := m.GetName() + "  " + strings.TrimSpace(m.GetProvider()+" "+m.GetModel())
		if !m.GetAvailable() {
			line += "  (unusable: " + m.GetProblem() + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func sandboxFields(p *printer.Page, s *palyrav1.SandboxStatus) {
	if s == nil {
		return
	}
	if !s.GetAvailable() {
		p.Field("sandbox", "unavailable: "+s.GetProblem())
		p.Field("", s.GetRemedy())
		return
	}
	p.Field("sandbox", sandboxLine(s))
	p.Field("layers", strings.Join(s.GetLayers(), ", "))
	if missing := s.GetMissingLayers(); len(missing) > 0 {
		p.Field("not in force", strings.Join(missing, ", "))
	}
}

func sandboxLine(s *palyrav1.SandboxStatus) string {
	line := s.GetBackend()
	if s.GetTier() != "" {
		line = fmt.Sprintf("Tier %s (%s) by %s", strings.ToUpper(s.GetTier()), s.GetRung(), line)
	}
	line += ", limits by " + s.GetLimitsBy()
	if n := s.GetPrepared(); n > 0 {
		line += fmt.Sprintf(", up to %d prepared", n)
	}
	return line
}

func callerLine(c *palyrav1.Identity) string {
	if c == nil {
		return ""
	}
	line := printer.OnBehalf(c.GetPrincipal(), c.GetOnBehalfOf())
	return fmt.Sprintf("%s (%s), device %s", line, strings.Join(c.GetRoles(), ", "), c.GetDeviceId())
}
