package client

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/printer"
)

// completionTimeout keeps a shell from hanging on a gateway that is away.
const completionTimeout = 2 * time.Second

// Suggestions asks the gateway for words with descriptions; when it cannot be
// reached there are none.
func (a *App) Suggestions(cmd *cobra.Command, given []string, ask func(context.Context, *Gateway) []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()
	g, err := a.Connect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return ask(ctx, g), cobra.ShellCompDirectiveNoFileComp
}

// Describe is a completion with what it means.
func Describe(word, description string) cobra.Completion {
	return cobra.CompletionWithDesc(printer.VisibleLine(word), printer.VisibleLine(description))
}

// CompleteWorkspaces completes the name of a workspace.
func (a *App) CompleteWorkspaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.Suggestions(cmd, nil, func(ctx context.Context, g *Gateway) (out []cobra.Completion) {
		reply, err := g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
		if err != nil {
			return nil
		}
		for _, w := range reply.GetWorkspaces() {
			out = append(out, Describe(w.GetName(), w.GetPath()))
		}
		return out
	})
}

// CompleteTools completes the name of a tool.
func (a *App) CompleteTools(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.Suggestions(cmd, given, func(ctx context.Context, g *Gateway) (out []cobra.Completion) {
		reply, err := g.Calls.ListTools(ctx, &palyrav1.ListToolsRequest{})
		if err != nil {
			return nil
		}
		for _, t := range reply.GetTools() {
			out = append(out, Describe(t.GetName(), t.GetTitle()))
		}
		return out
	})
}
