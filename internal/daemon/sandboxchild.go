package daemon

import (
	"github.com/spf13/cobra"

	"palyra/internal/sandbox/seatbelt"
)

// sandboxChildCommand is palyrad as the helper of package seatbelt, which
// starts it inside a sandbox. Nobody else has a use for it.
func sandboxChildCommand() *cobra.Command {
	return &cobra.Command{
		Use: seatbelt.ChildCommand, Hidden: true, Args: arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error { return seatbelt.Child() },
	}
}
