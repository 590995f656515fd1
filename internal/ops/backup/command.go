package backup

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/text"
)

// Ways reach the gateway whose backup is made or restored.
type Ways struct {
	Write   func(ctx context.Context, to string, recipients []age.Recipient) (Written, error)
	Restore func(ctx context.Context, from string, t Target) (Result, error)
	// Arguments wraps a check of arguments in the way of the program.
	Arguments func(cobra.PositionalArgs) cobra.PositionalArgs
}

// Command is `palyrad backup`.
func Command(w Ways) *cobra.Command {
	var recipients []string
	var passphraseFile string
	c := &cobra.Command{
		Use: "backup FILE", Short: "Write an encrypted backup of all that this gateway needs to go on", Args: w.Arguments(cobra.ExactArgs(1)),
		Long: "Write an encrypted backup of all that this gateway needs to go on: the store with its journal, the CA and all keys that are files, the key of the vault wherever it is, the local operator's credential, the vault, the policies and the configuration file. palyrad may run meanwhile: the backup is of one moment.\n\n" +
			"It takes the uid of the state directory. FILE must be new; it is an age file, which `palyrad restore` reads. What the gateway needs and the backup does not hold is said: keys in a TPM, files of secrets, workspaces.",
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := Recipients(recipients, passphraseFile)
			if err != nil {
				return err
			}
			made, err := w.Write(cmd.Context(), args[0], to)
			if err != nil {
				return err
			}
			return made.print(cmd, args[0])
		},
	}
	c.Flags().StringArrayVar(&recipients, "recipient", nil, "encrypt for this `PUBLIC-KEY` of age (age1...); may be repeated")
	c.Flags().StringVar(&passphraseFile, "passphrase-file", "", "encrypt with the passphrase in this `FILE`, of mode 0600")
	return c
}

func (w Written) print(cmd *cobra.Command, to string) error {
	out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(out, "backup\t%s (%d bytes)\ngateway\t%s\nCA\t%s\nmade at\t%s\njournal\t%s, root %s\n", to, w.Bytes, w.Gateway, w.CARoot, w.MadeAt.Format(time.RFC3339), text.Plural(w.Size, "event"), w.Root)
	if err := out.Flush(); err != nil {
		return err
	}
	for _, text := range w.Outside {
		cmd.PrintErrf("not in the backup: %s\n", text)
	}
	for _, path := range w.Left {
		cmd.PrintErrf("not in the backup: %s, which is no file of palyrad's\n", path)
	}
	return nil
}

// RestoreCommand is `palyrad restore`.
func RestoreCommand(w Ways) *cobra.Command {
	var t Target
	var identityFile, passphraseFile string
	c := &cobra.Command{
		Use: "restore FILE --to DIR", Short: "Make a state directory of a backup", Args: w.Arguments(cobra.ExactArgs(1)),
		Long: "Make a state directory of a backup, in a directory that is new or empty. Everything is verified first: the encryption, the digest of each file, the signature of the gateway, and the whole journal. DIR has its name only then; cut off before that, nothing is left that could be started.\n\n" +
			"The gateway starts frozen. Its grants are ended, its open approvals closed, its logins over, and the journal says so (PAL-J105). What was revoked since the backup is valid again: what is valid is listed, with the command that takes it back. Compare the list before `palyra thaw`.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.Dir == "" {
				return reason.Errorf(reason.InvalidInput, "say where the backup is restored to").WithRemedy("Add --to DIR, a new or empty directory.")
			}
			var err error
			if t.Identities, err = Identities(identityFile, passphraseFile); err != nil {
				return err
			}
			if cmd.Flags().Changed("last-head") {
				if t.NewestHead, err = noteOf(t.NewestHead); err != nil {
					return err
				}
			}
			r, err := w.Restore(cmd.Context(), args[0], t)
			if err != nil {
				return err
			}
			return r.print(cmd, t.Dir)
		},
	}
	c.Flags().StringVar(&t.Dir, "to", "", "the state `DIR`ectory to make")
	c.Flags().StringVar(&identityFile, "identity", "", "decrypt with the identity in this `FILE` of age-keygen, of mode 0600")
	c.Flags().StringVar(&passphraseFile, "passphrase-file", "", "decrypt with the passphrase in this `FILE`, of mode 0600")
	c.Flags().StringVar(&t.NewestHead, "last-head", "", "the newest checkpoint of the lost journal that is known, a `FILE` or the note itself")
	return c
}

// noteOf is a signed note that was given as it is, or by the name of its file. It ends
// with one line end, whatever copied it: `jq -r` adds one, and a shell takes it away.
func noteOf(given string) (string, error) {
	text := given
	if !strings.Contains(strings.TrimSpace(given), "\n") { // a note has lines
		kept, err := os.ReadFile(given)
		if err != nil {
			return "", reason.Errorf(reason.InvalidInput, "--last-head is neither a checkpoint nor a file with one: %w", err).WithRemedy(lastHeadRemedy)
		}
		text = string(kept)
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if text == "" {
		return "", reason.Errorf(reason.InvalidInput, "--last-head is a file with nothing in it").WithRemedy(lastHeadRemedy)
	}
	return text + "\n", nil
}

const lastHeadRemedy = "Give the checkpoint that `palyra status -o json` printed of the gateway that is lost, or leave --last-head out: then nothing says how much was lost."

func (r Result) print(cmd *cobra.Command, dir string) error {
	dir, err := filepath.Abs(dir) // as the configuration has to name it
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if _, err := fmt.Fprintf(out, "restored  %s\ngateway   %s\nCA        %s\nbackup    of %s, by palyrad %s\njournal   %s, root %s\n", dir, r.Gateway, r.CARoot, r.MadeAt.Format(time.RFC3339), r.Release, text.Plural(r.Size, "event"), r.Root); err != nil {
		return err
	}
	if n := r.Mark.Newest; n != nil && n.Size > r.Size {
		if _, err := fmt.Fprintf(out, "lost      the events %d to %d, and what came after them\n", r.Size+1, n.Size); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(out, "\nValid in the backup. Take back what was revoked since:\n\n"); err != nil {
		return err
	}
	if err := WriteValid(out, r.Valid); err != nil {
		return err
	}
	for _, text := range r.Outside {
		cmd.PrintErrf("not in the backup: %s\n", text)
	}
	if n := r.Mark.Newest; n != nil && !n.Proven {
		cmd.PrintErrln("--last-head is signed by a key that the backup does not have; the journal will name it as not proven")
	}
	for _, at := range []string{r.Config, r.Policies} {
		if at != "" {
			cmd.PrintErrf("from the backup: %s; put it where palyrad looks for it\n", at)
		}
	}
	if was := r.carried(); was != "" {
		cmd.PrintErrf("the key of the vault was in %s, and is in %s now: set vault.backend to \"file\" or \"auto\", or put the key back into a keyring with `palyrad vault move --to secret_service` (or keychain, dpapi) and set vault.backend to that\n",
			was, statedir.VaultKey(dir))
	}
	cmd.PrintErrf("next: start palyrad with state_dir %s; it starts frozen. Revoke what has to be revoked, then `palyra thaw`.\n", dir)
	return nil
}

// WriteValid lists credentials with the commands that revoke them.
func WriteValid(w io.Writer, list []Credential) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "KIND\tID\tWHOSE\tTAKE BACK WITH")
	for _, c := range list {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.Kind, c.ID, c.Whose, c.Revoke)
	}
	return t.Flush()
}
