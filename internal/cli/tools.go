package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

var toolListing = listing{
	kind:    "Tool",
	columns: []string{"NAME", "ASKS", "CAPABILITIES", "TITLE"},
	wide:    []string{"EXECUTOR", "READ-ONLY", "DESTRUCTIVE", "DEFINITION"},
	empty:   "policy lets you call no tool",
}

func (a *app) toolsCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the tools that policy could let you call", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listTools(cmd.Context()) }}
	show := &cobra.Command{Use: "show NAME", Short: "Show one tool with its input schema", Args: args(1, 1),
		ValidArgsFunction: a.completeTools,
		RunE:              func(cmd *cobra.Command, given []string) error { return a.showTool(cmd.Context(), given[0]) }}
	tools := newGroup("tools", "List the tools, or show one", list, show)
	tools.RunE = func(cmd *cobra.Command, given []string) error {
		if len(given) > 0 {
			return group(cmd, given)
		}
		return a.listTools(cmd.Context())
	}
	return tools
}

func (a *app) listTools(ctx context.Context) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	reply, err := g.calls.ListTools(ctx, &palyrav1.ListToolsRequest{})
	if err != nil {
		return err
	}
	records := make([]record, len(reply.GetTools()))
	for i, t := range reply.GetTools() {
		records[i] = toolRecord(t)
	}
	return a.printList(toolListing, records)
}

func toolRecord(t *palyrav1.Tool) record {
	return record{
		name: t.GetName(), body: protoObject(t),
		cells: []string{t.GetName(), yes(t.GetMayAsk()), strings.Join(t.GetCapabilities(), ","), t.GetTitle()},
		wide:  []string{t.GetExecutor(), yes(t.GetReadOnly()), yes(t.GetDestructive()), t.GetDefinitionDigest()},
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (a *app) showTool(ctx context.Context, name string) error {
	g, err := a.connect(ctx)
	if err != nil {
		return err
	}
	reply, err := g.calls.ListTools(ctx, &palyrav1.ListToolsRequest{})
	if err != nil {
		return err
	}
	var names []string
	for _, t := range reply.GetTools() {
		if t.GetName() == name {
			return a.printOne("Tool", toolRecord(t), func(p *page) { toolPage(p, t) })
		}
		names = append(names, t.GetName())
	}
	return reason.Errorf(reason.UnknownTool, "there is no tool %q for you", name).WithRemedy("%s", nearestOf(name, names))
}

func toolPage(p *page, t *palyrav1.Tool) {
	p.heading("%s  %s", t.GetName(), t.GetTitle())
	p.block("", t.GetDescription())
	p.field("capabilities", strings.Join(t.GetCapabilities(), ", "))
	p.field("executor", t.GetExecutor())
	p.field("asks a human", yes(t.GetMayAsk()))
	p.field("read-only", yes(t.GetReadOnly()))
	p.field("destructive", yes(t.GetDestructive()))
	p.field("definition", t.GetDefinitionDigest())
	p.json("input schema", t.GetInputSchemaJson())
}
