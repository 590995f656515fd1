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

// Ways provide access to the vault's key in the state directory while palyrad does not run.
type Ways struct {
	// Settings returns the settings of the command line.
	Settings func() (*config.Config, error)
	Move     func(ctx context.Context, cfg *config.Config, to kek.Target) (kek.Status, error)
	Recover  func(ctx context.Context, cfg *config.Config, export, identity io.Reader) (kek.Status, error)
	// Arguments wraps an argument check for the program's error format.
	Arguments func(cobra.PositionalArgs) cobra.PositionalArgs
}

// Command is `palyrad vault`.
func Command(w Ways) *cobra.Command {
	group := &cobra.Command{Use: "vault", Short: "Move or restore the vault's key while palyrad does not run"}
	var to, phraseFile string
	var without bool
	move := &cobra.Command{
		Use: "move --to file|secret_service|keychain|dpapi", Short: "Move the vault's key to another backend, or change its passphrase", Args: w.Arguments(cobra.NoArgs),
		Long: "Move the vault's key to another backend, or change the passphrase of its file, while palyrad does not run. The encrypted data is not changed.\n\n" +
			"The key is written to the new backend and read back, then the pin (vault.json) is changed, and then the key is deleted in the old backend. If the move is interrupted at any point, the key is readable in the pinned backend. A file is encrypted with the passphrase of --new-passphrase-file, or else of vault.passphrase_file. " +
			"Run it as the user that palyrad runs as, and for the Secret Service in that user's session. Set vault.backend and vault.passphrase_file accordingly before the next start. The move is journaled (PAL-I153).",
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
					cmd.PrintErrf("next: set vault.backend to %q; palyrad no longer starts with %q\n", s.Backend, cfg.Vault.Backend)
				}
			}
			return err
		},
	}
	move.Flags().StringVar(&to, "to", "", "the `BACKEND`: file, secret_service, keychain or dpapi")
	move.Flags().StringVar(&phraseFile, "new-passphrase-file", "", "encrypt the file with the passphrase in this `FILE`")
	move.Flags().BoolVar(&without, "without-passphrase", false, "store the file without a passphrase")
	group.AddCommand(move, recoverCommand(w))
	return group
}

// target returns the destination, with its passphrase.
func target(cfg *config.Config, to, phraseFile string, without bool) (kek.Target, error) {
	t := kek.Target{Backend: to, Passphrase: cfg.Vault.Passphrase}
	switch {
	case to == "":
		return t, reason.Errorf(reason.InvalidInput, "--to is required").WithRemedy("Add --to file, secret_service, keychain or dpapi.")
	case phraseFile != "" && without, to != kek.InFile && (phraseFile != "" || without):
		return t, reason.Errorf(reason.InvalidInput, "the passphrase options apply only to --to file").
			WithRemedy("Use one of --new-passphrase-file and --without-passphrase, and only with --to file.")
	case without:
		t.Passphrase = nil
	case phraseFile != "":
		t.Passphrase = func() ([]byte, error) { return config.ReadPassphrase(phraseFile) }
	}
	return t, nil
}
