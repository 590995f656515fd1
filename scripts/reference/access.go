package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/surface/api"
)

var accessPage = page{
	file: "access.md", title: "Permissions of methods and routes", body: accessTables,
	intro: `
Each method has one row; a method without a row is denied. The roles are those that have the permission
with the default policies alone. [Access](../access.md) describes the columns.`,
}

// anyMember stands for all members, with or without a role.
const anyMember = "all members"

// roleFinder returns the roles that have a permission with the default policies.
type roleFinder struct {
	set     *policy.Set
	members map[string]access.Member
}

func newRoleFinder() (*roleFinder, error) {
	created := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	owner := access.Member{Principal: access.User("an-owner"), Roles: []access.Role{access.RoleOwner}, CreatedAt: created}
	f := &roleFinder{members: map[string]access.Member{
		anyMember:                {Principal: access.User("of-no-role"), CreatedAt: created},
		string(access.RoleOwner): owner,
	}}
	for _, role := range access.BuiltinRoles {
		m := access.Member{Principal: access.User("an-" + string(role)), Roles: []access.Role{role}, CreatedAt: created}
		if role == access.RoleAgent {
			m.Principal, m.Owner = access.Agent("an-agent"), owner.Principal
		}
		f.members[string(role)] = m
	}
	members := slices.SortedFunc(maps.Values(f.members), func(a, b access.Member) int {
		return cmp.Compare(a.Principal.String(), b.Principal.String())
	})
	var err error
	f.set, err = policy.Load(policy.Config{Members: members, Snapshot: policy.Snapshot{MaxCallsPerRun: 200}})
	return f, err
}

// who lists the roles that have a permission.
func (f *roleFinder) who(p access.Permission) string {
	if p == "" {
		return "anyone"
	}
	var list []string
	for _, name := range append([]string{anyMember}, roleNames()...) {
		m := f.members[name]
		caller := access.Caller{Principal: m.Principal, OnBehalfOf: m.Principal, Roles: m.Roles, Surface: access.SurfaceGRPC, Paired: true}
		if f.set.Access().Permit(policy.AccessRequest{Caller: caller, Permission: p}) != nil {
			continue
		}
		if name == anyMember {
			return anyMember
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

func roleNames() []string {
	var names []string
	for _, r := range access.BuiltinRoles {
		names = append(names, string(r))
	}
	return names
}

// credentials lists the credentials that a method accepts.
func credentials(m api.Method) string {
	switch m.Needs {
	case api.NeedsNothing:
		return "none"
	case api.NeedsSignature:
		return "signature of a member's device in the request"
	case api.NeedsRenewable:
		return "certificate, also one that expired in the last 30 days"
	case api.NeedsCertificate:
		return "certificate, no socket"
	}
	list := "certificate"
	if !slices.Contains(access.NeverByToken, m.Permission) {
		list += ", token"
	}
	if m.Needs == api.NeedsDevice {
		list += ", console"
	}
	return list
}

func accessTables() (string, error) {
	f, err := newRoleFinder()
	if err != nil {
		return "", err
	}
	return f.methodTable(maps.Collect(api.Methods())) + f.routeTable() + f.permissionTable(), nil
}

func (f *roleFinder) methodTable(methods map[string]api.Method) string {
	t := newTable("method", "permission", "roles", "limit class", "audit", "credential")
	for _, procedure := range slices.Sorted(maps.Keys(methods)) {
		m := methods[procedure]
		t.row(code(strings.TrimPrefix(procedure, "/")), code(string(m.Permission)), f.who(m.Permission), code(string(m.Limit)), string(m.Audit), credentials(m))
	}
	return "## Methods\n\n" + t.String()
}

func (f *roleFinder) routeTable() string {
	t := newTable("route", "listener", "returns", "permission", "roles", "limit class", "credential")
	routes := maps.Collect(api.Routes())
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		r := routes[pattern]
		permission, limit, accepted := access.Permission(""), "", "none"
		if r.Guard != nil {
			guard := *r.Guard
			// Sessions of the console do not reach these listeners.
			if guard.Needs == api.NeedsDevice && guard.Permission != "" {
				guard.Needs = api.NeedsProgram
			}
			permission, limit, accepted = guard.Permission, string(guard.Limit), credentials(guard)
		}
		t.row(code(pattern), code(r.Listener), linked(r.Description), code(string(permission)), f.who(permission), code(limit), accepted)
	}
	return "\n## Routes of plain HTTP\n\n" +
		"A route without a permission accepts any caller that reaches its listener, which is on this\nmachine unless it is configured otherwise.\n\n" + t.String()
}

func (f *roleFinder) permissionTable() string {
	t := newTable("permission", "roles", "available to tokens")
	for _, p := range slices.Sorted(slices.Values(access.Permissions)) {
		available := "yes"
		if slices.Contains(access.NeverByToken, p) {
			available = "no"
		}
		t.row(code(string(p)), f.who(p), available)
	}
	return "\n## Permissions\n\n" + t.String()
}

// code formats a name as code; "none" for none.
func code(name string) string {
	if name == "" {
		return "none"
	}
	return "`" + name + "`"
}
