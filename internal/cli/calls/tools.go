package calls

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

var toolListing = printer.Listing{
	Kind:    "Tool",
	Columns: []string{"NAME", "ASKS", "CAPABILITIES", "TITLE"},
	Wide:    []string{"EXECUTOR", "READ-ONLY", "DESTRUCTIVE", "DEFINITION"},
	Empty:   "policy does not let you call any tool",
}

var hiddenListing = printer.Listing{
	Kind:    "HiddenTool",
	Columns: []string{"NAME", "REASON", "BECAUSE"},
	Wide:    []string{"NEXT"},
	Empty:   "no hidden tool is visible to you; `palyra status` shows your roles",
}

// ToolsCommand is `palyra tools`.
func ToolsCommand(program *client.App) *cobra.Command {
	a := &app{program}
	var f toolFlags
	list := &cobra.Command{Use: "list", Short: "List the tools that policy could let you call", Args: command.Args(0, 0),
		Long: "List the tools that policy could let you call.\n\n" +
			"With --agents, list the tools that agents run themselves and propose by their\n" +
			"hooks; no other caller can call them.\n\n" +
			"With --hidden, list the other tools and why you cannot call them: the\n" +
			"settings exclude them, policy forbids them, or this system cannot run them. Only\n" +
			"users who may explain policy see them; `palyra tools show NAME` has the next step.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listTools(cmd.Context(), f) }}
	list.Flags().BoolVar(&f.agents, "agents", false, "list the tools that agents run themselves and propose by their hooks")
	list.Flags().BoolVar(&f.hidden, "hidden", false, "list the tools that you cannot call, and why")
	show := &cobra.Command{Use: "show NAME", Short: "Show one tool with its input schema", Args: command.Args(1, 1),
		ValidArgsFunction: a.CompleteTools(),
		RunE: a.Connected(func(ctx context.Context, g *client.Gateway, given []string) error {
			return a.showTool(ctx, g, given[0])
		})}
	tools := command.NewGroup("tools", "List the tools, or show one", list, show)
	tools.RunE = func(cmd *cobra.Command, given []string) error {
		if len(given) > 0 {
			return command.Group(cmd, given)
		}
		return a.listTools(cmd.Context(), f)
	}
	tools.Flags().AddFlagSet(list.Flags())
	return tools
}

// toolFlags select the listed tools.
type toolFlags struct{ agents, hidden bool }

// proposedByHooks reports whether a tool is an agent's own, which only the agent's hook proposes.
func proposedByHooks(t *palyrav1.Tool) bool { return t.GetExecutor() == string(tool.External) }

func (a *app) listTools(ctx context.Context, f toolFlags) error {
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	reply, err := g.Calls.ListTools(ctx, &palyrav1.ListToolsRequest{})
	if err != nil {
		return err
	}
	// The list has either the tools that hooks propose or the other tools; the same applies to
	// hidden tools.
	others := 0
	tools := slices.DeleteFunc(reply.GetTools(), func(t *palyrav1.Tool) bool {
		other := proposedByHooks(t) != f.agents
		if other {
			others++
		}
		return other
	})
	hidden := slices.DeleteFunc(reply.GetHidden(), func(h *palyrav1.HiddenTool) bool { return proposedByHooks(h.GetTool()) != f.agents })
	if f.hidden {
		return a.PrintList(hiddenListing, printer.Records(hidden, hiddenRecord))
	}
	if err := a.PrintList(toolListing, printer.Records(tools, toolRecord)); err != nil {
		return err
	}
	if !slices.Contains([]string{printer.FormatTable, printer.FormatWide}, a.Format()) {
		return nil
	}
	if others > 0 && !f.agents {
		a.Say("%d more of agents: palyra tools list --agents", others)
	}
	if n := len(hidden); n > 0 {
		a.Say("%d hidden: palyra tools list --hidden", n)
	}
	return nil
}

func hiddenRecord(h *palyrav1.HiddenTool) printer.Record {
	return printer.Record{
		Name: h.GetTool().GetName(), Body: printer.ProtoObject(h),
		Cells: []string{h.GetTool().GetName(), h.GetReason(), h.GetMessage()},
		Wide:  []string{h.GetRemedy()},
	}
}

func toolRecord(t *palyrav1.Tool) printer.Record {
	return printer.Record{
		Name: t.GetName(), Body: printer.ProtoObject(t),
		Cells: []string{t.GetName(), printer.Yes(t.GetMayAsk()), strings.Join(t.GetCapabilities(), ","), t.GetTitle()},
		Wide:  []string{t.GetExecutor(), printer.Yes(t.GetReadOnly()), printer.Yes(t.GetDestructive()), t.GetDefinitionDigest()},
	}
}

func (a *app) showTool(ctx context.Context, g *client.Gateway, name string) error {
	reply, err := g.Calls.ListTools(ctx, &palyrav1.ListToolsRequest{})
	if err != nil {
		return err
	}
	var names []string
	for _, t := range reply.GetTools() {
		if t.GetName() == name {
			return a.PrintOne("Tool", toolRecord(t), func(p *printer.Page) { toolPage(p, t) })
		}
		names = append(names, t.GetName())
	}
	for _, h := range reply.GetHidden() {
		if h.GetTool().GetName() == name {
			return a.PrintOne("HiddenTool", hiddenRecord(h), func(p *printer.Page) { hiddenPage(p, h) })
		}
	}
	return reason.Errorf(reason.UnknownTool, "the tool %q is not available to you", name).WithRemedy("%s", text.NearestHelp(name, names))
}

func hiddenPage(p *printer.Page, h *palyrav1.HiddenTool) {
	toolHead(p, h.GetTool())
	p.Field("hidden", h.GetReason())
	p.Wrapped("because", h.GetMessage())
	p.Wrapped("next", h.GetRemedy())
	p.List("policies", ask.DeterminingLines(h.GetDetermining()))
	toolBody(p, h.GetTool())
}

func toolPage(p *printer.Page, t *palyrav1.Tool) {
	toolHead(p, t)
	toolBody(p, t)
}

func toolHead(p *printer.Page, t *palyrav1.Tool) {
	p.Heading("%s  %s", t.GetName(), t.GetTitle())
	p.Block("", t.GetDescription())
}

func toolBody(p *printer.Page, t *palyrav1.Tool) {
	p.Field("capabilities", strings.Join(t.GetCapabilities(), ", "))
	p.Field("executor", t.GetExecutor())
	p.Field("needs approval", printer.Yes(t.GetMayAsk()))
	p.Field("read-only", printer.Yes(t.GetReadOnly()))
	p.Field("destructive", printer.Yes(t.GetDestructive()))
	p.Field("definition", t.GetDefinitionDigest())
	p.JSON("input schema", t.GetInputSchemaJson())
}
