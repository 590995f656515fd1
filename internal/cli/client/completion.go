package client

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/printer"
	"palyra/internal/core/lazyregexp"
)

// completionTimeout prevents a shell from hanging on an unreachable gateway.
const completionTimeout = 2 * time.Second

// plainWord matches words that a shell does not interpret. Other names are not suggested: agents
// choose session names, and a common prefix is inserted into the command line without quotes.
var plainWord = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.:@/+,-]*$`)

// Suggest completes a first argument from a list of the gateway; without a connection there are no
// suggestions.
func Suggest[T any](a *App, list func(context.Context, *Gateway) ([]T, error), word func(T) (word, description string)) cobra.CompletionFunc {
	suggest := SuggestFlag(a, list, word)
	return func(cmd *cobra.Command, given []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return suggest(cmd, given, begun)
	}
}

// SuggestFlag is Suggest for the value of a flag, with any arguments.
func SuggestFlag[T any](a *App, list func(context.Context, *Gateway) ([]T, error), word func(T) (word, description string)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) (out []cobra.Completion, _ cobra.ShellCompDirective) {
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, completionTimeout)
		defer cancel()
		a.NoInput = true // completion must not prompt for a passphrase
		g, err := a.Connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := list(ctx, g)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, v := range found {
			w, description := word(v)
			if !plainWord.MatchString(w) {
				continue
			}
			out = append(out, cobra.CompletionWithDesc(w, printer.VisibleLine(description)))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// SuggestPage returns the suggestions from a paged list.
func SuggestPage[T any](page Pages[T]) ([]T, error) {
	list, _, err := page(50)
	return list, err
}

// CompleteWorkspaces completes the name of a workspace.
func (a *App) CompleteWorkspaces() cobra.CompletionFunc {
	return SuggestFlag(a, func(ctx context.Context, g *Gateway) ([]*palyrav1.WorkspaceStatus, error) {
		reply, err := g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
		return reply.GetWorkspaces(), err
	}, func(w *palyrav1.WorkspaceStatus) (string, string) { return w.GetName(), w.GetPath() })
}

// CompleteTools completes the name of a tool.
func (a *App) CompleteTools() cobra.CompletionFunc {
	return Suggest(a, func(ctx context.Context, g *Gateway) ([]*palyrav1.Tool, error) {
		reply, err := g.Calls.ListTools(ctx, &palyrav1.ListToolsRequest{})
		return reply.GetTools(), err
	}, func(t *palyrav1.Tool) (string, string) { return t.GetName(), t.GetTitle() })
}
