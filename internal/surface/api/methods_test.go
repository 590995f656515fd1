package api_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/surface/api"
)

// services returns the service descriptors of the API.
func services() []protoreflect.ServiceDescriptor {
	var list []protoreflect.ServiceDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage("palyra.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			list = append(list, f.Services().Get(i))
		}
		return true
	})
	return list
}

// procedures returns every method of the API by its procedure.
func procedures() map[string]protoreflect.MethodDescriptor {
	list := map[string]protoreflect.MethodDescriptor{}
	for _, s := range services() {
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			list["/"+string(s.FullName())+"/"+string(m.Name())] = m
		}
	}
	return list
}

// unlisted returns the methods that have no row in a table.
func unlisted(table map[string]api.Method) []string {
	var missing []string
	for name := range procedures() {
		if _, ok := table[name]; !ok {
			missing = append(missing, name)
		}
	}
	return missing
}

func TestEveryMethodHasARow(t *testing.T) {
	t.Parallel()
	if n := len(procedures()); n < 30 {
		t.Fatalf("only %d methods were found", n)
	}
	for _, name := range unlisted(maps.Collect(api.Methods())) {
		t.Errorf("%s has no row in the access table", name)
	}
	// Control: a table with a missing row is reported.
	short := maps.Collect(api.Methods())
	delete(short, "/palyra.v1.GatewayService/CallTool")
	if got := unlisted(short); !slices.Equal(got, []string{"/palyra.v1.GatewayService/CallTool"}) {
		t.Errorf("the missing row was not found: %v", got)
	}
}

func TestNoRowWithoutAMethod(t *testing.T) {
	t.Parallel()
	known := procedures()
	for name := range api.Methods() {
		if known[name] == nil && !strings.HasPrefix(name, "/grpc.health.") && !strings.HasPrefix(name, "/grpc.reflection.") {
			t.Errorf("the row %s is of no method", name)
		}
	}
}

func TestEveryServiceIsOffered(t *testing.T) {
	t.Parallel()
	for _, s := range services() {
		if !slices.Contains(api.Services, string(s.FullName())) {
			t.Errorf("%s is not among rpc.Services", s.FullName())
		}
	}
}

// public are the methods that take no credential, with their limit classes.
var public = map[string]limit.Class{
	"/grpc.health.v1.Health/Check":             api.LimitRead,
	"/palyra.v1.PairingService/BeginPairing":   api.LimitPairing,
	"/palyra.v1.PairingService/ProvePairing":   api.LimitPairing,
	"/palyra.v1.PairingService/ConfirmPairing": api.LimitPairing,
	"/palyra.v1.PairingService/CollectPairing": api.LimitPairing,
	"/palyra.v1.LoginService/DescribeLogin":    api.LimitRead,
	"/palyra.v1.LoginService/BeginLogin":       api.LimitLogin,
	"/palyra.v1.LoginService/CompleteLogin":    api.LimitLogin,
	"/palyra.v1.LoginService/PollLogin":        api.LimitLogin,
}

// TestRowsAreValid: rows contain permissions of the Cedar schema, and existing limit classes
// and audit kinds. Only health, logins and the pairing steps are public.
func TestRowsAreValid(t *testing.T) {
	t.Parallel()
	set := policytest.Set(t, policytest.Options{})
	owner := access.Caller{Principal: policytest.Alice, OnBehalfOf: policytest.Alice, Roles: []access.Role{access.RoleOwner}}
	classes := []limit.Class{api.LimitRead, api.LimitMutate, api.LimitDecide, api.LimitToolCall, api.LimitRun, api.LimitSecret, api.LimitPairing, api.LimitLogin}
	for name, row := range api.Methods() {
		if !slices.Contains(classes, row.Limit) {
			t.Errorf("%s: limit class %q", name, row.Limit)
		}
		if !slices.Contains([]api.Audit{api.AuditNone, api.AuditRoom, api.AuditExport}, row.Audit) {
			t.Errorf("%s: audit %q", name, row.Audit)
		}
		if (row.Needs == api.NeedsRenewable) != (name == "/palyra.v1.IdentityService/RenewCertificate") {
			t.Errorf("%s: an expired certificate is good for %v", name, row.Needs)
		}
		if row.Needs == api.NeedsNothing {
			if class, listed := public[name]; !listed || row.Limit != class {
				t.Errorf("%s is public, in the limit class %s", name, row.Limit)
			}
			continue
		}
		request := policy.AccessRequest{Caller: owner, Permission: row.Permission}
		if err := set.Access().Permit(request); reason.Of(err) == reason.PolicyError || row.Permission == "" {
			t.Errorf("%s: Cedar does not know %q: %v", name, row.Permission, err)
		}
		if m := procedures()[name]; m != nil && sideEffectFree(m) && (row.Audit == api.AuditRoom || row.Limit != api.LimitRead) {
			t.Errorf("%s has no side effects, and its row says %s, %s", name, row.Audit, row.Limit)
		}
	}
	unknown := policy.AccessRequest{Caller: owner, Permission: "no.such"}
	if err := set.Access().Permit(unknown); err == nil {
		t.Error("the control: an unknown permission was given")
	}
}

func sideEffectFree(m protoreflect.MethodDescriptor) bool {
	o, ok := m.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}
