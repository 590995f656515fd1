package vaultkey

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/vault/kek"
)

// Ways reach the vault's key in the state directory of a palyrad that does not run.
type Ways struct {
	// Settings are those of the command line.
	Settings func() (*config.Config, error)
	Move     func(ctx context.Context, cfg *config.Config, to kek.Target) (kek.Status, error)
	Recover  func(ctx context.Context, cfg *config.Config, export, identity io.Reader) (kek.Status, error)
	// Arguments wraps a check of arguments in the way of the program.
	Arguments func(cobra.PositionalArgs) cobra.PositionalArgs
}

// Command is `palyrad vault`.
func Command(w Ways) *cobra.Command {
	group := &cobra.Command{Use: "vault", Short: "Move the vault's key or put it back, while palyrad does not run"}
	var to, phraseFile string
	var without bool
	move := &cobra.Command{
		Use: "move --to file|secret_service|keychain|dpapi", Short: "Move the vault's key to another place, or under another passphrase", Args: w.Arguments(cobra.NoArgs),
		Long: "Move the vault's key to another place, or a file of it under another passphrase, while palyrad does not run. What the key encrypts stays as it is.\n\n" +
			"The key is written to the new place and read back, then the pin (vault.json) is switched, and then the old place is cleared; cut off at any point, the key can be read where the pin says. A file is put under the passphrase of --new-passphrase-file, or else of vault.passphrase_file. " +
			"Run it as the user that palyrad runs as, and for the Secret Service in that user's session. Set vault.backend and vault.passphrase_file accordingly before the next start. The journal says so (PAL-I153).",
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := w.Settings()
			if err != nil {
				return err
			}
			target, err := target(cfg, to, phraseFile, without)
			if err != nil {
				return err
			}
			s, err := w.Move(cmd.Context(), cfg, target)
			if s.Backend != "" {
				_, said := fmt.Fprintf(cmd.OutOrStdout(), "the key of the vault is in: %s (%s)\n", s, s.ID)
				if err == nil {
					err = said
				}
				if cfg.Vault.Backend != kek.Auto && cfg.Vault.Backend != s.Backend {
					cmd.PrintErrf("next: set vault.backend to %q; palyrad does not start with %q any more\n", s.Backend, cfg.Vault.Backend)
				}
			}
			return err
		},
	}
	move.Flags().StringVar(&to, "to", "", "the `BACKEND`: file, secret_service, keychain or dpapi")
	move.Flags().StringVar(&phraseFile, "new-passphrase-file", "", "put the file under the passphrase that this `FILE` holds")
	move.Flags().BoolVar(&without, "without-passphrase", false, "put the file under no passphrase")
	group.AddCommand(move, recoverCommand(w))
	return group
}

// target is where to move, with the passphrase that is to be there.
func target(cfg *config.Config, to, phraseFile string, without bool) (kek.Target, error) {
	t := kek.Target{Backend: to, Passphrase: cfg.Vault.Passphrase}
	switch {
	case to == "":
		return t, reason.Errorf(reason.InvalidInput, "say where to").WithRemedy("Add --to file, or another of secret_service, keychain and dpapi.")
	case phraseFile != "" && without, to != kek.InFile && (phraseFile != "" || without):
		return t, reason.Errorf(reason.InvalidInput, "only a file has a passphrase, or none").
			WithRemedy("Name one of --new-passphrase-file and --without-passphrase, and only with --to file.")
	case without:
		t.Passphrase = nil
	case phraseFile != "":
		t.Passphrase = func() ([]byte, error) { return config.ReadPassphrase(phraseFile) }
	}
	return t, nil
}
