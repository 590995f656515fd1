package notify

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
)

// Members returns members and reports whether they may act (access.Registry).
type Members interface {
	Active(p access.Principal) (access.Member, bool)
	Get(p access.Principal) (access.Member, bool)
}

// Consents checks whether a caller acts for itself.
type Consents interface {
	// OwnWord returns nil if no other member can act as the caller (identity.Consents.OwnWord).
	OwnWord(by access.Caller) error
}

// Users maps users of a chat to members. Names and mail addresses in the chat are not used: an
// admin maps ids. An admin who maps their own account to another member could otherwise vote as
// that member, so a user can vote only after the member has consented.
type Users struct {
	store    ChatUserStore
	members  Members
	consents Consents
	guard    change.Guard
	now      func() time.Time

	// acting is held while a mapping is changed.
	acting sync.Mutex
	mu     sync.RWMutex
	list   []ChatUser
}

// NewUsers returns the users with the mappings in the store.
func NewUsers(ctx context.Context, store ChatUserStore, members Members, consents Consents, guard change.Guard, now func() time.Time) (*Users, error) {
	list, err := store.ChatUsers(ctx)
	if err != nil {
		return nil, err
	}
	return &Users{store: store, members: members, consents: consents, guard: guard, now: now, list: list}, nil
}

// Find returns the mapping of a user.
func (u *Users) Find(team, user string) (ChatUser, bool) {
	return u.find(func(c ChatUser) bool { return c.Team == team && c.User == user })
}

// Live reports whether votes by the mapping with the id count.
func (u *Users) Live(id string) bool {
	c, found := u.find(func(c ChatUser) bool { return c.ID == id })
	return found && c.Votes()
}

// Waiting returns the mappings to a member that wait for the member's consent.
func (u *Users) Waiting(member access.Principal) []ChatUser {
	return slices.DeleteFunc(u.List(), func(c ChatUser) bool { return c.Member != member || c.Votes() })
}

func (u *Users) find(is func(ChatUser) bool) (ChatUser, bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	i := slices.IndexFunc(u.list, is)
	if i < 0 {
		return ChatUser{}, false
	}
	return u.list[i], true
}

// List returns all mappings, ordered by team and user.
func (u *Users) List() []ChatUser {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return slices.Clone(u.list)
}

// The forms of Slack's ids.
var (
	teamForm = lazyregexp.New(`^T[A-Z0-9]{2,30}$`)
	userForm = lazyregexp.New(`^[UW][A-Z0-9]{2,30}$`)
)

// ParseChatUser parses text such as "T012AB3CD/U012AB3CD".
func ParseChatUser(text string) (team, user string, err error) {
	team, user, _ = strings.Cut(text, "/")
	if !teamForm.MatchString(team) || !userForm.MatchString(user) {
		return "", "", reason.Errorf(reason.InvalidInput, "%q is not a valid Slack user: want TEAM/USER by their ids, such as T012AB3CD/U012AB3CD", text).
			WithRemedy("In Slack, open the profile of the person and choose Copy member ID. The team id starts with T and is part of the URL of the workspace in a browser.")
	}
	return team, user, nil
}

// mappingPayload is the payload of event.ChatUserMapped, event.ChatUserGone and event.ChatConsent.
type mappingPayload struct {
	ID        string           `json:"mapping_id"`
	Team      string           `json:"team"`
	User      string           `json:"user"`
	Member    access.Principal `json:"member"`
	Principal access.Principal `json:"principal"`
	// Consented is true if the user may vote as the member from now on.
	Consented bool `json:"consented"`
}

func (c ChatUser) draft(code event.Code, by access.Caller) (event.Draft, error) {
	d, err := event.DraftOf(code, by.Principal.String(), c.ID, mappingPayload{c.ID, c.Team, c.User, c.Member, by.Principal, c.Votes()})
	if err != nil {
		return d, err
	}
	return d.By(by.DeviceID)
}

