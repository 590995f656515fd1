package policyadmin_test

import (
	"slices"
	"strings"
	"testing"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// household has an owner, a member ann who cannot decide, and an agent of ann.
type household struct{ oneOwner }

func (household) List() []access.Member {
	return []access.Member{
		{Principal: access.User("local"), Roles: []access.Role{access.RoleOwner}},
		{Principal: access.User("ann"), Roles: []access.Role{access.RoleDeveloper}},
		{Principal: access.Agent("bot"), Owner: access.User("ann"), Roles: []access.Role{access.RoleAgent}},
	}
}

// testAdmin is an Admin for a household. Its store outlives it.
type testAdmin struct {
	*policyadmin.Admin
	t     *testing.T
	store *sqlite.DB
	cut   *[]access.Principal
}

func newAdmin(t *testing.T, store *sqlite.DB, edit func(*config.Config)) testAdmin {
	t.Helper()
	var cut []access.Principal
	h := testAdmin{policyadmin.New(houseConfig(t, store, edit, func(p access.Principal, _ *reason.Error) { cut = append(cut, p) })), t, store, &cut}
	must.Do(t, h.Loader.Load(t.Context()))
	return h
}

func houseConfig(t *testing.T, store *sqlite.DB, edit func(*config.Config), cut func(access.Principal, *reason.Error)) policyadmin.Config {
	t.Helper()
	cfg := config.Default()
	cfg.StateDir = t.TempDir()
	edit(cfg)
	return policyadmin.Config{
		Guard:    change.Unguarded,
		Settings: cfg, Store: sqlite.NewPolicies(store), Journal: noJournal{}, Engine: &policy.Engine{}, Members: household{}, Tools: builtinTools{},
		Cut: cut, Swapped: func() {}, Log: (&gatewaytest.Log{}).Logger(),
	}
}

func (h testAdmin) set(name string, allowed bool) error {
	_, err := h.Ceilings.SetCeiling(h.t.Context(), operatorCaller(), policyadmin.Ceiling{Name: name, Allowed: allowed})
	return err
}

// lets reports whether a principal may call echo, from a channel or from none ("").
func (h testAdmin) lets(who access.Principal, channel string) bool {
	r := policytest.Request("echo", `{"text":"x"}`)
	r.Caller = access.Caller{Principal: who, OnBehalfOf: who, Surface: access.SurfaceCLI, Paired: true}
	r.Channel = channel
	return h.Active.Set().Evaluate(r, nil).Effect() == policy.Allow
}

func nothing(*config.Config) {}

// A ceiling that a command set applies immediately and after a restart. Calls that it excludes
// end.
func TestCeilingsByCommand(t *testing.T) {
	t.Parallel()
	store := sqlitetest.Open(t)
	h := newAdmin(t, store, nothing)
	bot, ann := access.Agent("bot"), access.User("ann")
	if !h.lets(bot, "") || h.lets(bot, "ops") {
		t.Fatal("at first everybody is let in, and no channel")
	}
	must.Do(t, h.set("channel:ops", true))
	must.Do(t, h.set("agent:bot", false))
	for _, when := range []string{"at once", "after a restart"} {
		if h.lets(bot, "") || !h.lets(ann, "ops") || h.lets(ann, "dev") {
			t.Errorf("%s: %v", when, h.Ceilings.Ceilings())
		}
		if when == "at once" && !slices.Equal(*h.cut, []access.Principal{bot}) {
			t.Errorf("what was open of %v ended", *h.cut)
		}
		h = newAdmin(t, store, nothing)
	}
	must.Do(t, h.set("agent:bot", true))
	must.Do(t, h.set("channel:ops", false))
	if !h.lets(bot, "") || h.lets(ann, "ops") {
		t.Errorf("taken back: %v", h.Ceilings.Ceilings())
	}
}

// The configuration has priority: no command, current or earlier, admits an entry that the
// configuration omits. The remedy names the key.
func TestConfigurationIsTheHigherCeiling(t *testing.T) {
	t.Parallel()
	store := sqlitetest.Open(t)
	must.Do(t, newAdmin(t, store, nothing).set("channel:ops", true))
	listed := func(c *config.Config) {
		c.AllowedPrincipals, c.AllowedChannels = []string{"user:local", "user:ann"}, []string{"dev", "qa"}
	}
	h := newAdmin(t, store, listed)
	ann := access.User("ann")
	if h.lets(access.Agent("bot"), "") || !h.lets(ann, "dev") || h.lets(ann, "ops") {
		t.Errorf("with a list: %v", h.Ceilings.Ceilings())
	}
	for name, key := range map[string]string{"agent:bot": "allowed_principals", "channel:ops2": "allowed_channels"} {
		err := h.set(name, true)
		if reason.Of(err) != reason.PermissionDenied || !strings.Contains(reason.Known(err, "").NextStep(), key+" of palyra.toml") {
			t.Errorf("%s: %v, %s", name, err, reason.Known(err, "").NextStep())
		}
	}
	must.Do(t, h.set("channel:dev", false))
	if h.lets(ann, "dev") || !h.lets(ann, "qa") {
		t.Errorf("narrowed: %v", h.Ceilings.Ceilings())
	}
	// Control: the remedy works.
	h = newAdmin(t, store, func(c *config.Config) { listed(c); c.AllowedPrincipals = append(c.AllowedPrincipals, "agent:bot") })
	if !h.lets(access.Agent("bot"), "") {
		t.Error("an agent on the list is kept out")
	}
}

func TestCeilingsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := newAdmin(t, sqlitetest.Open(t), nothing)
	for name, want := range map[string]reason.Code{
		"user:local": reason.InvalidInput, "user:nobody": reason.NotFound, "device:x": reason.InvalidInput, "ops": reason.InvalidInput,
		"channel:": reason.InvalidInput, "channel:a b": reason.InvalidInput, "channel:" + strings.Repeat("x", 129): reason.InvalidInput,
	} {
		if err := h.set(name, false); reason.Of(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(h.Ceilings.Ceilings()); n != 1 {
		t.Errorf("%d ceilings", n)
	}
}
