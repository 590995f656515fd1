package client

import (
	"context"

	"github.com/spf13/cobra"

	"palyra/internal/cli/printer"
)

// ShowList returns the RunE of a command that prints a whole list. The list function takes no
// arguments, so that Suggest can use the same one.
func ShowList[T any](a *App, l printer.Listing, record func(T) printer.Record, list func(context.Context, *Gateway) ([]T, error)) func(*cobra.Command, []string) error {
	return a.Connected(func(ctx context.Context, g *Gateway, _ []string) error {
		all, err := list(ctx, g)
		if err != nil {
			return err
		}
		return a.PrintList(l, printer.Records(all, record))
	})
}

// ShowOne returns the RunE of a command that prints the result of a call. page writes the result
// for a terminal, and record converts it for the other formats; nothing is printed if the call
// fails.
func ShowOne[T any](a *App, kind string, record func(T) printer.Record, page func(*printer.Page, T), call func(ctx context.Context, g *Gateway, given []string) (T, error)) func(*cobra.Command, []string) error {
	return a.Connected(func(ctx context.Context, g *Gateway, given []string) error {
		result, err := call(ctx, g, given)
		if err != nil {
			return err
		}
		return a.PrintOne(kind, record(result), func(p *printer.Page) { page(p, result) })
	})
}