// CheckMap returns an error if a user cannot be mapped. Otherwise it reports whether the mapping
// would change anything.
func (u *Users) CheckMap(team, user string, member access.Principal) (changes bool, err error) {
	m, known := u.members.Get(member)
	if !known || m.Removed() || member.Kind != access.KindUser {
		return false, reason.Errorf(reason.NotFound, "%s is not a member who can answer in a chat", member).
			WithRemedy("Name a user; `palyra members list` lists them.")
	}
	was, found := u.Find(team, user)
	return !found || was.Member != member, nil
}

// Map maps a user to a member. It replaces an earlier mapping. A member who maps an account to
// themselves also consents.
func (u *Users) Map(ctx context.Context, by access.Caller, team, user string, member access.Principal) (ChatUser, error) {
	if err := u.guard.Check(ctx, change.MapChatUser); err != nil {
		return ChatUser{}, err
	}
	u.acting.Lock()
	defer u.acting.Unlock()
	changes, err := u.CheckMap(team, user, member)
	if err != nil {
		return ChatUser{}, err
	}
	if was, found := u.Find(team, user); found && !changes {
		return was, nil
	}
	c := ChatUser{ID: ulid.Make().String(), Team: team, User: user, Member: member, By: by.Principal, At: u.now().UTC().Truncate(time.Microsecond)}
	if by.Principal == member && u.consents.OwnWord(by) == nil {
		c.ConsentedAt = c.At
	}
	return u.put(ctx, by, c, event.ChatUserMapped)
}

// put stores a mapping, and then makes it visible. The caller must hold u.acting.
func (u *Users) put(ctx context.Context, by access.Caller, c ChatUser, code event.Code) (ChatUser, error) {
	draft, err := c.draft(code, by)
	if err == nil {
		err = u.store.PutChatUser(ctx, c, draft)
	}
	if err != nil {
		return ChatUser{}, err
	}
	u.updateList(func(list []ChatUser) []ChatUser {
		list = append(slices.DeleteFunc(list, func(o ChatUser) bool { return o.Team == c.Team && o.User == c.User }), c)
		slices.SortFunc(list, func(a, b ChatUser) int { return strings.Compare(a.Team+"/"+a.User, b.Team+"/"+b.User) })
		return list
	})
	return c, nil
}

// Consent allows a user to vote as the caller, or withdraws that consent. It is idempotent. A
// withdrawal requires only a credential of the member.
func (u *Users) Consent(ctx context.Context, by access.Caller, team, user string, withdraw bool) (ChatUser, error) {
	u.acting.Lock()
	defer u.acting.Unlock()
	c, found := u.Find(team, user)
	if !found || c.Member != by.Principal {
		return ChatUser{}, reason.Errorf(reason.NotFound, "the user %s/%s is not mapped to %s", team, user, by.Principal).
			WithRemedy("Ask an admin to map you: `palyra notify slack map %s/%s %s`. `palyra notify slack list` lists the mappings.", team, user, by.Principal)
	}
	if !withdraw {
		if err := u.consents.OwnWord(by); err != nil {
			return ChatUser{}, err
		}
	}
	if c.Votes() != withdraw {
		return c, nil
	}
	c.ConsentedAt = time.Time{}
	if !withdraw {
		c.ConsentedAt = u.now().UTC().Truncate(time.Microsecond)
	}
	return u.put(ctx, by, c, event.ChatConsent)
}

// Unmap removes the mapping of a user. Votes of the user on open approvals no longer count.
func (u *Users) Unmap(ctx context.Context, by access.Caller, team, user string) (ChatUser, error) {
	u.acting.Lock()
	defer u.acting.Unlock()
	c, found := u.Find(team, user)
	if !found {
		return c, reason.Errorf(reason.NotFound, "%s/%s is not mapped to a member", team, user).WithRemedy("List the mappings with `palyra notify slack list`.")
	}
	draft, err := c.draft(event.ChatUserGone, by)
	if err == nil {
		err = u.store.DropChatUser(ctx, c.ID, draft)
	}
	if err != nil {
		return c, err
	}
	u.updateList(func(list []ChatUser) []ChatUser {
		return slices.DeleteFunc(list, func(o ChatUser) bool { return o.ID == c.ID })
	})
	return c, nil
}

func (u *Users) updateList(change func([]ChatUser) []ChatUser) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = change(slices.Clone(u.list))
}
