package daemon

import (
	"context"
	"errors"
	"net"
	"os"

	"palyra/internal/access"
	"palyra/internal/config"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/journal"
	"palyra/internal/journalkey"
	"palyra/internal/policyadmin"
	"palyra/internal/reason"
	"palyra/internal/rpc"
	"palyra/internal/statedir"
)

// NewOperator is a person, or an agent, to be added on this host.
type NewOperator struct {
	Name string
	// Roles are those of a user; an agent has the role agent.
	Roles []access.Role
	// Owner makes it an agent that acts for this user.
	Owner access.Principal
	// Dir is where the credential bundle goes; it must not exist.
	Dir string
}

// AddOperator adds a member and writes a credential bundle for it. It works on
// the state directory when no daemon holds it, and through the daemon's API,
// as the local operator, when one does. It returns the device's id.
func AddOperator(ctx context.Context, cfg *config.Config, n NewOperator) (string, error) {
	if _, err := os.Stat(n.Dir); err == nil {
		return "", reason.Errorf(reason.AlreadyExists, "%s exists already", n.Dir).
			WithRemedy("Name another directory with --out, or remove this one.")
	}
	key, err := identity.BundleKey(n.Dir)
	if err != nil {
		return "", err
	}
	csr, err := identity.Request(key)
	if err != nil {
		return "", err
	}
	device, made, err := addMember(ctx, cfg, n, csr)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(n.Dir))
	}
	made.Key = key
	return device, identity.WriteBundle(n.Dir, made)
}

func (n NewOperator) kind() access.Kind {
	if n.Owner.IsZero() {
		return access.KindUser
	}
	return access.KindAgent
}

// addMember takes the way that is open: only one process may write the store.
func addMember(ctx context.Context, cfg *config.Config, n NewOperator, csr []byte) (device string, made identity.Bundle, err error) {
	lock, err := statedir.Take(cfg.StateDir)
	if errors.Is(err, statedir.ErrInUse) {
		own, err := identity.ReadBundle(statedir.Operator(cfg.StateDir))
		if err != nil {
			return "", made, err
		}
		return rpc.AddMember(ctx, own, rpc.NewMember{Name: n.Name, Kind: n.kind(), Roles: n.Roles, Owner: n.Owner, Request: csr})
	}
	if err != nil {
		return "", made, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	address, err := offlineAddress(cfg)
	if err != nil {
		return "", made, err
	}
	err = withStores(ctx, cfg, func(s stores, authority *ca.Authority) error {
		_, service, err := openIdentity(ctx, s.identity, authority, cfg.Roles)
		if err != nil {
			return err
		}
		local := identity.LocalConfig{Dir: statedir.Operator(cfg.StateDir), Address: address, ServerName: serverName}
		if _, _, err := service.Start(ctx, local); err != nil {
			return err
		}
		added, err := service.AddMember(ctx, identity.Daemon(), n.Name, n.kind(), n.Roles, n.Owner, csr)
		if err != nil {
			return err
		}
		device = added.Device.ID
		made = identity.Bundle{Root: authority.Root(), Chain: added.Certificate.Chain, Address: address, ServerName: serverName}
		return nil
	})
	return device, made, err
}

// offlineAddress is the address for a bundle while no daemon runs: that of
// listen.api. When its port is 0, the next daemon gets another port at its start;
// the address of the last daemon is then the best guess, and without one there is
// an error.
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
	return "", reason.Errorf(reason.ConfigInvalid, "listen.api is %q: which port palyrad will have is not known before it runs", cfg.Listen.API).
		WithRemedy("Set a port in listen.api, or start palyrad first and add the member while it runs.")
}

// RotateJournalKey replaces the checkpoint key in a state directory that no
// daemon holds.
func RotateJournalKey(ctx context.Context, cfg *config.Config) (r journal.Rotation, err error) {
	lock, err := takeStopped(cfg.StateDir, "Stop palyrad, rotate the key, and start it again.")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	err = withStores(ctx, cfg, func(s stores, authority *ca.Authority) error {
		log, err := journalkey.Open(ctx, s.journal, authority, journal.Options{})
		if err != nil {
			return err
		}
		r, err = journalkey.Rotate(ctx, log, authority)
		return err
	})
	return r, err
}

// ResetPolicy ends the activation of a policy version in a state directory that
// no daemon holds. It returns the version.
func ResetPolicy(ctx context.Context, cfg *config.Config) (version string, err error) {
	lock, err := takeStopped(cfg.StateDir, "Use `palyra policy reload`: palyrad runs.")
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
