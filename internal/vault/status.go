package vault

import (
	"context"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/vault/kek"
)

// Status is the state of the vault.
type Status struct {
	Keys kek.Status
	// Old are previous keys, while a rekey is in progress.
	Old []string
	// ExportedAt is when the current key was exported to a recovery key; zero if it
	// never was.
	ExportedAt time.Time
	Leases     []Lease
}

// Status returns the state of the vault, with the leases that the caller may see.
func (s *Service) Status(ctx context.Context, caller access.Caller) (Status, error) {
	if err := s.guard.may(caller, access.PermVaultList, Ref{}); err != nil {
		return Status{}, err
	}
	st := Status{Keys: s.Keys.keys.keys.Status(ctx)}
	var err error
	if st.Leases, err = s.Leases.List(caller); err != nil || st.Keys.Locked {
		return st, err
	}
	if st.Old, _, err = s.Keys.keys.old(ctx); err != nil {
		return st, err
	}
	list, err := s.Keys.store.Exports(ctx)
	for _, e := range list {
		if e.KEK == st.Keys.ID {
			st.ExportedAt = e.At
		}
	}
	return st, err
}
