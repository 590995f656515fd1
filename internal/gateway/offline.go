package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"filippo.io/age"

	"palyra/internal/call/approval"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/version"
	"palyra/internal/evidence/journal"
	"palyra/internal/gateway/presencehost"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/ops/backup"
	"palyra/internal/ops/journalkey"
	"palyra/internal/ops/keyadmin"
	"palyra/internal/ops/vaultkey"
	"palyra/internal/surface/api"
	"palyra/internal/vault"
	"palyra/internal/vault/kek"
)

// NewOperator describes a person or an agent to add on this host.
type NewOperator struct {
	Name string
	// Roles are the roles of a user; an agent has the role agent.
	Roles []access.Role
	// Owner makes the member an agent that acts for this user.
	Owner access.Principal
	// Dir is the directory of the new credential bundle; it MUST NOT exist.
	Dir string
	// AcceptLoss means that the operator accepts that members lose the ability to answer
	// approvals.
	AcceptLoss bool
}

// AddOperator adds a member and writes a credential bundle for it. It works on the state directory
// when no daemon holds it, and through the daemon's API, as the local operator, when one does. It
// returns the device's id. One process at a time may write the store, because it keeps the head of
// the chain in memory. The private key is created by this process in both cases.
func AddOperator(ctx context.Context, cfg *config.Config, n NewOperator) (device string, err error) {
	err = writeBundle(n.Dir, func(csr []byte) (made identity.Bundle, err error) {
		err = onHost(ctx, cfg, func(own identity.Bundle) (err error) {
			device, made, err = api.AddMember(ctx, own, api.NewMember{
				Name: n.Name, Kind: n.kind(), Roles: n.Roles, Owner: n.Owner, Request: csr, AcceptLoss: n.AcceptLoss,
			})
			return err
		}, func(service *identity.Service, certified func(ca.Issued) identity.Bundle) error {
			added, err := service.Members.AddMember(ctx, identity.Daemon(), n.Name, n.kind(), n.Roles, n.Owner, csr, n.AcceptLoss)
			device, made = added.Device.ID, certified(added.Certificate)
			return err
		})
		return made, err
	})
	return device, err
}

// NewBundle describes a new credential for a member whose credential is lost.
type NewBundle struct {
	// Member is "user:bob", "agent:helper", or a name alone.
	Member string
	// Dir is the directory of the new credential bundle; it MUST NOT exist.
	Dir        string
	RevokeOld  bool
	AcceptLoss bool
}

// MadeBundle holds the new device, its owner, and the devices revoked for it.
type MadeBundle struct {
	Device  string
	Member  string
	Revoked []string
}

// MakeBundle gives a member another device and writes a credential bundle for it. Like AddOperator,
// it works with or without a running daemon.
func MakeBundle(ctx context.Context, cfg *config.Config, n NewBundle) (made MadeBundle, err error) {
	err = writeBundle(n.Dir, func(csr []byte) (bundle identity.Bundle, err error) {
		r := identity.Recovery{Member: n.Member, Request: csr, RevokeOld: n.RevokeOld, AcceptLoss: n.AcceptLoss}
		err = onHost(ctx, cfg, func(own identity.Bundle) error {
			res, b, err := api.AddDevice(ctx, own, r)
			bundle = b
			made = MadeBundle{Device: res.GetDevice().GetDeviceId(), Member: res.GetDevice().GetPrincipal(), Revoked: res.GetRevoked()}
			return err
		}, func(service *identity.Service, certified func(ca.Issued) identity.Bundle) error {
			added, err := service.Devices.AddDevice(ctx, identity.Daemon(), "", r)
			bundle, made = certified(added.Certificate), MadeBundle{Device: added.Device.ID, Member: added.Device.Principal.String()}
			for _, old := range added.Revoked {
				made.Revoked = append(made.Revoked, old.ID)
			}
			return err
		})
		return bundle, err
	})
	return made, err
}

func (n NewOperator) kind() access.Kind {
	if n.Owner.IsZero() {
		return access.KindUser
	}
	return access.KindAgent
}

// writeBundle creates a key in a directory and writes the bundle of the certificate that
// certify gets for it. If certify fails, it removes the directory.
func writeBundle(dir string, certify func(csr []byte) (identity.Bundle, error)) error {
	if _, err := os.Stat(dir); err == nil {
		return reason.Errorf(reason.AlreadyExists, "%s already exists", dir).
			WithRemedy("Name another directory with --out, or remove this one.")
	}
	key, err := identity.BundleKey(dir)
	if err != nil {
		return err
	}
	csr, err := identity.Request(key)
	if err != nil {
		return err
	}
	made, err := certify(csr)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	made.Key = key
	return identity.WriteBundle(dir, made)
}

