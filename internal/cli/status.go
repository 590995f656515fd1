package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Show how the gateway is, and who you are to it", Args: args(0, 0),
		Long: "Show how the gateway is, and who you are to it. Exits 1 when the gateway is\nreachable but not ready.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.showStatus(cmd.Context()) }}
}

func (a *app) showStatus(ctx context.Context) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	s, err := g.status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
	if err != nil {
		return err
	}
	err = a.printOne("Status", record{name: s.GetGatewayId(), body: protoObject(s)}, func(p *page) { a.statusPage(p, g.address, s) })
	if err == nil && !s.GetReady() {
		return exitError{1}
	}
	return err
}

func (a *app) statusPage(p *page, address string, s *palyrav1.GetStatusResponse) {
	p.field("gateway", fmt.Sprintf("palyrad %s at %s", s.GetVersion(), address))
	p.field("id", s.GetGatewayId())
	p.field("state", readiness(s))
	p.list("problem", s.GetProblems())
	if f := s.GetFreeze(); f.GetFrozen() {
		p.field("frozen", fmt.Sprintf("by %s %s: %s", f.GetBy(), a.relative(f.GetAt()), orNone(f.GetReason())))
	}
	p.field("started", a.moment(s.GetStartedAt()))
	p.field("policy", s.GetPolicyVersion())
	p.field("snapshot", s.GetSnapshotDigest())
	p.field("journal", fmt.Sprintf("%s, last checkpoint over %d", plural(int(s.GetJournalSize()), "event"), s.GetLastCheckpointSize()))
	p.field("waiting", plural(int(s.GetPendingApprovals()), "approval"))
	p.field("grants", fmt.Sprintf("%d live", s.GetLiveGrants()))
	p.field("in flight", plural(int(s.GetCallsInFlight()), "call"))
	p.field("runs", fmt.Sprintf("%d active", s.GetActiveRuns()))
	p.list("workspaces", workspaceLines(s.GetWorkspaces()))
	p.list("models", modelLines(s.GetModels()))
	sandboxFields(p, s.GetSandbox())
	p.field("you", callerLine(s.GetCaller()))
	if c := s.GetCaller(); c != nil {
		p.field("certificate", "ends "+a.moment(c.GetCertificateExpiresAt()))
	}
	p.list("notice", s.GetNotices())
}

func readiness(s *palyrav1.GetStatusResponse) string {
	switch {
	case s.GetFreeze().GetFrozen():
		return "frozen"
	case s.GetReady():
		return "ready"
	}
	return "not ready"
}

func workspaceLines(workspaces []*palyrav1.WorkspaceStatus) []string {
	var lines []string
	for _, w := range workspaces {
		line := w.GetName() + "  " + w.GetPath()
		if w.GetReadOnly() {
			line += "  (read-only)"
		} else if w.GetMode() != "" {
			line += "  (" + strings.ReplaceAll(w.GetMode(), "_", "-") + ")"
		}
		lines = append(lines, line)
	}
	return lines
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

func sandboxFields(p *page, s *palyrav1.SandboxStatus) {
	if s == nil {
		return
	}
	if !s.GetAvailable() {
		p.field("sandbox", "unavailable: "+s.GetProblem())
		p.field("", s.GetRemedy())
		return
	}
	p.field("sandbox", sandboxLine(s))
	p.field("layers", strings.Join(s.GetLayers(), ", "))
	if missing := s.GetMissingLayers(); len(missing) > 0 {
		p.field("not in force", strings.Join(missing, ", "))
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
	line := c.GetPrincipal()
	if owner := c.GetOnBehalfOf(); owner != "" && owner != c.GetPrincipal() {
		line += " on behalf of " + owner
	}
	return fmt.Sprintf("%s (%s), device %s", line, strings.Join(c.GetRoles(), ", "), c.GetDeviceId())
}

func orNone(s string) string {
	if s == "" {
		return "no reason given"
	}
	return s
}
