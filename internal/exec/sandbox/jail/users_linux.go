package jail

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
)

// The default users of sandboxes if the daemon is root. They belong to no account and no system
// range.
const (
	DefaultFirstUser = 1_900_000_000
	DefaultUsers     = 4096
)

// User is the user of a sandbox on the host.
type User struct{ UID, GID int }

// users assigns a separate user to each sandbox, so that limits per user and restrictions of
// signals between users also apply between sandboxes.
type users struct {
	// one, if not nil, is the user of all sandboxes: the layer is omitted.
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

// take returns an unused user. It prefers the most recently returned user, because the user's
// views of workspaces are cached.
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
		return User{}, reason.Errorf(reason.SandboxUnavailable, "all users of sandboxes are in use").WithCause(unix.EAGAIN)
	} else {
		u.next++
	}
	return User{id, id}, nil
}

// give makes a user available again. The user MUST NOT have remaining processes.
func (u *users) give(user User) {
	if u == nil || u.one != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.free = append(u.free, user.UID)
}
