package daemon

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/access"
	"palyra/internal/builtin"
	"palyra/internal/config"
	"palyra/internal/doctor"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/exec"
	"palyra/internal/sandbox/ladder"
	"palyra/internal/sandbox/places"
	"palyra/internal/tool"
	"palyra/internal/version"
	"palyra/internal/workspace"
)

func operatorCommand(s *settings) *cobra.Command {
	operator := &cobra.Command{Use: "operator", Short: "Add people and agents on this host"}
	var roles []string
	var owner, out string
	add := &cobra.Command{
		Use:   "add NAME --role ROLE",
		Short: "Add a member and write a credential bundle for it",
		Long:  "Add a member and write a credential bundle for it: a directory with ca.pem, cert.pem, key.pem and endpoint, which palyra, curl and grpcurl can use. Hand it over on a channel that you trust; it is the person.\n\nWith --owner the member is an agent that acts for that user.",
		Args:  arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return addOperator(cmd, s, args[0], roles, owner, out)
		},
	}
	add.Flags().StringSliceVar(&roles, "role", nil, "owner, admin, operator, auditor, developer, agent, or a declared role; may be repeated")
	add.Flags().StringVar(&owner, "owner", "", "make an agent that acts for this `USER`")
	add.Flags().StringVar(&out, "out", "", "directory of the bundle (default: ./NAME.palyra)")
	operator.AddCommand(add)
	return operator
}

func addOperator(cmd *cobra.Command, s *settings, name string, roles []string, owner, out string) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	n := NewOperator{Name: name, Dir: out}
	if n.Dir == "" {
		n.Dir = name + ".palyra"
	}
	if owner != "" {
		n.Owner = access.User(strings.TrimPrefix(owner, "user:"))
		if len(roles) == 0 {
			roles = []string{string(access.RoleAgent)}
		}
	}
	if len(roles) == 0 {
		return reason.Errorf(reason.InvalidInput, "a member needs a role").
			WithRemedy("Add --role operator, or another of: owner, admin, operator, auditor, developer.")
	}
	for _, text := range roles {
		role, err := access.ParseRole(text)
		if err != nil {
			return reason.Errorf(reason.InvalidInput, "%w", err)
		}
		n.Roles = append(n.Roles, role)
	}
	device, err := AddOperator(cmd.Context(), cfg, n)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", n.Dir)
	cmd.PrintErrf("added %s:%s with device %s\nnext: palyra --credentials %s status\n", n.kind(), name, device, n.Dir)
	return err
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Get().Version)
			return err
		},
	}
}

func rotateCommand(s *settings) *cobra.Command {
	group := &cobra.Command{Use: "rotate", Short: "Replace a key of the gateway"}
	group.AddCommand(&cobra.Command{
		Use:   "journal-key",
		Short: "Replace the key that signs the journal's checkpoints and exports",
		Long:  "Replace the key that signs the journal's checkpoints and exports, while palyrad does not run. The old key signs a last checkpoint, and both keys sign the event that says so. What the old key signed verifies as before; nothing larger does.",
		Args:  arguments(cobra.NoArgs),
		RunE: s.loaded(func(cmd *cobra.Command, cfg *config.Config) error {
			r, err := RotateJournalKey(cmd.Context(), cfg)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "the journal is signed by %s from size %d on; the key before it signed up to %d\nfetch the key set anew (`palyra attest keys -o json`) wherever it is kept\n", r.New, r.Last+1, r.Last)
			}
			return err
		}),
	})
	return group
}

func policyCommand(s *settings) *cobra.Command {
	group := &cobra.Command{Use: "policy", Short: "Repair the policy of a palyrad that does not start"}
	group.AddCommand(&cobra.Command{
		Use:   "reset",
		Short: "Return from an activated policy version to the policy directory",
		Long:  "Return from an activated policy version to the policy directory, for a palyrad that does not start because the version does not load any more. A palyrad that runs does this with `palyra policy reload`.",
		Args:  arguments(cobra.NoArgs),
		RunE: s.loaded(func(cmd *cobra.Command, cfg *config.Config) error {
			version, err := ResetPolicy(cmd.Context(), cfg)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "policy version %s is not activated any more; the policy directory counts from the next start\n", version)
			}
			return err
		}),
	})
	return group
}

func doctorCommand(s *settings) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "doctor", Short: "Look at everything that the gateway stands on", Args: arguments(cobra.NoArgs),
		Long: "Look at everything that the gateway stands on: keys, journal, disk, clock, ports, policies and the sandbox. Each layer of the sandbox is tried twice: the forbidden thing has to fail with it, and to happen with this one layer left out.\n\nIt works with no daemon and beside one, and changes nothing. Run it as the user that palyrad runs as. It exits 1 when something failed; warnings do not count.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return misused(cmd, fmt.Errorf("--output %q: want table or json", output))
			}
			cfg, err := s.load()
			if err != nil {
				return err
			}
			return doctor.Write(cmd.OutOrStdout(), doctor.Examine(cmd.Context(), examined(cfg)), output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return c
}

// examined is what the doctor looks at: the gateway that the settings would
// make.
func examined(cfg *config.Config) doctor.Config {
	return doctor.Config{
		Settings:  cfg,
		OpenStore: func(ctx context.Context) (doctor.Store, error) { return openReadOnly(ctx, cfg.StateDir) },
		Reserve:   func() (held, size int64, err error) { return reserveOf(cfg) },
		Listen:    listen,
		Workspaces: func() error {
			_, err := openWorkspaces(cfg)
			return err
		},
		Tools:     func() ([]tool.Descriptor, error) { return describedTools(cfg) },
		Sandboxes: func(at places.Places) []sandbox.Step { return ladder.Steps(cfg.ProcessRunner, at) },
		Lowest:    ladder.Lowest(cfg.ProcessRunner),
	}
}

// describedTools are the definitions of the daemon's own tools, which do not
// depend on whether they could run.
func describedTools(cfg *config.Config) ([]tool.Descriptor, error) {
	ws, err := openWorkspaces(cfg)
	if err != nil {
		ws, err = workspace.NewSet(nil) // is found by another exam
	}
	if err != nil {
		return nil, err
	}
	settings, err := builtinConfig(cfg, ws, isolation{})
	if err != nil {
		return nil, err
	}
	var list []tool.Descriptor
	for _, t := range builtin.New(settings) {
		list = append(list, t.Descriptor())
	}
	return list, nil
}

func sandboxCommand() *cobra.Command {
	c := &cobra.Command{Use: "sandbox", Short: "The sandbox without the gateway"}
	c.AddCommand(exec.Command(ladder.Steps))
	return c
}

// ExitError ends palyrad with a code of its own.
type ExitError = exec.ExitError
