package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/manpage"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/tool"
	"palyra/internal/core/version"
	"palyra/internal/exec/builtin"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/exec"
	"palyra/internal/exec/sandbox/ladder"
	"palyra/internal/exec/sandbox/places"
	"palyra/internal/exec/sandbox/seatbelt"
	"palyra/internal/exec/upstream/packages"
	"palyra/internal/exec/wasm"
	"palyra/internal/exec/workspace"
	"palyra/internal/gateway/doctor"
	"palyra/internal/identity/ca"
	"palyra/internal/ops/backup"
	"palyra/internal/ops/keyadmin"
	"palyra/internal/ops/vaultkey"
	"palyra/internal/vault/kek"
)

func operatorCommand(s *settings) *cobra.Command {
	operator := &cobra.Command{Use: "operator", Short: "Add people and agents on this host, and give lost credentials back"}
	operator.AddCommand(addCommand(s), bundleCommand(s))
	return operator
}

func addCommand(s *settings) *cobra.Command {
	var roles []string
	var owner, out string
	var yes bool
	add := &cobra.Command{
		Use:   "add NAME --role ROLE",
		Short: "Add a member and write a credential bundle for it",
		Long:  "Add a member and write a credential bundle for it: a directory with ca.pem, cert.pem, key.pem and endpoint, which palyra, curl and grpcurl can use. Hand it over on a channel that you trust; it is the person.\n\nWith --owner the member is an agent that acts for that user, once the user consents (`palyra members consent NAME`). A second user who answers approvals ends that the first one answers for their own calls: it is asked before that.",
		Args:  arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return addOperator(cmd, s, args[0], roles, owner, out, yes)
		},
	}
	add.Flags().StringSliceVar(&roles, "role", nil, "owner, admin, operator, auditor, developer, agent, or a declared role; may be repeated")
	add.Flags().StringVar(&owner, "owner", "", "make an agent that acts for this `USER`")
	add.Flags().StringVar(&out, "out", "", "directory of the bundle (default: ./NAME.palyra)")
	add.Flags().BoolVar(&yes, "yes", false, "do not ask if a member loses the power to answer approvals")
	return add
}

func bundleCommand(s *settings) *cobra.Command {
	n := NewBundle{}
	var yes bool
	c := &cobra.Command{
		Use:   "bundle NAME",
		Short: "Add a device to a member, and write its credential bundle",
		Long:  "Add a device to a member who lost their credential, and write its credential bundle, a directory as `operator add` writes it. NAME is a user or an agent; user:NAME and agent:NAME are unambiguous.\n\nWith --revoke-old the member's other devices are revoked, and pending approvals with their votes must be answered again; otherwise these devices stay valid. `palyra status` shows it to the member and the owners for seven days, and the journal records it (PAL-I108).",
		Args:  arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.Member = args[0]
			return makeBundle(cmd, s, n, yes)
		},
	}
	c.Flags().BoolVar(&n.RevokeOld, "revoke-old", false, "revoke the devices that the member has")
	c.Flags().StringVar(&n.Dir, "out", "", "directory of the bundle (default: ./NAME.palyra)")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask if a member loses the power to answer approvals")
	return c
}

