package keyadmin

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// Ways reach the keys: through the palyrad that runs, or in the state directory of one
// that does not.
type Ways struct {
	List   func(ctx context.Context) ([]Key, error)
	Rotate func(ctx context.Context, name string) (Rotation, error)
	// Arguments wraps a check of arguments in the way of the program.
	Arguments func(cobra.PositionalArgs) cobra.PositionalArgs
}

// Command is `palyrad keys`.
func Command(w Ways) *cobra.Command {
	group := &cobra.Command{Use: "keys", Short: "List the gateway's own keys, replace them, and move them into a TPM"}
	list := &cobra.Command{
		Use: "list", Short: "List the gateway's own keys", Args: w.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			keys, err := w.List(cmd.Context())
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(t, "KEY\tALGORITHM\tCERTIFICATE ENDS\tBEFORE IT\tPUBLIC KEY")
			for _, k := range keys {
				_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", k.Name, k.Algorithm, k.NotAfter.UTC().Format(time.DateOnly), k.Past, k.SHA256)
			}
			return t.Flush()
		},
	}
	rotate := &cobra.Command{
		Use: "rotate issuing|notary|journal", Short: "Replace a key of the gateway", Args: w.Arguments(cobra.MatchAll(cobra.ExactArgs(1))),
		ValidArgs: []string{Issuing, Notary, Journal},
		Long: "Replace a key of the gateway, while palyrad runs or not: issuing signs the certificates of devices and servers, notary the attestations, journal the checkpoints and exports.\n\n" +
			"What the old key signed verifies as before, devices go on with the certificates that they have, and the root stays. After notary and journal, fetch the key set anew (`palyra attest keys -o json`) wherever it is kept. The journal says so (PAL-I152).",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := w.Rotate(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the key %s is %s; the one before it was %s\n", r.Key.Name, r.Key.SHA256, r.Was)
			if r.Key.Name != Issuing {
				cmd.PrintErrln("fetch the key set anew (`palyra attest keys -o json`) wherever it is kept")
			}
			return err
		},
	}
	group.AddCommand(list, rotate)
	return group
}
