package things

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
)

var skillListing = printer.Listing{
	Kind:    "Skill",
	Columns: []string{"SKILL", "VERSION", "STATUS", "CURRENT", "PUBLISHER", "TOOLS"},
	Wide:    []string{"KEY", "DIGEST", "INSTALLED", "BY"},
	Empty:   "no skills; `palyra skills install` installs one",
	Drop:    []string{"TOOLS"},
}

func skillRecord(s *palyrav1.Skill) printer.Record {
	return printer.Record{
		Name: s.GetSkill() + "@" + s.GetVersion(), Body: printer.ProtoObject(s),
		Cells: []string{s.GetSkill(), s.GetVersion(), printer.Enum(s.GetStatus()), printer.Yes(s.GetCurrent()), s.GetPublisher(), strconv.Itoa(len(s.GetManifest().GetTools()))},
		Wide:  []string{s.GetKeyId(), s.GetDigest(), printer.Clock(s.GetInstalledAt()), s.GetInstalledBy()},
	}
}

func (a *skillCommands) complete() cobra.CompletionFunc {
	return client.Suggest(a.App, skillsOf, func(s *palyrav1.Skill) (string, string) {
		return s.GetSkill() + "@" + s.GetVersion(), s.GetManifest().GetName()
	})
}

// named splits SKILL or SKILL@VERSION into the skill and the version.
func named(given string) (skill, version string) {
	skill, version, _ = strings.Cut(given, "@")
	return skill, version
}

func (a *skillCommands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the skills that are installed", Args: command.Args(0, 0), Example: "palyra skills list",
		RunE: client.ShowList(a.App, skillListing, skillRecord, skillsOf),
	}
}

func skillsOf(ctx context.Context, g *client.Gateway) ([]*palyrav1.Skill, error) {
	reply, err := g.Skills.ListSkills(ctx, &palyrav1.ListSkillsRequest{})
	return reply.GetSkills(), err
}

func (a *skillCommands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show SKILL[@VERSION]", Short: "Show a skill: its publisher, its tools, and their permissions", Args: command.Args(1, 1),
		Long: "Show a skill: its signer, its tools and their permissions, and why they cannot be\n" +
			"called if they cannot. The package is verified again. Without a version it is\n" +
			"the current one.",
		Example: "palyra skills show notebook\npalyra skills show notebook@1.2.0 -o json", ValidArgsFunction: a.complete(),
		RunE: client.ShowOne(a.App, "Skill", fullSkillRecord, a.fullPage, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.GetSkillResponse, error) {
			skill, version := named(given[0])
			return g.Skills.GetSkill(ctx, &palyrav1.GetSkillRequest{Skill: skill, Version: version})
		}),
	}
}

// fullSkillRecord converts a skill with its versions and findings.
func fullSkillRecord(r *palyrav1.GetSkillResponse) printer.Record {
	rec := skillRecord(r.GetSkill())
	rec.Body = printer.ProtoObject(r)
	return rec
}

func (a *skillCommands) fullPage(p *printer.Page, r *palyrav1.GetSkillResponse) {
	a.installedPage(p, r.GetSkill())
	p.Field("versions", strings.Join(r.GetVersions(), ", "))
	toolsPage(p, r.GetSkill().GetManifest())
	findingsPage(p, r.GetFindings())
	p.Field("problem", r.GetProblem())
	p.Field("next", r.GetRemedy())
}

// installedPage writes the details of a version other than its permissions.
func (a *skillCommands) installedPage(p *printer.Page, s *palyrav1.Skill) {
	m := s.GetManifest()
	p.Field("skill", s.GetSkill()+" "+s.GetVersion())
	p.Field("name", m.GetName())
	p.Wrapped("description", m.GetDescription())
	p.Field("status", printer.Enum(s.GetStatus()))
	p.Field("why", s.GetWhy())
	p.Field("current", printer.Yes(s.GetCurrent()))
	p.Field("publisher", s.GetPublisher())
	p.Field("signed by", s.GetKeyId())
	p.Field("digest", s.GetDigest())
	p.Field("license", m.GetLicense())
	p.Field("homepage", m.GetHomepage())
	p.Field("installed", a.Moment(s.GetInstalledAt())+" by "+s.GetInstalledBy())
	if s.GetChangedAt() != nil && !s.GetChangedAt().AsTime().Equal(s.GetInstalledAt().AsTime()) {
		p.Field("changed", a.Moment(s.GetChangedAt())+" by "+s.GetChangedBy())
	}
}

// toolsPage writes a skill's tools and their permissions.
func toolsPage(p *printer.Page, m *palyrav1.SkillManifest) {
	for _, t := range m.GetTools() {
		p.Field("tool", t.GetName())
		p.Wrapped("", t.GetDescription())
		p.Field("", fmt.Sprintf("risk %d, up to %d of fuel for a call", t.GetRisk(), t.GetFuel()))
		if len(t.GetFeatures()) > 0 {
			p.Field("", "uses "+strings.Join(t.GetFeatures(), ", "))
		}
		p.List("  asks for", asksFor(t.GetCapabilities()))
	}
	if q := m.GetQuotas(); q != nil {
		p.List("bounds itself", bounds(q))
	}
}