func addOperator(cmd *cobra.Command, s *settings, name string, roles []string, owner, out string, yes bool) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	n := NewOperator{Name: name, Dir: bundleDir(out, name)}
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
	var device string
	err = afterWarning(cmd, yes, func(accept bool) (err error) {
		n.AcceptLoss = accept
		defer sayWaiting(cmd, cfg)()
		device, err = AddOperator(cmd.Context(), cfg, n)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", n.Dir)
	cmd.PrintErrf("added %s:%s with device %s\nnext: palyra --credentials %s status\n", n.kind(), name, device, n.Dir)
	return err
}

func makeBundle(cmd *cobra.Command, s *settings, n NewBundle, yes bool) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	_, name, of := strings.Cut(n.Member, ":")
	if !of {
		name = n.Member
	}
	n.Dir = bundleDir(n.Dir, name)
	var made MadeBundle
	err = afterWarning(cmd, yes, func(accept bool) (err error) {
		n.AcceptLoss = accept
		defer sayWaiting(cmd, cfg)()
		made, err = MakeBundle(cmd.Context(), cfg, n)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", n.Dir)
	cmd.PrintErrf("%s has another device, %s; the member and the owners are notified\n", made.Member, made.Device)
	for _, old := range made.Revoked {
		cmd.PrintErrf("revoked device %s\n", old)
	}
	if !n.RevokeOld {
		cmd.PrintErrln("the devices that it had keep their power: `palyra devices list`, `palyra devices revoke ID`")
	}
	cmd.PrintErrf("next: palyra --credentials %s status\n", n.Dir)
	return err
}

func bundleDir(out, name string) string {
	if out == "" {
		return name + ".palyra"
	}
	return out
}

// afterWarning makes a change. If a member loses the ability to answer approvals, it first prints
// the loss and requires a confirmation at the terminal, or --yes.
func afterWarning(cmd *cobra.Command, yes bool, change func(accept bool) error) error {
	err := change(false)
	if reason.Of(err) != reason.LossNotAccepted {
		return err
	}
	in, isFile := cmd.InOrStdin().(*os.File)
	asked := isFile && term.IsTerminal(int(in.Fd()))
	if !yes && !asked {
		return err
	}
	cmd.PrintErrf("warning: %v\n", err)
	if !yes {
		cmd.PrintErr("Go on all the same? [y/N] ")
		answer, _ := bufio.NewReader(in).ReadString('\n')
		if a := strings.TrimSpace(answer); a != "y" && a != "yes" {
			cmd.PrintErrln("nothing was changed")
			return ExitError{Code: reason.ExitFailure}
		}
	}
	return change(true)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the release of palyrad, with its commit, date, builder and SBOM", Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var text strings.Builder
			for _, f := range version.Get().Fields() {
				fmt.Fprintf(&text, "%-9s%s\n", f[0], f[1])
			}
			_, err := io.WriteString(cmd.OutOrStdout(), text.String())
			return err
		},
	}
}

// manCommand writes the manual page.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man", Short: "Write the manual page, in roff", Args: arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), manpage.Page{Section: 8, Heading: groupOfFlag, SeeAlso: []string{"palyra(1)"}}.Write(cmd.Root()))
			return err
		},
	}
}

func keysCommand(s *settings) *cobra.Command {
	group := keyadmin.Command(keyadmin.Ways{
		List: func(ctx context.Context) ([]keyadmin.Key, error) {
			cfg, err := s.load()
			if err != nil {
				return nil, err
			}
			return ListKeys(ctx, cfg)
		},
		Rotate: func(ctx context.Context, name string) (keyadmin.Rotation, error) {
			cfg, err := s.load()
			if err != nil {
				return keyadmin.Rotation{}, err
			}
			return RotateKey(ctx, cfg, name)
		},
		Arguments: arguments,
	})
	group.AddCommand(sealCommand(s))
	return group
}

func backupCommand(s *settings) *cobra.Command {
	return backup.Command(backup.Ways{Arguments: arguments, Write: func(ctx context.Context, to string, recipients []age.Recipient) (backup.Written, error) {
		cfg, err := s.load()
		if err != nil {
			return backup.Written{}, err
		}
		return BackUp(ctx, cfg, to, recipients)
	}})
}

// restoreCommand reads no settings: the backup contains the gateway's settings.
func restoreCommand() *cobra.Command {
	return backup.RestoreCommand(backup.Ways{Arguments: arguments, Restore: Restore})
}

func vaultCommand(s *settings) *cobra.Command {
	return vaultkey.Command(vaultkey.Ways{Settings: s.load, Move: MoveVault, Recover: RecoverVault, Arguments: arguments})
}

func sealCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "seal",
		Short: "Move the keys of an existing gateway into the TPM that keys.tpm_device names",
		Long:  "Move the keys of an existing gateway into the TPM that keys.tpm_device names, while palyrad does not run and keys.store is \"tpm\". The seeds of the notary and the journal are sealed, and the TPM makes a new issuing key. The root stays a file: only a new gateway has its root made in the TPM. Earlier backups still contain the keys; rotate the keys if that matters.\n\nKeys cannot be moved out of the TPM. Sealed keys cannot be used on another machine, or after the TPM was cleared.",
		Args:  arguments(cobra.NoArgs),
		RunE: s.loaded(func(cmd *cobra.Command, cfg *config.Config) error {
			places, moved, err := SealKeys(cfg)
			if err != nil {
				return err
			}
			if !moved {
				cmd.PrintErrln("the keys are in the TPM already; nothing was changed")
			}
			for _, p := range places {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-9s%-6s%s\n", p.Key, p.Place, p.Detail); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func policyCommand(s *settings) *cobra.Command {
	group := &cobra.Command{Use: "policy", Short: "Reset the policies on the gateway's host"}
	group.AddCommand(&cobra.Command{
		Use:   "reset",
		Short: "Use the policy directory from the next start on",
		Long:  "Use the policy directory from the next start of palyrad on, in place of an activated version, also one that no longer loads, and of the last active policies if a changed directory requires a second person. It requires the uid of the state directory, and that palyrad does not run. The journal records it (PAL-P107), and `palyra status` shows it for seven days. While palyrad runs, use `palyra policy reload`.",
		Args:  arguments(cobra.NoArgs),
		RunE: s.loaded(func(cmd *cobra.Command, cfg *config.Config) error {
			version, err := ResetPolicy(cmd.Context(), cfg)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "policy version %s is no longer active; the policy directory is used from the next start\n", version)
			}
			return err
		}),
	})
	return group
}

func thawCommand(s *settings) *cobra.Command {
	var alone bool
	c := &cobra.Command{
		Use:   "thaw --alone",
		Short: "End a freeze from this host alone, while palyrad does not run",
		Long:  "End a freeze from this host alone, if no second person for `palyra thaw` is available. It requires the uid of the state directory, and that palyrad does not run. The journal records it (PAL-P103), and `palyra status` shows it for seven days.",
		Args:  arguments(cobra.NoArgs),
		RunE: s.loaded(func(cmd *cobra.Command, cfg *config.Config) error {
			if !alone {
				return misused(cmd, errors.New("pass --alone to confirm that this host decides alone"))
			}
			was, err := ThawAlone(cmd.Context(), cfg)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "the freeze of %s at %s is over; calls run again from the next start\n", was.By, was.At.Format(time.RFC3339))
			}
			return err
		}),
	}
	c.Flags().BoolVar(&alone, "alone", false, "decide from this host alone")
	return c
}

func membersCommand(s *settings) *cobra.Command {
	group := &cobra.Command{Use: "members", Short: "Confirm members on the gateway's host"}
	var all bool
	confirm := &cobra.Command{
		Use:   "confirm NAME...",
		Short: "Confirm that members are people of their own",
		Long: "Confirm that members are people of their own, while palyrad runs or not. A member who adds another one, changes its roles or gives it a device could act as it, so where policy requires two people the two count as one. A confirmation by the gateway's host ends that for every member.\n\n" +
			"While palyrad runs, the request goes over the socket in the state directory. Root may send it, and palyrad's own user where it is a service user that runs no agents. On other hosts run `palyra members confirm --host NAME`, which asks for the presence key of this device, or stop palyrad first.\n\n" +
			"The journal records it (PAL-I114), owners are notified, and `palyra status` shows it for seven days.",
		RunE: s.loaded(func(cmd *cobra.Command, cfg *config.Config) error {
			names := cmd.Flags().Args()
			if all == (len(names) > 0) {
				return misused(cmd, errors.New("name the members, or set --all"))
			}
			confirmed, err := ConfirmMembers(cmd.Context(), cfg, names)
			for _, p := range confirmed {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "confirmed %s\n", p); err != nil {
					return err
				}
			}
			return err
		}),
	}
	confirm.Flags().BoolVar(&all, "all", false, "all members")
	group.AddCommand(confirm)
	return group
}

func doctorCommand(s *settings) *cobra.Command {
	return examination(s, &cobra.Command{
		Use: "doctor", Short: "Check the gateway's installation",
		Long: "Check the gateway's installation: keys, journal, disk, clock, ports, policies and the sandbox. Each layer of the sandbox is tested twice: a forbidden action must fail with it, and succeed without it.\n\nIt works whether palyrad runs or not, and changes nothing. Run it as the user that palyrad runs as. It exits 1 when something failed; warnings do not count.",
	}, func(ctx context.Context, c doctor.Config) ([]doctor.Check, reason.Code) {
		return doctor.Examine(ctx, c), ""
	})
}

