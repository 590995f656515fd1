package jail

import (
	"os"
	"sync"

	"palyra/internal/core/reason"
)

// The users of sandboxes when the daemon is root, unless the configuration
// says otherwise. They belong to no account and no system range.
const (
	DefaultFirstUser = 1_900_000_000
	DefaultUsers     = 4096
)

// User is who a sandbox is on the host.
type User struct{ UID, GID int }

// users hands out a user for each sandbox, one at a time to each, so that
// limits per user and signals between users hold between sandboxes, too.
type users struct {
	// one, when not nil, is the user of all: where the layer is left out.
	one *User

	mu   sync.Mutex
	free []int
	next int
	last int
}

func newUsers(c Config) *users {
	first, count := c.FirstUser, c.Users
	if first == 0 {
		first = DefaultFirstUser
	}
	if count == 0 {
		count = DefaultUsers
	}
	return &users{next: first, last: first + count - 1}
}

// take returns a user that nothing runs as. The one that was given back last
// comes first: views of workspaces for it are at hand.
func (u *users) take() (User, error) {
	if u == nil {
		return User{os.Geteuid(), os.Getegid()}, nil
	}
	if u.one != nil {
		return *u.one, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	id := u.next
	if n := len(u.free); n > 0 {
		id, u.free = u.free[n-1], u.free[:n-1]
	} else if u.next > u.last {
		return User{}, reason.Errorf(reason.SandboxUnavailable, "all users of sandboxes are in use")
	} else {
		u.next++
	}
	return User{id, id}, nil
}

// give takes back a user of whose processes none is left.
func (u *users) give(user User) {
	if u == nil || u.one != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.free = append(u.free, user.UID)
}
