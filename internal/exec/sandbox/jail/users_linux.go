package jail

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/uids"
)

// User is the user of a sandbox on the host.
type User struct{ UID, GID int }

// users assigns a separate user to each sandbox, so that limits per user and restrictions of
// signals between users also apply between sandboxes.
type users struct {
	ids *uids.Range
	// problem is the reason why no user is available, nil if one is.
	problem error
	// one, if not nil, is the user of all sandboxes: the layer is omitted.
	one *User

	mu   sync.Mutex
	free []int
	next int
	last int
}

func newUsers(c Config) *users {
	ids, err := uids.Request{First: c.FirstUser, Count: c.Users, Record: c.UserRecord}.Take()
	if err != nil {
		return &users{problem: err}
	}
	return &users{ids: ids, next: ids.First, last: ids.First + ids.Count - 1}
}

// close releases the users; on nil it does nothing.
func (u *users) close() error {
	if u == nil {
		return nil
	}
	return u.ids.Close()
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
	if u.problem != nil {
		return User{}, u.problem
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
