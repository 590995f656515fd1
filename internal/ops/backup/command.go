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

// Ways provide access to the gateway to be backed up or restored.
type Ways struct {
	Write   func(ctx context.Context, to string, recipients []age.Recipient) (Written, error)
	Restore func(ctx context.Context, from string, t Target) (Result, error)
	// Arguments wraps an argument check for the program's error format.
	Arguments func(cobra.PositionalArgs) cobra.PositionalArgs
}

// Command is `palyrad backup`.
func Command(w Ways) *cobra.Command {
	var recipients []string
	var passphraseFile string
	c := &cobra.Command{
		Use: "backup FILE", Short: "Write an encrypted backup of everything that this gateway needs to run", Args: w.Arguments(cobra.ExactArgs(1)),
		Long: "Write an encrypted backup of everything that this gateway needs to run: the store with its journal, the CA and all keys that are files, the key of the vault regardless of its backend, the local operator's credential, the vault, the policies and the configuration file. palyrad may run meanwhile: the backup is a consistent snapshot.\n\n" +
			"It requires the uid of the state directory. FILE must not exist; it becomes an age file, which `palyrad restore` reads. The output lists what the gateway needs but the backup does not contain: keys in a TPM, files of secrets, workspaces.",
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
		cmd.PrintErrf("not in the backup: %s, which is not a file of palyrad\n", path)
	}
	return nil
}

// RestoreCommand is `palyrad restore`.
func RestoreCommand(w Ways) *cobra.Command {
	var t Target
	var identityFile, passphraseFile string
	c := &cobra.Command{
		Use: "restore FILE --to DIR", Short: "Restore a state directory from a backup", Args: w.Arguments(cobra.ExactArgs(1)),
		Long: "Restore a state directory from a backup, into a directory that is new or empty. Everything is verified first: the encryption, the digest of each file, the signature of the gateway, and the whole journal. Only then DIR gets its name; an interrupted restore leaves no directory that could be started.\n\n" +
			"The gateway starts frozen. Its grants, open approvals and logins are ended, which is journaled (PAL-J105). Credentials that were revoked since the backup are valid again: the output lists the valid ones with the command that revokes them. Compare the list before `palyra thaw`.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.Dir == "" {
				return reason.Errorf(reason.InvalidInput, "--to is required").WithRemedy("Add --to DIR, a new or empty directory.")
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
	c.Flags().StringVar(&t.Dir, "to", "", "the state `DIR`ectory to create")
	c.Flags().StringVar(&identityFile, "identity", "", "decrypt with the identity in this `FILE` of age-keygen, of mode 0600")
	c.Flags().StringVar(&passphraseFile, "passphrase-file", "", "decrypt with the passphrase in this `FILE`, of mode 0600")
	c.Flags().StringVar(&t.NewestHead, "last-head", "", "the newest known checkpoint of the lost journal, a `FILE` or the note itself")
	return c
}

// noteOf returns a signed note that was given directly or as a file name. It ends with exactly one
// newline: `jq -r` adds one, and a shell removes it.
func noteOf(given string) (string, error) {
	text := given
	if !strings.Contains(strings.TrimSpace(given), "\n") { // a note has several lines
		kept, err := os.ReadFile(given)
		if err != nil {
			return "", reason.Errorf(reason.InvalidInput, "--last-head is neither a checkpoint nor a file with one: %w", err).WithRemedy(lastHeadRemedy)
		}
		text = string(kept)
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if text == "" {
		return "", reason.Errorf(reason.InvalidInput, "the file in --last-head is empty").WithRemedy(lastHeadRemedy)
	}
	return text + "\n", nil
}

const lastHeadRemedy = "Specify the checkpoint that `palyra status -o json` printed for the lost gateway. Or omit --last-head: the amount of lost data is then unknown."

func (r Result) print(cmd *cobra.Command, dir string) error {
	dir, err := filepath.Abs(dir) // the configuration requires an absolute path
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
	if _, err := fmt.Fprintf(out, "\nValid in the backup. Repeat later revocations:\n\n"); err != nil {
		return err
	}
	if err := WriteValid(out, r.Valid); err != nil {
		return err
	}
	for _, text := range r.Outside {
		cmd.PrintErrf("not in the backup: %s\n", text)
	}
	if n := r.Mark.Newest; n != nil && !n.Proven {
		cmd.PrintErrln("--last-head is signed by a key that is not in the backup; the journal will record it as not proven")
	}
	for _, at := range []string{r.Config, r.Policies} {
		if at != "" {
			cmd.PrintErrf("from the backup: %s; put it where palyrad expects it\n", at)
		}
	}
	if was := r.carried(); was != "" {
		cmd.PrintErrf("the key of the vault was in %s, and is now in %s: set vault.backend to \"file\" or \"auto\", or put the key back into a keyring with `palyrad vault move --to secret_service` (or keychain, dpapi) and set vault.backend to that\n",
			was, statedir.VaultKey(dir))
	}
	cmd.PrintErrf("next: start palyrad with state_dir %s; it starts frozen. Revoke invalid credentials, then run `palyra thaw`.\n", dir)
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
