package policy

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/tool"
)

// aPlan has a value in every fact.
func aPlan() tool.Plan {
	return tool.Plan{
		Facts: tool.Facts{
			Workspace: "w", Path: "a/b", Paths: []string{"a/b", "a/c"}, Host: "h", Domain: "d", Port: 1, Method: "GET",
			Exec:  &tool.ExecFacts{Basename: "git", Path: "/usr/bin/git", SHA256: "sha256:x", Shebang: "sh", Line: "git push", Arg1: "push", Arg2: "origin"},
			Shell: &tool.ShellFacts{Dialect: "bash", Parsed: true, Special: []string{"eval"}, Commands: []string{"?", "eval"}, Lines: []string{"?"}}, Risk: 5,
			SandboxTier: "c", SandboxLevel: "strict", SandboxRung: "full", SandboxLayers: []string{"seccomp"}, SandboxLimits: "rlimit", LandlockABI: 3,
			WorkspaceMode: "direct", EgressMode: "strict", EgressHosts: []string{"h:1"}, Secrets: []string{"s"},
			External: &tool.ExternalFacts{Agent: "codex", Act: tool.ActShell, PermissionMode: "default", Server: "s", Outside: []string{"/x"}, Guarded: []string{"/y"}},
		},
		Files: []tool.FileIdentity{{Device: 1, Inode: 2, ChangedAt: 3}},
	}
}

// TestEveryFactIsBoundOrEnvironment: no field of a plan's facts, or of the files that it read,
// can change unnoticed between decision and dispatch. It visits all fields by reflection, so a
// new field that is not in the table fails here.
func TestEveryFactIsBoundOrEnvironment(t *testing.T) {
	t.Parallel()
	was := aPlan()
	check := func(name string, is tool.Plan) {
		noticed := BoundDigest(&was) != BoundDigest(&is)
		if named := ChangedFacts(was, is); noticed != (len(named) > 0) {
			t.Errorf("%s: the digest says %t, the names are %v", name, noticed, named)
		}
		if environment := EnvironmentChanged(&was, &is); noticed == environment {
			t.Errorf("%s: bound %t, environment %t", name, noticed, environment)
		}
	}
	eachChange(t, reflect.TypeOf(was.Facts), func(name string, change func(reflect.Value)) {
		is := aPlan()
		change(reflect.ValueOf(&is.Facts).Elem())
		check(name, is)
	})
	eachChange(t, reflect.TypeOf(was.Files[0]), func(name string, change func(reflect.Value)) {
		is := aPlan()
		change(reflect.ValueOf(&is.Files[0]).Elem())
		check("Files."+name, is)
	})
	// Control: equal facts have equal digests.
	again := aPlan()
	if BoundDigest(&was) != BoundDigest(&again) || len(ChangedFacts(was, again)) != 0 || EnvironmentChanged(&was, &again) {
		t.Error("the same facts differ")
	}
}

// eachChange calls fn for each field, including the fields of a record behind a pointer, with a
// function that changes the field.
func eachChange(t *testing.T, of reflect.Type, fn func(name string, change func(reflect.Value))) {
	t.Helper()
	for i := range of.NumField() {
		field := of.Field(i)
		at := func(v reflect.Value) reflect.Value { return v.Field(i) }
		if field.Type.Kind() == reflect.Pointer {
			eachChange(t, field.Type.Elem(), func(name string, change func(reflect.Value)) {
				fn(field.Name+"."+name, func(v reflect.Value) { change(at(v).Elem()) })
			})
			continue
		}
		fn(field.Name, func(v reflect.Value) {
			v = at(v)
			switch v.Kind() {
			case reflect.String:
				v.SetString(v.String() + "x")
			case reflect.Bool:
				v.SetBool(!v.Bool())
			case reflect.Int, reflect.Int64:
				v.SetInt(v.Int() + 1)
			case reflect.Uint64:
				v.SetUint(v.Uint() + 1)
			case reflect.Slice:
				v.Set(reflect.Append(v, reflect.ValueOf("x")))
			default:
				t.Fatalf("%s is of a kind that this test cannot change", field.Name)
			}
		})
	}
}

