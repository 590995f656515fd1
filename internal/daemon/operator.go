package daemon

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"connectrpc.com/connect"
	"golang.org/x/mod/sumdb/note"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/access"
	"palyra/internal/config"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/journal"
	"palyra/internal/reason"
	"palyra/internal/rpc"
	"palyra/internal/sqlite"
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
	made, err := addMember(ctx, cfg, n, csr)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(n.Dir))
	}
	made.bundle.Key = key
	return made.device, identity.WriteBundle(n.Dir, made.bundle)
}

type madeMember struct {
	device string
	bundle identity.Bundle
}

func (n NewOperator) kind() access.Kind {
	if n.Owner.IsZero() {
		return access.KindUser
	}
	return access.KindAgent
}

// addMember takes the way that is open: only one process may write the store.
func addMember(ctx context.Context, cfg *config.Config, n NewOperator, csr []byte) (madeMember, error) {
	lock, err := lockState(cfg.StateDir)
	if errors.Is(err, errInUse) {
		return addOnline(ctx, cfg, n, csr)
	}
	if err != nil {
		return madeMember{}, err
	}
	made, err := addOffline(ctx, cfg, n, csr)
	return made, errors.Join(err, lock.release())
}

// addOffline adds to a store that no daemon holds.
func addOffline(ctx context.Context, cfg *config.Config, n NewOperator, csr []byte) (made madeMember, err error) {
	address, err := offlineAddress(cfg)
	if err != nil {
		return made, err
	}
	authority, _, err := ca.Open(filepath.Join(cfg.StateDir, "ca"), ca.Options{TrustDomain: cfg.TrustDomain, ServerHosts: cfg.Listen.ServerNames})
	if err != nil {
		return made, err
	}
	origin, known, err := checkpointKeys(authority)
	if err != nil {
		return made, err
	}
	db, err := sqlite.Open(ctx, storePath(cfg.StateDir), sqlite.Options{Origin: origin, Verifiers: known})
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	_, service, err := openIdentity(ctx, db, authority, cfg.Roles)
	if err != nil {
		return made, err
	}
	local := identity.LocalConfig{Dir: operatorDir(cfg.StateDir), Address: address, ServerName: serverName}
	if _, _, err := service.Start(ctx, local); err != nil {
		return made, err
	}
	added, err := service.AddMember(ctx, identity.Daemon(), n.Name, n.kind(), n.Roles, n.Owner, csr)
	if err != nil {
		return made, err
	}
	return madeMember{device: added.Device.ID, bundle: identity.Bundle{
		Root: authority.Root(), Chain: added.Certificate.Chain, Address: local.Address, ServerName: serverName,
	}}, nil
}

// offlineAddress is where the next daemon will be reached. With port 0 that is
// only known while one runs; the last one's address is the best guess, and
// without one there is nothing to write into a bundle.
func offlineAddress(cfg *config.Config) (string, error) {
	_, port, err := net.SplitHostPort(cfg.Listen.API)
	if err != nil {
		return "", reason.Errorf(reason.ConfigInvalid, "reading listen.api: %w", err)
	}
	if port != "0" {
		return reachable(cfg.Listen.API), nil
	}
	if own, err := identity.ReadBundle(operatorDir(cfg.StateDir)); err == nil {
		return own.Address, nil
	}
	return "", reason.Errorf(reason.ConfigInvalid, "listen.api is %q: which port palyrad will have is not known before it runs", cfg.Listen.API).
		WithRemedy("Set a port in listen.api, or start palyrad first and add the member while it runs.")
}

// addOnline asks the daemon that holds the store.
func addOnline(ctx context.Context, cfg *config.Config, n NewOperator, csr []byte) (madeMember, error) {
	own, err := identity.ReadBundle(operatorDir(cfg.StateDir))
	if err != nil {
		return madeMember{}, err
	}
	der, _ := pem.Decode(csr)
	if der == nil {
		return madeMember{}, errors.New("the certificate request is not PEM")
	}
	client := palyrav1connect.NewAccessServiceClient(
		&http.Client{Transport: &http.Transport{TLSClientConfig: own.ClientTLS(), ForceAttemptHTTP2: true}}, "https://"+own.Address)
	roles := make([]string, len(n.Roles))
	for i, r := range n.Roles {
		roles[i] = string(r)
	}
	res, err := client.AddMember(ctx, &palyrav1.AddMemberRequest{
		Name: n.Name, Kind: string(n.kind()), Roles: roles, Owner: n.Owner.String(), CertificateRequest: der.Bytes,
	})
	if err != nil {
		return madeMember{}, fmt.Errorf("asking the running palyrad to add %s: %w", n.Name, asReason(err))
	}
	chain, err := ca.ParseChain([]byte(res.GetCertificateChain()))
	if err != nil {
		return madeMember{}, fmt.Errorf("reading the certificate of %s: %w", n.Name, err)
	}
	return madeMember{device: res.GetDeviceId(), bundle: identity.Bundle{
		Root: own.Root, Chain: chain, Address: own.Address, ServerName: res.GetServerName(),
	}}, nil
}

// asReason gives an error of the API back the reason that it was sent with.
func asReason(err error) error {
	var remote *connect.Error
	if !errors.As(err, &remote) {
		return err
	}
	for _, detail := range remote.Details() {
		value, decodeErr := detail.Value()
		if decodeErr != nil {
			continue
		}
		if info, ok := value.(*errdetails.ErrorInfo); ok && info.GetDomain() == rpc.ErrorDomain {
			return &reason.Error{Code: reason.Code(info.GetReason()), Message: remote.Message(), Remedy: info.GetMetadata()["remedy"]}
		}
	}
	return err
}

// checkpointKeys are the journal's origin and the keys that verify it.
func checkpointKeys(authority *ca.Authority) (string, note.Verifiers, error) {
	keys := signingKeys(authority)
	known, err := journal.NewSigners(keys...)
	if err != nil {
		return "", nil, err
	}
	current, err := note.NewVerifier(keys[0].Verifier)
	if err != nil {
		return "", nil, fmt.Errorf("reading the checkpoint key: %w", err)
	}
	return current.Name(), known, nil
}
