package catalog

import (
	"context"

	"palyra/internal/core/access"
)

// Space is what one skill keeps for one user.
type Space struct {
	Skill string
	// User is on whose behalf calls are made, "user:ann".
	User string
}

// Storage keeps what skills store. Nothing of one space is seen from another.
type Storage interface {
	// Get is NOT_FOUND where nothing is kept under the key.
	Get(ctx context.Context, s Space, key string) ([]byte, error)
	// Put keeps a value. Keys and values of the space together have at most so many
	// bytes; beyond it is QUOTA_EXCEEDED, and nothing is changed.
	Put(ctx context.Context, s Space, key string, value []byte, most int64) error
	Delete(ctx context.Context, s Space, key string) error
	// List returns the keys with a prefix, in their order.
	List(ctx context.Context, s Space, prefix string) ([]string, error)
}

// spaceOf is where calls of a caller store.
func spaceOf(skill string, c access.Caller) Space {
	user := c.OnBehalfOf
	if user.IsZero() {
		user = c.Principal
	}
	return Space{skill, user.String()}
}
