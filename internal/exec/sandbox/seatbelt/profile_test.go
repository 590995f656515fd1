package seatbelt

import (
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func plain() profile {
	return profile{
		workspace: "/opt/acme/tree", direct: true, private: "/private/tmp/palyra-run-1-2/inside",
		helper: "/usr/local/bin/palyrad", roots: []string{"/opt/toolchain"}, caches: []string{"/opt/acme/cache/go"},
		protected: []string{"secrets/**"}, tag: "palyra-run-1-2",
	}
}

func TestProfileStartsFromNothing(t *testing.T) {
	t.Parallel()
	forms := parsed(t, plain())
	if got := written(forms[0]) + written(forms[1]); got != "(version 1)(deny default (with message palyra-run-1-2))" {
		t.Errorf("the profile begins with %s", got)
	}
	for _, f := range forms {
		if f.list[0].text != "allow" {
			continue
		}
		filtered := slices.ContainsFunc(f.list, func(part form) bool { return part.kind == 'l' })
		if !filtered && written(f) != "(allow process-fork)" {
			t.Errorf("%s holds for everything", written(f))
		}
		for _, part := range f.list {
			for _, word := range []string{"default", "appleevent-send", "lsopen", "mach-register", "iokit-open", "file-link", "file-mknod", "nvram-set", "system-socket"} {
				if part.text == word {
					t.Errorf("the profile allows %s", word)
				}
			}
		}
	}
}

func TestProfileWrites(t *testing.T) {
	t.Parallel()
	own := []string{"(subpath (param RUN))", "(subpath (param RUN_OTHER))", "(subpath /opt/acme/cache/go)"}
	workspace := []string{"(subpath (param WS))", "(subpath (param WS_OTHER))"}
	for _, direct := range []bool{true, false} {
		p := plain()
		p.direct = direct
		forms := parsed(t, p)
		want := slices.Clone(own)
		if direct {
			want = append(want, workspace...)
		}
		if got := rules(forms, "allow file-write*"); !slices.Equal(got, want) {
			t.Errorf("direct %t: may write to %v, want %v", direct, got, want)
		}
		if denied := len(rules(forms, "deny file-write*")) > 0; denied != direct {
			t.Errorf("direct %t: protected names denied: %t", direct, denied)
		}
		for _, name := range []string{"/opt/acme/tree/a/.NPMRC", "/opt/acme/tree/secrets/x", "/opt/acme/tree/HEAD"} {
			denied := slices.ContainsFunc(forms, func(f form) bool {
				return f.list[0].text == "deny" && f.list[1].text == "file-write*" && mentions(f, name)
			})
			if denied != direct {
				t.Errorf("direct %t: writing %s is denied: %t", direct, name, denied)
			}
		}
		links := slices.ContainsFunc(forms, func(f form) bool { return written(f) == "(deny file-link)" })
		if !links {
			t.Error("hard links are not denied")
		}
	}
}

// A denying rule must follow the allowing rule; before it, it would have no effect.
func TestProfileDeniesLast(t *testing.T) {
	t.Parallel()
	last := map[string]int{}
	for i, f := range parsed(t, plain()) {
		last[f.list[0].text+" "+f.list[1].text] = i
	}
	if last["deny file-write*"] < last["allow file-write*"] || last["deny file-write-create"] < last["allow file-write*"] {
		t.Errorf("the order is %v", last)
	}
}

func TestProfileReads(t *testing.T) {
	t.Parallel()
	forms := parsed(t, plain())
	got := rules(forms, "allow file-read*")
	for _, want := range []string{"(subpath /usr)", "(subpath /System)", "(subpath /opt/toolchain)", "(subpath /private/etc/ssl)", "(subpath /etc/ssl)", "(subpath (param WS))"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s cannot be read", want)
		}
	}
	for _, filter := range got {
		for _, never := range []string{"(subpath /)", "(subpath /opt)", "(subpath /opt/acme)", "(subpath /private)", "(subpath /private/var)", "(subpath /Library)", "(subpath /dev)"} {
			if filter == never {
				t.Errorf("%s can be read", never)
			}
		}
	}
	above := rules(forms, "allow file-read-metadata")
	for _, want := range []string{"(literal /opt)", "(literal /opt/acme)", "(literal /private/tmp)", "(literal /tmp)", "(literal /var)"} {
		if !slices.Contains(above, want) {
			t.Errorf("that %s exists cannot be seen", want)
		}
	}
}