func checkCommand(s *settings) *cobra.Command {
	return examination(s, &cobra.Command{
		Use: "check", Short: "Check whether this palyrad can replace the one that is installed",
		Long: "Check whether this palyrad would start on a configuration and a state directory, before it replaces another one: it parses the configuration and the policies, opens keys, the vault's key and the store for reading, compares the store's schema with its own, and verifies the end of the journal.\n\nIt works while a palyrad runs, and changes nothing. Run it as the user that palyrad runs as.\n\nExit codes: 0, it would start; 2, the configuration, a policy, a workspace or the schema of the store prevents it; 8, a key, the vault or the journal is damaged or cannot be read; 1, any other error.",
	}, doctor.Ready)
}

// examination completes a command that prints the checks of examine. If one fails, the error has
// the code that examine returns, if any.
func examination(s *settings, c *cobra.Command, examine func(context.Context, doctor.Config) ([]doctor.Check, reason.Code)) *cobra.Command {
	var output string
	c.Args = arguments(cobra.NoArgs)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if output != "table" && output != "json" {
			return misused(cmd, fmt.Errorf("--output %q: want table or json", output))
		}
		cfg, err := s.load()
		if err != nil {
			return err
		}
		list, code := examine(cmd.Context(), examined(cfg))
		if err = doctor.Write(cmd.OutOrStdout(), list, output); err == nil || code == "" {
			return err
		}
		return reason.Errorf(code, "this palyrad would not start: %w", err).WithRemedy("Keep the palyrad that is installed until no check fails.")
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return c
}

// examined returns the configuration of the doctor: the gateway that the settings describe.
func examined(cfg *config.Config) doctor.Config {
	return doctor.Config{
		Settings: cfg,
		Authority: func() (*ca.Authority, error) {
			return ca.Inspect(statedir.Authority(cfg.StateDir), authorityOptions(cfg))
		},
		Places:    func(a *ca.Authority) []ca.KeyPlace { return keyPlaces(a, cfg) },
		Vault:     func(ctx context.Context) (kek.Status, error) { return examinedVault(ctx, cfg) },
		OpenStore: func(ctx context.Context) (doctor.Store, error) { return openReadOnly(ctx, cfg.StateDir) },
		Schema:    func() (have, newest int, err error) { return storedSchema(cfg.StateDir) },
		Reserve:   func() (held, size int64, err error) { return reserveOf(cfg) },
		Listen:    listen,
		Workspaces: func() error {
			_, err := openWorkspaces(cfg)
			return err
		},
		Tools:     func() ([]tool.Descriptor, error) { return describedTools(cfg) },
		Sandboxes: func(at places.Places) []sandbox.Step { return ladder.Steps(cfg.ProcessRunner, at) },
		Lowest:    ladder.Lowest(cfg.ProcessRunner),
		Groups:    ladder.Foresee,
		Worker:    func() string { return wasmWorker(cfg) },
		Guests: func(ctx context.Context, tierC sandbox.Runner, dir string) (string, error) {
			return probeGuests(ctx, cfg, tierC, dir)
		},
	}
}

// describedTools returns the definitions of the daemon's own tools, which do not depend on whether
// they could run.
func describedTools(cfg *config.Config) ([]tool.Descriptor, error) {
	ws, err := openWorkspaces(cfg)
	if err != nil {
		ws, err = workspace.NewSet(nil) // another exam reports this error
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
	if cfg.WASM.Enabled && cfg.WASM.AllowInlineModules {
		list = append(list, wasm.Inline{}.Descriptor())
	}
	return append(list, packages.Install{}.Descriptor()), nil
}

func sandboxCommand() *cobra.Command {
	c := &cobra.Command{Use: "sandbox", Short: "The sandbox without the gateway"}
	c.AddCommand(exec.Command(ladder.Steps))
	return c
}

// ExitError makes palyrad exit with a specific exit code.
type ExitError = exec.ExitError

// sandboxChildCommand runs palyrad as the helper of package seatbelt, which starts it inside a
// sandbox. It has no other use.
func sandboxChildCommand() *cobra.Command {
	return &cobra.Command{
		Use: seatbelt.ChildCommand, Hidden: true, Args: arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error { return seatbelt.Child() },
	}
}
