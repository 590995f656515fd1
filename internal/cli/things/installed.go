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
	return client.Suggest(a.App, func(ctx context.Context, g *client.Gateway) ([]*palyrav1.Skill, error) {
		reply, err := g.Skills.ListSkills(ctx, &palyrav1.ListSkillsRequest{})
		return reply.GetSkills(), err
	}, func(s *palyrav1.Skill) (string, string) {
		return s.GetSkill() + "@" + s.GetVersion(), s.GetManifest().GetName()
	})
}

// named are the skill and the version of SKILL or SKILL@VERSION.
func named(given string) (skill, version string) {
	skill, version, _ = strings.Cut(given, "@")
	return skill, version
}

func (a *skillCommands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the skills that are installed", Args: command.Args(0, 0), Example: "palyra skills list",
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, _ []string) error {
			reply, err := g.Skills.ListSkills(ctx, &palyrav1.ListSkillsRequest{})
			if err != nil {
				return err
			}
			return a.PrintList(skillListing, printer.Records(reply.GetSkills(), skillRecord))
		}),
	}
}

func (a *skillCommands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show SKILL[@VERSION]", Short: "Show a skill: whose it is, its tools, and what they ask for", Args: command.Args(1, 1),
		Long: "Show a skill: who signed it, its tools and what they ask for, and why they cannot be\n" +
			"called if they cannot. The package is read and verified anew. Without a version it is\n" +
			"the current one.",
		Example: "palyra skills show notebook\npalyra skills show notebook@1.2.0 -o json", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			skill, version := named(given[0])
			reply, err := g.Skills.GetSkill(ctx, &palyrav1.GetSkillRequest{Skill: skill, Version: version})
			if err != nil {
				return err
			}
			rec := skillRecord(reply.GetSkill())
			rec.Body = printer.ProtoObject(reply)
			return a.PrintOne("Skill", rec, func(p *printer.Page) {
				a.installedPage(p, reply.GetSkill())
				p.Field("versions", strings.Join(reply.GetVersions(), ", "))
				toolsPage(p, reply.GetSkill().GetManifest())
				findingsPage(p, reply.GetFindings())
				p.Field("problem", reply.GetProblem())
				p.Field("next", reply.GetRemedy())
			})
		}),
	}
}

// installedPage says what is known of a version beside what it asks for.
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

// printSkill prints a version after it was changed.
func (a *skillCommands) printSkill(s *palyrav1.Skill) error {
	return a.PrintOne("Skill", skillRecord(s), func(p *printer.Page) { a.installedPage(p, s) })
}

// toolsPage says what a skill's tools are and ask for.
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

// asksFor is what a tool asks for, in words.
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
			list = append(list, "the value of the secret "+s.GetName()+", which it sees; people are asked at each call")
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
		Use: "quarantine SKILL[@VERSION]", Short: "Keep a skill from being called, because something may be wrong with it",
		Long: "Keep a skill from being called, because something may be wrong with it. It holds at once,\n" +
			"also for calls that wait for people. Without a version it is the current one. `palyra\n" +
			"skills enable` takes it back.",
		Example: `palyra skills quarantine notebook --reason "its publisher lost the key"`,
	}, palyrav1.SkillStatus_SKILL_STATUS_QUARANTINED)
}

func (a *skillCommands) disable() *cobra.Command {
	return a.setStatus(&cobra.Command{
		Use: "disable SKILL[@VERSION]", Short: "Keep a skill from being called until it is enabled",
		Long: "Keep a skill from being called until it is enabled. It holds at once, also for calls that\n" +
			"wait for people. Without a version it is the current one.",
		Example: "palyra skills disable notebook",
	}, palyrav1.SkillStatus_SKILL_STATUS_DISABLED)
}

func (a *skillCommands) enable() *cobra.Command {
	return a.setStatus(&cobra.Command{
		Use: "enable SKILL[@VERSION]", Short: "Let a skill be called, and make the version the current one",
		Long: "Let a skill be called, and make the version the current one: the tools of other versions\n" +
			"of it cannot be called then. Where two people change the gateway, a second one is asked.",
		Example: "palyra skills enable notebook\npalyra skills enable notebook@1.1.0",
	}, palyrav1.SkillStatus_SKILL_STATUS_ACTIVE)
}

func (a *skillCommands) setStatus(c *cobra.Command, status palyrav1.SkillStatus) *cobra.Command {
	var reason string
	c.Args, c.ValidArgsFunction = command.Args(1, 1), a.complete()
	c.RunE = a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
		skill, version := named(given[0])
		reply, err := g.Skills.SetSkillStatus(ctx, &palyrav1.SetSkillStatusRequest{Skill: skill, Version: version, Status: status, Reason: reason})
		if err != nil {
			return err
		}
		return a.printSkill(reply.GetSkill())
	})
	c.Flags().StringVar(&reason, "reason", "", "why, for people")
	return c
}

func (a *skillCommands) remove() *cobra.Command {
	var sure bool
	c := &cobra.Command{
		Use: "remove SKILL[@VERSION]", Short: "Take a skill away, with what it stored", Args: command.Args(1, 1),
		Long: "Take a version of a skill away, or all of them where none is named. With the last one goes\n" +
			"what the skill stored.",
		Example: "palyra skills remove notebook\npalyra skills remove notebook@1.1.0 --yes", ValidArgsFunction: a.complete(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			skill, version := named(given[0])
			what := "the skill " + skill + " with all its versions and what it stored"
			if version != "" {
				what = "the version " + version + " of the skill " + skill
			}
			if err := a.Confirm(ctx, sure, "Take %s away?", what); err != nil {
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
