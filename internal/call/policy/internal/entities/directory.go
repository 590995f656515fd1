// Package entities holds the principals, tools and other entities of a set of policies in the
// form that Cedar reads.
package entities

import (
	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/call/policy/internal/names"
	"palyra/internal/core/access"
)

// Directory holds the hydrated entities of one set. It MUST NOT be changed while its set is in
// force.
type Directory struct {
	Entities types.EntityMap
	// Ancestors are all entities above an entity, in no particular order.
	Ancestors map[types.EntityUID][]types.EntityUID
	// keys are the index keys of each entity; see requestKeys.
	keys    map[types.EntityUID][]types.EntityUID
	Members map[access.Principal]access.Member
	// Skills maps the tools of skills to their skills.
	Skills map[string]string
	// Voters are the users who could vote, sorted by name. Policy defines who may decide which
	// records.
	Voters []access.Member
}

// KeysOf returns the index keys of an entity, known or not.
func (d *Directory) KeysOf(uid types.EntityUID) []types.EntityUID {
	if keys, ok := d.keys[uid]; ok {
		return keys
	}
	return requestKeys(uid, nil)
}

// AnyEntity is the key of a scope that names nothing.
var AnyEntity = types.EntityUID{}

// IsKey is the key of a scope that names a type. No entity has this id, because strings of the
// language contain no NUL.
func IsKey(t types.EntityType) types.EntityUID { return types.NewEntityUID(t, "\x00is") }

// requestKeys returns the keys of the policies that may apply to uid.
func requestKeys(uid types.EntityUID, ancestors []types.EntityUID) []types.EntityUID {
	keys := make([]types.EntityUID, 0, len(ancestors)+3)
	keys = append(keys, AnyEntity, uid, IsKey(uid.Type))
	return append(keys, ancestors...)
}

// Principal returns the caller's entity and the entities of its requests. For an unregistered
// caller these include an entity without roles, which every ceiling denies.
func (d *Directory) Principal(p access.Principal) (types.EntityUID, *Overlay, bool) {
	uid, known := names.UID(p), &Overlay{Base: d.Entities}
	if uid.Type == "" {
		return uid, nil, false
	}
	if _, ok := d.Entities[uid]; ok {
		return uid, known, true
	}
	attributes := types.RecordMap{"name": types.String(p.Name)}
	switch uid.Type {
	case names.TypeUser:
		attributes["sole"] = types.False
	case names.TypeAgent:
		attributes["owner"] = types.NewEntityUID(names.TypeUser, names.Nobody)
	}
	known.Extra = append(known.Extra, types.Entity{UID: uid, Attributes: types.NewRecord(attributes)})
	return uid, known, true
}

// Requester returns the user who is responsible for a caller's calls, or zero. The registry,
// not the request, defines the owner of an agent.
func (d *Directory) Requester(c access.Caller) access.Principal {
	if m, ok := d.Members[c.Principal]; ok {
		if m.Principal.Kind == access.KindAgent {
			return m.Owner
		}
		return m.Principal
	}
	if c.OnBehalfOf.Kind == access.KindUser {
		return c.OnBehalfOf
	}
	return access.Principal{}
}

// Overlay adds the entities of one request to the directory's.
type Overlay struct {
	Base  types.EntityMap
	Extra []types.Entity
}

// Get looks up the request's own entities first.
func (o *Overlay) Get(uid types.EntityUID) (types.Entity, bool) {
	for i := range o.Extra {
		if o.Extra[i].UID == uid {
			return o.Extra[i], true
		}
	}
	e, ok := o.Base[uid]
	return e, ok
}

// TextSet converts texts to a set.
func TextSet[T ~string](list []T) types.Set {
	values := make([]types.Value, 0, len(list))
	for _, s := range list {
		values = append(values, types.String(s))
	}
	return types.NewSet(values...)
}