// onHost calls online or offline: only one process may write the store. online sends its request to
// the running daemon as the local operator. offline runs while this process holds the state
// directory, and receives a function that creates a bundle from a certificate.
func onHost(ctx context.Context, cfg *config.Config, online func(own identity.Bundle) error,
	offline func(*identity.Service, func(ca.Issued) identity.Bundle) error,
) error {
	return onlineOrOffline(cfg, online, func() error {
		address, err := offlineAddress(cfg)
		if err != nil {
			return err
		}
		return withStores(ctx, cfg, func(s stores, authority *ca.Authority) error {
			_, service, err := openIdentity(ctx, s.identity, authority, cfg.Roles, change.Unguarded)
			if err != nil {
				return err
			}
			local := identity.LocalConfig{Dir: statedir.Operator(cfg.StateDir), Address: address, ServerName: serverName}
			if _, _, err := service.Local.Start(ctx, local); err != nil {
				return err
			}
			return offline(service, func(c ca.Issued) identity.Bundle {
				return identity.Bundle{Root: authority.Root(), Chain: c.Chain, Address: address, ServerName: serverName}
			})
		})
	})
}

// onlineOrOffline calls online with the credential of the local operator if a daemon holds the
// state directory. Otherwise it takes the state directory, calls offline, and releases it.
func onlineOrOffline(cfg *config.Config, online func(own identity.Bundle) error, offline func() error) (err error) {
	lock, err := takeState(cfg.StateDir)
	if errors.Is(err, statedir.ErrInUse) {
		own, err := identity.ReadBundle(statedir.Operator(cfg.StateDir))
		if err != nil {
			return err
		}
		if own.Kept != nil {
			return reason.Errorf(reason.NotConnected, "palyrad is running, and a request to it needs the local operator's key, which is kept elsewhere (%s)", own.Kept.Place).
				WithRemedy("Use the equivalent `palyra` command, such as `palyra members add`; or stop palyrad, repeat this command, and start it again.")
		}
		if err := online(own); reason.Of(err) != reason.Unauthenticated {
			return err
		}
		return reason.Errorf(reason.Unauthenticated, "the running palyrad no longer accepts the local operator: its device was revoked").
			WithRemedy("Stop palyrad, repeat this command, and start it again.")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	return offline()
}

// offlineAddress returns the address for a bundle while no daemon runs: the setting listen.api.
// If its port is 0, the next daemon gets another port at its start. The function then returns
// the address of the last daemon as the best guess, or an error if there is none.
func offlineAddress(cfg *config.Config) (string, error) {
	_, port, err := net.SplitHostPort(cfg.Listen.API)
	if err != nil {
		return "", reason.Errorf(reason.ConfigInvalid, "reading listen.api: %w", err)
	}
	if port != "0" {
		return reachable(cfg.Listen.API), nil
	}
	if own, err := identity.ReadBundle(statedir.Operator(cfg.StateDir)); err == nil {
		return own.Address, nil
	}
	return "", reason.Errorf(reason.ConfigInvalid, "listen.api is %q: the port is not known until palyrad runs", cfg.Listen.API).
		WithRemedy("Set a port in listen.api, or start palyrad first and add the member while it runs.")
}

// ListKeys lists the gateway's own keys, from the running daemon or from its state directory.
func ListKeys(ctx context.Context, cfg *config.Config) (list []keyadmin.Key, err error) {
	err = withKeys(ctx, cfg, func(own identity.Bundle) error {
		list, err = api.ListKeys(ctx, own)
		return err
	}, func(k *keyadmin.Keys) error {
		list = k.List()
		return nil
	})
	return list, err
}

// RotateKey replaces one of the gateway's own keys, through the running daemon or in its state
// directory.
func RotateKey(ctx context.Context, cfg *config.Config, name string) (r keyadmin.Rotation, err error) {
	err = withKeys(ctx, cfg, func(own identity.Bundle) error {
		r, err = api.RotateKey(ctx, own, name)
		return err
	}, func(k *keyadmin.Keys) error {
		r, err = k.Rotate(ctx, identity.Daemon().String(), name)
		return err
	})
	return r, err
}

// withKeys accesses the gateway's own keys: through the running daemon, or in a stopped gateway's
// state directory.
func withKeys(ctx context.Context, cfg *config.Config, online func(own identity.Bundle) error, offline func(*keyadmin.Keys) error) error {
	return onlineOrOffline(cfg, online, func() error {
		return withStores(ctx, cfg, func(s stores, authority *ca.Authority) error {
			log, err := journalkey.Open(ctx, s.journal, authority, journal.Options{})
			if err != nil {
				return err
			}
			return offline(&keyadmin.Keys{Authority: authority, Journal: log})
		})
	})
}

// SealKeys moves the keys of a state directory that no daemon holds into the configured TPM. moved
// is false if they are already there.
func SealKeys(cfg *config.Config) (places []ca.KeyPlace, moved bool, err error) {
	if cfg.Keys.Store != config.KeysInTPM {
		return nil, false, reason.Errorf(reason.ConfigInvalid, "keys.store is %q", cfg.Keys.Store).
			WithRemedy("Set keys.store to \"tpm\" first, and keys.tpm_device if the device is not %s.", cfg.Keys.TPMDevice)
	}
	lock, err := takeStopped(cfg.StateDir, "Stop palyrad, move the keys, and start it again.")
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	dir := statedir.Authority(cfg.StateDir)
	if moved, err = ca.Seal(dir, authorityOptions(cfg)); err != nil {
		return nil, false, err
	}
	authority, err := ca.Inspect(dir, authorityOptions(cfg))
	if err != nil {
		return nil, moved, err
	}
	return keyPlaces(authority, cfg), moved, nil
}

// PresenceKeys manages presence keys with the authority of the gateway's host. It uses the
// socket of the running daemon, because the local operator's key is not sufficient, or a
// stopped gateway's state directory.
func PresenceKeys(ctx context.Context, cfg *config.Config, do func(presencehost.Keys) error) (err error) {
	lock, err := takeState(cfg.StateDir)
	if errors.Is(err, statedir.ErrInUse) {
		return do(presencehost.Over(statedir.Socket(cfg.StateDir)))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	return withStores(ctx, cfg, func(s stores, authority *ca.Authority) error {
		registry, service, err := openIdentity(ctx, s.identity, authority, cfg.Roles, change.Unguarded)
		if err != nil {
			return err
		}
		keeper, err := openPasskeys(ctx, cfg, s, authority, registry, service.Directory)
		if err != nil {
			return err
		}
		return do(presencehost.Stored{Keys: service.PresenceKeys, Passkeys: keeper})
	})
}

// ConfirmMembers confirms members on behalf of the gateway's host: over the socket of the running
// palyrad, or in a stopped gateway's state directory. It confirms all members when names is empty,
// and returns the principals of the confirmed members.
func ConfirmMembers(ctx context.Context, cfg *config.Config, names []string) (confirmed []string, err error) {
	lock, err := takeState(cfg.StateDir)
	if errors.Is(err, statedir.ErrInUse) {
		return presencehost.Over(statedir.Socket(cfg.StateDir)).ConfirmMembers(ctx, names)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	err = withStores(ctx, cfg, func(s stores, authority *ca.Authority) error {
		_, service, err := openIdentity(ctx, s.identity, authority, cfg.Roles, change.Unguarded)
		if err != nil {
			return err
		}
		members, err := service.Confirmations.ConfirmOnHost(ctx, names)
		for _, p := range members {
			confirmed = append(confirmed, p.String())
		}
		return err
	})
	return confirmed, err
}

// ThawAlone ends the freeze with the authority of the gateway's host, in a state directory that no
// daemon holds. It returns the freeze that it ended.
func ThawAlone(ctx context.Context, cfg *config.Config) (was approval.FreezeState, err error) {
	lock, err := takeStopped(cfg.StateDir, "Stop palyrad first; while it runs, `palyra thaw` requires a second person.")
	if err != nil {
		return was, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	err = withStores(ctx, cfg, func(s stores, _ *ca.Authority) error {
		was, err = approval.ThawStored(ctx, s.approvals)
		return err
	})
	return was, err
}

// ResetPolicy makes the policy directory apply from the next start on, in a stopped gateway's state
// directory. It returns the version that was active.
func ResetPolicy(ctx context.Context, cfg *config.Config) (version string, err error) {
	lock, err := takeStopped(cfg.StateDir, "Use `palyra policy reload`, or stop palyrad and repeat this command.")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	err = withStores(ctx, cfg, func(s stores, _ *ca.Authority) error {
		version, err = policyadmin.Reset(ctx, s.policies)
		return err
	})
	return version, err
}

// BackUp writes a backup of the configured gateway, running or not.
func BackUp(ctx context.Context, cfg *config.Config, to string, recipients []age.Recipient) (backup.Written, error) {
	outside, err := outsideBackup(cfg)
	if err != nil {
		return backup.Written{}, err
	}
	return backup.Write(ctx, to, recipients, backup.Source{
		StateDir: cfg.StateDir, PolicyDir: cfg.Policy.Dir, ConfigFile: cfg.Source, Release: version.Get().Version,
		Snapshot: func(ctx context.Context, into string) error { return snapshotStore(ctx, cfg.StateDir, into) },
		SignHead: signStoredHead,
		Authority: func() (*ca.Authority, error) {
			return ca.Inspect(statedir.Authority(cfg.StateDir), authorityOptions(cfg))
		},
		Keys:    func(a *ca.Authority) []ca.KeyPlace { return keyPlaces(a, cfg) },
		Vault:   func(ctx context.Context) (*backup.Vault, error) { return carriedVault(ctx, cfg) },
		Outside: outside,
	})
}

// carriedVault returns the key of the vault for a backup, or nil if files of the state directory
// contain it. An unavailable key does not prevent the backup, which records that it is missing.
func carriedVault(ctx context.Context, cfg *config.Config) (*backup.Vault, error) {
	gateway, err := storedGateway(cfg)
	if err != nil {
		return nil, err
	}
	p, err := vaultkey.Carry(ctx, cfg, gateway)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return &backup.Vault{Missing: kek.NotCarried(err)}, nil
	case p == nil:
		return nil, nil
	}
	return &backup.Vault{Backend: p.Backend, Pin: p.Pin, Key: p.Key}, nil
}

// Restore creates a state directory from a backup.
func Restore(ctx context.Context, from string, t backup.Target) (backup.Result, error) {
	t.Verify, t.Valid = verifyStore, validIn
	return backup.Restore(ctx, from, t)
}

// outsideBackup lists the files that the gateway needs and that a backup does not contain.
func outsideBackup(cfg *config.Config) (list []string, err error) {
	if cfg.Keys.Store == config.KeysInTPM {
		list = append(list, "the keys in the TPM "+cfg.Keys.TPMDevice+": the backup works only on this machine, and not after the TPM was cleared")
	}
	kept, err := identity.KeptIn(statedir.Operator(cfg.StateDir))
	if err != nil {
		return nil, err
	}
	if kept != nil {
		list = append(list, fmt.Sprintf("the local operator's key, which is kept elsewhere (%s): `palyrad operator bundle local` creates another credential", kept.Place))
	}
	for _, p := range private(cfg) {
		if p.Path != cfg.StateDir && p.Path != cfg.Policy.Dir && p.Path != cfg.Source {
			list = append(list, p.Name+", "+p.Path)
		}
	}
	for _, w := range cfg.Workspaces {
		list = append(list, "workspace "+w.Name+", "+w.Path)
	}
	return list, nil
}

// MoveVault moves the vault's key to another backend, in a state directory that no daemon holds.
func MoveVault(ctx context.Context, cfg *config.Config, to kek.Target) (s kek.Status, err error) {
	err = withVault(ctx, cfg, "Stop palyrad, move the key, and start it again.", func(origin string, st stores) error {
		s, err = vaultkey.Move(ctx, cfg, origin, st.journal, to)
		return err
	})
	return s, err
}

// RecoverVault restores the vault's key from an export, in a state directory that no daemon holds.
func RecoverVault(ctx context.Context, cfg *config.Config, export, identity io.Reader) (s kek.Status, err error) {
	err = withVault(ctx, cfg, "Stop palyrad, recover the key, and start it again.", func(origin string, st stores) error {
		s, err = vaultkey.Recover(ctx, cfg, origin, st.journal, []vault.Boxes{st.secrets, st.resultsKeys}, export, identity)
		return err
	})
	return s, err
}

// withVault calls do with the stores of a gateway that does not run. remedy is the next step if it
// runs.
func withVault(ctx context.Context, cfg *config.Config, remedy string, do func(origin string, st stores) error) error {
	lock, err := takeStopped(cfg.StateDir, remedy)
	if err != nil {
		return err
	}
	err = withStores(ctx, cfg, func(st stores, authority *ca.Authority) error {
		origin, _, err := journalkey.Origin(authority)
		if err != nil {
			return err
		}
		return do(origin, st)
	})
	return errors.Join(err, lock.Release())
}
