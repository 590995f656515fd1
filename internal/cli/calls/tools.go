package calls

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/reason"
)

var toolListing = printer.Listing{
	Kind:    "Tool",
	Columns: []string{"NAME", "ASKS", "CAPABILITIES", "TITLE"},
	Wide:    []string{"EXECUTOR", "READ-ONLY", "DESTRUCTIVE", "DEFINITION"},
	Empty:   "policy lets you call no tool",
}

// ToolsCommand is `palyra tools`.
func ToolsCommand(program *client.App) *cobra.Command {
	a := &app{program}
	list := &cobra.Command{Use: "list", Short: "List the tools that policy could let you call", Args: command.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listTools(cmd.Context()) }}
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
		return a.listTools(cmd.Context())
	}
	return tools
}

func (a *app) listTools(ctx context.Context) error {
	g, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	reply, err := g.Calls.ListTools(ctx, &palyrav1.ListToolsRequest{})
	if err != nil {
		return err
	}
	return a.PrintList(toolListing, printer.Records(reply.GetTools(), toolRecord))
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
	return reason.Errorf(reason.UnknownTool, "there is no tool %q for you", name).WithRemedy("%s", command.Nearest(name, names))
}

func toolPage(p *printer.Page, t *palyrav1.Tool) {
	p.Heading("%s  %s", t.GetName(), t.GetTitle())
	p.Block("", t.GetDescription())
	p.Field("capabilities", strings.Join(t.GetCapabilities(), ", "))
	p.Field("executor", t.GetExecutor())
	p.Field("asks a human", printer.Yes(t.GetMayAsk()))
	p.Field("read-only", printer.Yes(t.GetReadOnly()))
	p.Field("destructive", printer.Yes(t.GetDestructive()))
	p.Field("definition", t.GetDefinitionDigest())
	p.JSON("input schema", t.GetInputSchemaJson())
}