// TestSetsHaveNoOrder: the digest of a Cedar set does not depend on the order of its elements.
func TestSetsHaveNoOrder(t *testing.T) {
	t.Parallel()
	p := aPlan()
	p.Facts.EgressHosts = []string{"a:1", "b:2", "c:3", "d:4", "e:5"}
	q := aPlan()
	q.Facts.EgressHosts = slices.Clone(p.Facts.EgressHosts)
	slices.Reverse(q.Facts.EgressHosts)
	for range 50 {
		if BoundDigest(&p) != BoundDigest(&q) {
			t.Fatal("the order counts")
		}
	}
}

// TestValuesCannotRunTogether: the same text split at another position is another fact.
func TestValuesCannotRunTogether(t *testing.T) {
	t.Parallel()
	p, q := aPlan(), aPlan()
	p.Facts.Paths, q.Facts.Paths = []string{"ab", "c"}, []string{"a", "bc"}
	if BoundDigest(&p) == BoundDigest(&q) {
		t.Error("two lists have one digest")
	}
}

func TestReadsChanged(t *testing.T) {
	t.Parallel()
	s, _ := build(world(), []Source{{Name: "f", Text: `forbid(principal, action, resource) when { context has path && context.path == "secret" };`}})
	was := Request{Caller: access.Caller{Principal: world().Members[0].Principal, Surface: access.SurfaceCLI, Paired: true}, Tool: world().Tools[0].Name, Facts: tool.Facts{Path: "a", Method: "GET"}}
	is := was
	is.Facts.Method = "POST"
	if s.ReadsChanged(was, is) {
		t.Error("a fact that no policy reads counts")
	}
	is.Facts.Path = "b"
	if !s.ReadsChanged(was, is) {
		t.Error("a fact that a policy reads does not count")
	}
	is = was
	is.Facts.Paths = []string{"a", "b"}
	if !s.ReadsChanged(was, is) {
		t.Error("the list of files does not count")
	}
}

// FuzzBytesOfFacts: two facts have the same bytes exactly if policies read the same value from
// both.
func FuzzBytesOfFacts(f *testing.F) {
	f.Add("", "", false, false, 0, 1, uint8(0))
	f.Add("a", "a", true, true, 1, 1, uint8(1))
	f.Add("a,b", "b,a", true, false, 2, 2, uint8(2))
	f.Add("a,a", "a", true, true, 1<<40, -1, uint8(3))
	f.Fuzz(func(t *testing.T, a, b string, x, y bool, m, n int, which uint8) {
		was, is := &Request{}, &Request{}
		fill(was, a, x, m, which&1 != 0)
		fill(is, b, y, n, which&2 != 0)
		for a, name := range (planAttributes &^ (attrApproval | attrNow)).all() {
			f := contextFacts[a.index()]
			compareBytes(t, string(name), f.Fact, f.parts, was, is)
			if f.at(was) == nil || f.at(is) == nil {
				continue
			}
			for _, p := range f.parts {
				compareBytes(t, p.Name, p.Fact, nil, was, is)
			}
		}
	})
}

func compareBytes(t *testing.T, name string, f *Fact, parts []part, was, is *Request) {
	t.Helper()
	one, other := f.value(&call{evaluator: &evaluator{}, request: was}, parts), f.value(&call{evaluator: &evaluator{}, request: is}, parts)
	same := one == nil && other == nil || one != nil && other != nil && one.Equal(other)
	if bytes := string(f.appendTo(nil, was, parts)) == string(f.appendTo(nil, is, parts)); bytes != same {
		t.Errorf("%s: the bytes are the same: %t, the values %v and %v are: %t", name, bytes, one, other, same)
	}
}

// fill sets each fact of a request to the same value of its type.
func fill(r *Request, text string, yes bool, number int, records bool) {
	if records {
		r.Facts.Exec, r.Facts.Shell, r.Facts.External = &tool.ExecFacts{}, &tool.ShellFacts{}, &tool.ExternalFacts{}
	}
	var set func(v reflect.Value)
	set = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(text)
		case reflect.Bool:
			v.SetBool(yes)
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(number))
		case reflect.Slice:
			v.Set(reflect.ValueOf(strings.Split(text, ",")))
		case reflect.Struct:
			for i := range v.NumField() {
				set(v.Field(i))
			}
		case reflect.Pointer:
			if !v.IsNil() {
				set(v.Elem())
			}
		}
	}
	set(reflect.ValueOf(&r.Facts).Elem())
	set(reflect.ValueOf(&r.SessionFacts).Elem())
}
