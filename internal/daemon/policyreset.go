package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"palyra/internal/config"
	"palyra/internal/event"
	"palyra/internal/identity/ca"
	"palyra/internal/journal"
	"palyra/internal/reason"
	"palyra/internal/sqlite"
)

func policyCommand(s *settings) *cobra.Command {
	group := &cobra.Command{Use: "policy", Short: "Repair the policy of a palyrad that does not start"}
	group.AddCommand(&cobra.Command{
		Use:   "reset",
		Short: "Return from an activated policy version to the policy directory",
		Long:  "Return from an activated policy version to the policy directory, for a palyrad that does not start because the version does not load any more. A palyrad that runs does this with `palyra policy reload`.",
		Args:  usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			version, err := ResetPolicy(cmd.Context(), cfg)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "policy version %s is not activated any more; the policy directory counts from the next start\n", version)
			}
			return err
		},
	})
	return group
}

// ResetPolicy ends the activation of a policy version in a state directory that
// no daemon holds. It returns the version.
func ResetPolicy(ctx context.Context, cfg *config.Config) (version string, err error) {
	lock, err := lockState(cfg.StateDir)
	if errors.Is(err, errInUse) {
		return "", reason.Errorf(reason.ConfigInvalid, "%w", err).WithRemedy("Use `palyra policy reload`: palyrad runs.")
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	authority, _, err := ca.Open(filepath.Join(cfg.StateDir, "ca"), ca.Options{TrustDomain: cfg.TrustDomain, ServerHosts: cfg.Listen.ServerNames})
	if err != nil {
		return "", err
	}
	origin, known, err := checkpointKeys(authority)
	if err != nil {
		return "", err
	}
	db, err := sqlite.Open(ctx, storePath(cfg.StateDir), sqlite.Options{Origin: origin, Verifiers: known})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	kept, activated, err := db.ActivatedPolicy(ctx)
	if err != nil {
		return "", err
	}
	if !activated {
		return "", reason.Errorf(reason.NotFound, "no policy version is activated: the policy directory counts already")
	}
	draft, err := draftOf(event.PolicyReset, journal.Daemon, "", struct {
		Version string `json:"policy_version"`
	}{kept.Version})
	if err != nil {
		return "", err
	}
	return kept.Version, db.EndActivation(ctx, draft)
}
