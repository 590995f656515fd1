package catalog

import (
	"context"

	"palyra/internal/core/access"
)

// Space identifies the storage of one skill for one user.
type Space struct {
	Skill string
	// User is the user on whose behalf calls are made, "user:ann".
	User string
}

// Storage stores data of skills. Spaces are isolated from each other.
type Storage interface {
	// Get returns NOT_FOUND for a key without a value.
	Get(ctx context.Context, s Space, key string) ([]byte, error)
	// Put stores a value. The keys and values of the space may have at most most bytes in total;
	// beyond that Put returns QUOTA_EXCEEDED and changes nothing.
	Put(ctx context.Context, s Space, key string, value []byte, most int64) error
	Delete(ctx context.Context, s Space, key string) error
	// List returns the keys with a prefix, sorted.
	List(ctx context.Context, s Space, prefix string) ([]string, error)
}

// spaceOf returns the space for a caller's calls.
func spaceOf(skill string, c access.Caller) Space {
	user := c.OnBehalfOf
	if user.IsZero() {
		user = c.Principal
	}
	return Space{skill, user.String()}
}
