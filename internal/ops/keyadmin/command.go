package keyadmin

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// Ways provide access to the keys: through the running palyrad, or in the state directory.
type Ways struct {
	List   func(ctx context.Context) ([]Key, error)
	Rotate func(ctx context.Context, name string) (Rotation, error)
	// Arguments wraps an argument check for the program's error format.
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
			"Signatures of the old key stay valid, devices keep their certificates, and the root is not changed. After replacing notary or journal, update stored copies of the key set (`palyra attest keys -o json`). The replacement is journaled (PAL-I152).",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := w.Rotate(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the key %s is %s; the previous key was %s\n", r.Key.Name, r.Key.SHA256, r.Was)
			if r.Key.Name != Issuing {
				cmd.PrintErrln("update stored copies of the key set: `palyra attest keys -o json`")
			}
			return err
		},
	}
	group.AddCommand(list, rotate)
	return group
}
