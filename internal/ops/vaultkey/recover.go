package vaultkey

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/evidence/journal"
	"palyra/internal/vault"
	"palyra/internal/vault/kek"
)

// Recover restores the keys of an export while the gateway does not run. kinds are the objects that
// the keys encrypt.
func Recover(ctx context.Context, cfg *config.Config, gateway string, store journal.Store, kinds []vault.Boxes, export, identity io.Reader) (kek.Status, error) {
	if err := keyfile.CheckDir(cfg.StateDir); err != nil {
		return kek.Status{}, err
	}
	recovery, err := vault.OpenRecovery(gateway, export, identity)
	if err != nil {
		return kek.Status{}, err
	}
	defer func() {
		for _, k := range recovery.Keys {
			clear(k.Key)
		}
	}()
	if err := opens(ctx, recovery.Keys, kinds); err != nil {
		return kek.Status{}, err
	}
	ring, err := Open(cfg, gateway, store, nil)
	if err != nil {
		return kek.Status{}, err
	}
	if err := ring.Recover(ctx, recovery.Keys); err != nil {
		return kek.Status{}, err
	}
	return ring.Status(ctx), nil
}

// page is how many boxes are read in one query.
const page = 256

// opens refuses keys that decrypt none of the stored objects. Anybody who has the recipient can
// create an export with keys of their own, and could then read data that is encrypted with them.
func opens(ctx context.Context, keys []kek.Exported, kinds []vault.Boxes) error {
	some := false
	for _, kind := range kinds {
		for after, more := (vault.Box{}), true; more; {
			list, err := kind.StaleBoxes(ctx, "", after, page)
			if err != nil {
				return err
			}
			for _, b := range list {
				if slices.ContainsFunc(keys, func(k kek.Exported) bool { return k.ID == b.KEK && k.Opens(b.About, b.Key) }) {
					return nil
				}
				after, some = b, true
			}
			more = len(list) == page
		}
	}
	if !some {
		return nil
	}
	return reason.Errorf(reason.VaultKeyMissing, "the keys of the export decrypt nothing in this gateway: it was made before a rekey, or was not written by palyra").
		WithRemedy("Recover from your newest export.")
}

// recoverCommand is `palyrad vault recover`.
func recoverCommand(w Ways) *cobra.Command {
	identity := ""
	c := &cobra.Command{
		Use: "recover --identity FILE EXPORT", Short: "Restore the vault's key from an export", Args: w.Arguments(cobra.ExactArgs(1)),
		Long: "Restore the vault's key from a file of `palyra vault export-recovery`, while palyrad does not run. The identity file contains the recovery key, AGE-SECRET-KEY-...\n\n" +
			"A lost key is restored to its pinned backend (vault.json), or to vault.backend if the pin is lost, too. Run it as the user that palyrad runs as.",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := w.Settings()
			if err != nil {
				return err
			}
			if identity == "" {
				return reason.Errorf(reason.InvalidInput, "--identity is required").WithRemedy("Specify the file with the recovery key.")
			}
			key, err := os.Open(identity)
			if err != nil {
				return reason.Errorf(reason.InvalidInput, "reading the recovery key: %w", err)
			}
			defer key.Close()
			export, err := os.Open(args[0])
			if err != nil {
				return reason.Errorf(reason.InvalidInput, "reading the export: %w", err)
			}
			defer export.Close()
			s, err := w.Recover(cmd.Context(), cfg, export, key)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the key of the vault is in: %s (%s)\n", s, s.ID)
			return err
		},
	}
	c.Flags().StringVar(&identity, "identity", "", "the `FILE` with the recovery key")
	return c
}