func TestProfileNetwork(t *testing.T) {
	t.Parallel()
	p := plain()
	text := must.Get(p.text())(t)
	if !strings.HasSuffix(text, "(deny network*)\n") || strings.Contains(text, "allow network") || strings.Contains(text, "mDNSResponder") || strings.Contains(text, "trustd") {
		t.Errorf("strict leaves a way out:\n%s", text)
	}
	p.network = true
	forms := parsed(t, p)
	want := []string{"(remote ip *:*)", "(literal /private/var/run/mDNSResponder)"}
	if got := rules(forms, "allow network-outbound"); !slices.Equal(got, want) {
		t.Errorf("an open network reaches %v, want %v: sockets with a path lead to other programs", got, want)
	}
}

func TestSpellings(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"/tmp/x":             {"/private/tmp/x", "/tmp/x"},
		"/private/tmp/x":     {"/private/tmp/x", "/tmp/x"},
		"/var":               {"/private/var", "/var"},
		"/private/etc/hosts": {"/private/etc/hosts", "/etc/hosts"},
		"/private/other":     {"/private/other"},
		"/tmpfile":           {"/tmpfile"},
		"/opt/acme":          {"/opt/acme"},
	} {
		if got := spellingsOf(name); !slices.Equal(got, want) {
			t.Errorf("%s is spelled %v, want %v", name, got, want)
		}
	}
}

func TestParams(t *testing.T) {
	t.Parallel()
	p := plain()
	p.workspace = "/private/tmp/w"
	want := []string{
		"WS=/private/tmp/w", "WS_OTHER=/tmp/w",
		"RUN=/private/tmp/palyra-run-1-2/inside", "RUN_OTHER=/tmp/palyra-run-1-2/inside",
		"HELPER=/usr/local/bin/palyrad", "HELPER_OTHER=/usr/local/bin/palyrad",
	}
	if got := p.params(); !slices.Equal(got, want) {
		t.Errorf("the parameters are %v", got)
	}
}

// hostile are texts that would end a string, an expression or a list if they were not escaped.
var hostile = []string{
	`/a" (allow default) "`, `/a\`, `/a\" (allow file-write*)`, `/a))(allow network*)((`, `/a;comment`, `/a#"b`, `/a'b`, "/a`b", `/a$(b)`, `/a[^b]`, `/a^b`, "/ä/ﬁ", `/a|.*`,
}

func TestInjection(t *testing.T) {
	t.Parallel()
	base := shape(parsed(t, plain()))
	for _, text := range hostile {
		p := plain()
		p.workspace, p.roots, p.caches, p.tag = text, []string{text}, []string{text}, text
		forms := parsed(t, p)
		// The number of directories above a path equals its depth.
		count := func(s string) int { return strings.Count(s, "(allow ") }
		if got := shape(forms); count(got) != count(base) || strings.Count(got, "(deny ") != strings.Count(base, "(deny ") {
			t.Errorf("%q changes the profile", text)
		}
		if !holds(forms, text) {
			t.Errorf("%q does not arrive as it is", text)
		}
	}
}

func TestUnrepresentablePaths(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"/a\x00b", "/a\nb", "/a\rb", "/a\tb", "/a\x1bb", "/a\u0085b", "/a\xffb"} {
		for i, set := range []func(*profile){
			func(p *profile) { p.workspace = text }, func(p *profile) { p.private = text }, func(p *profile) { p.helper = text },
			func(p *profile) { p.roots = []string{text} }, func(p *profile) { p.caches = []string{text} }, func(p *profile) { p.tag = text },
			func(p *profile) { p.protected = []string{text} },
		} {
			p := plain()
			set(&p)
			if _, err := p.text(); reason.Of(err) != reason.InvalidInput {
				t.Errorf("%q as text %d: %v", text, i, err)
			}
		}
	}
}

// A profile has the same rules for any paths, and every path is passed unchanged as a
// parameter.
func FuzzProfile(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, text)
	}
	p := plain()
	p.roots = []string{"/one"}
	text := must.Get(p.text())(f)
	want := strings.Count(text, "\n(")
	f.Fuzz(func(t *testing.T, root, tag string) {
		p := plain()
		p.roots, p.workspace, p.tag = []string{root}, "/"+root, tag
		text, err := p.text()
		if err != nil {
			return
		}
		forms, err := parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(forms) != want+1 || !holds(forms, tag) || !holds(forms, root) {
			t.Fatalf("%q and %q make %d rules of %d", root, tag, len(forms), want+1)
		}
	})
}