// asksFor describes the permissions of a tool.
func asksFor(c *palyrav1.SkillCapabilities) []string {
	var list []string
	for _, host := range c.GetHttp() {
		if host == "*" {
			host = "every host that the gateway's rules allow (*)"
		}
		list = append(list, "requests to "+host)
	}
	for _, s := range c.GetSecrets() {
		if s.GetUse() == "read" {
			list = append(list, "the secret "+s.GetName()+" by value; each call needs approval")
			continue
		}
		list = append(list, "the secret "+s.GetName()+" in its requests, without seeing it")
	}
	if n := c.GetStorageBytes(); n > 0 {
		list = append(list, fmt.Sprintf("storage of %d bytes for each user", n))
	}
	for _, name := range c.GetChannels() {
		list = append(list, "messages to the channel "+name)
	}
	if c.GetClock() {
		list = append(list, "the real time")
	}
	if c.GetRandom() {
		list = append(list, "real randomness")
	}
	if len(list) == 0 {
		return []string{"nothing"}
	}
	return list
}

func bounds(q *palyrav1.SkillQuotas) (list []string) {
	for _, b := range []struct {
		n    int64
		what string
	}{
		{q.GetMemoryBytes(), "bytes of memory"}, {q.GetWallMs(), "ms for a call"}, {q.GetOutputBytes(), "bytes of result"}, {q.GetUses(), "uses of grants in a call"},
	} {
		if b.n > 0 {
			list = append(list, fmt.Sprintf("%d %s", b.n, b.what))
		}
	}
	return list
}

func findingsPage(p *printer.Page, found []*palyrav1.SkillFinding) {
	for _, f := range found {
		p.Field(f.GetSeverity(), fmt.Sprintf("%s: %s [%s]", f.GetAbout(), f.GetWhat(), f.GetCode()))
		p.Wrapped("", f.GetRemedy())
	}
}

func (a *skillCommands) quarantine() *cobra.Command {
	return a.setStatus(&cobra.Command{
		Use: "quarantine SKILL[@VERSION]", Short: "Block calls of a skill because of a suspicion",
		Long: "Block calls of a skill because of a suspicion. It takes effect at once,\n" +
			"also for calls that wait for approval. The default is the current version. `palyra\n" +
			"skills enable` reverts it.",
		Example: `palyra skills quarantine notebook --reason "its publisher lost the key"`,
	}, palyrav1.SkillStatus_SKILL_STATUS_QUARANTINED)
}

func (a *skillCommands) disable() *cobra.Command {
	return a.setStatus(&cobra.Command{
		Use: "disable SKILL[@VERSION]", Short: "Block calls of a skill until it is enabled",
		Long: "Block calls of a skill until it is enabled. It takes effect at once, also for calls that\n" +
			"wait for approval. The default is the current version.",
		Example: "palyra skills disable notebook",
	}, palyrav1.SkillStatus_SKILL_STATUS_DISABLED)
}

func (a *skillCommands) enable() *cobra.Command {
	return a.setStatus(&cobra.Command{
		Use: "enable SKILL[@VERSION]", Short: "Enable a skill, and make the version the current one",
		Long: "Enable a skill, and make the version the current one: the tools of its other versions\n" +
			"can then not be called. If changes of the gateway need two people, a second must approve.",
		Example: "palyra skills enable notebook\npalyra skills enable notebook@1.1.0",
	}, palyrav1.SkillStatus_SKILL_STATUS_ACTIVE)
}

func (a *skillCommands) setStatus(c *cobra.Command, status palyrav1.SkillStatus) *cobra.Command {
	var reason string
	c.Args, c.ValidArgsFunction = command.Args(1, 1), a.complete()
	c.RunE = client.ShowOne(a.App, "Skill", skillRecord, a.installedPage, func(ctx context.Context, g *client.Gateway, given []string) (*palyrav1.Skill, error) {
		skill, version := named(given[0])
		reply, err := g.Skills.SetSkillStatus(ctx, &palyrav1.SetSkillStatusRequest{Skill: skill, Version: version, Status: status, Reason: reason})
		return reply.GetSkill(), err
	})
	c.Flags().StringVar(&reason, "reason", "", "the reason")
	return c
}

func (a *skillCommands) remove() *cobra.Command {
	var sure bool
	c := &cobra.Command{
		Use: "remove SKILL[@VERSION]", Short: "Remove a skill, with its stored data", Args: command.Args(1, 1),
		Long: "Remove a version of a skill, or by default all of them. Removing the last one deletes the\n" +
			"stored data of the skill.",
		Example: "palyra skills remove notebook\npalyra skills remove notebook@1.1.0 --yes", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			skill, version := named(given[0])
			what := "the skill " + skill + " with all its versions and stored data"
			if version != "" {
				what = "the version " + version + " of the skill " + skill
			}
			if err := a.Confirm(ctx, sure, "Remove %s?", what); err != nil {
				return err
			}
			reply, err := g.Skills.RemoveSkill(ctx, &palyrav1.RemoveSkillRequest{Skill: skill, Version: version})
			if err == nil {
				a.Say("removed: %s %s", skill, strings.Join(reply.GetVersions(), ", "))
			}
			return err
		}),
	}
	c.Flags().BoolVar(&sure, "yes", false, "do not ask")
	return c
}
