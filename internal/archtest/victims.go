package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// machine are the directories that a test must not change.
var machine = []string{"etc", "usr", "bin", "sbin", "lib", "lib64", "root", "home", "boot", "opt", "srv", "var", "sys", "run", "proc", "dev"}

// harmless matches the paths in these directories that every user may write to.
var harmless = regexp.MustCompile(`^/(?:var/tmp|run/user|dev/(?:null|zero|full|tty|ptmx|pts|shm|fd|stdin|stdout|stderr|tcp|udp)|proc/(?:self|thread-self))(?:/|$)`)

var (
	redirects = regexp.MustCompile(`>[|>]?[ \t]*["']?(/[^\s"'` + "`" + `;|&)]*)`)
	// changers are programs that change the paths in their arguments, and copiers change the last
	// one.
	changers  = regexp.MustCompile(`(?:^|[\s;&|(])(?:ln|touch|rm|rmdir|mkdir|chmod|chown|chattr|setfacl|truncate|tee|mkfifo|mknod|mv|shred|sed -i)[ \t]([^;&|\n]*)`)
	copiers   = regexp.MustCompile(`(?:^|[\s;&|(])(?:cp|dd)[ \t][^;&|\n]*(?:[ \t]|of=)["']?(/[^\s"';&|]*)["']?[ \t]*(?:[;&|\n]|$)`)
	arguments = regexp.MustCompile(`(?:^|[\s"'=])(/[^\s"'` + "`" + `)]*)`)
	// code matches calls in Python and JavaScript.
	code = regexp.MustCompile(`\b(?:(?:sym)?link|remove|unlink|rmdir|rmtree|mkdir|makedirs|chmod|chown|utime|truncate|rename|replace|writeFile|writeFileSync)\([ \t]*["'](/[^"']*)["']|` +
		`open\([ \t]*["'](/[^"']*)["'][ \t]*,[ \t]*["'][^"']*[wax+]`)
	// openedOnly matches a check whether a file is writable: dd opens the file, and creates,
	// truncates and writes nothing.
	openedOnly = regexp.MustCompile(`dd if=/dev/null conv=nocreat,notrunc of=\S*`)
)

// changing are the functions and methods that change the file at a path, or create a link to it.
var changing = []string{
	"Symlink", "Symlinkat", "Link", "Linkat", "WriteFile", "Create", "Remove", "RemoveAll", "Rename", "Renameat", "Mkdir", "MkdirAll", "Chmod", "Fchmodat",
	"Chown", "Lchown", "Chtimes", "Truncate", "Mknod", "Mknodat", "Mkfifo", "Setxattr", "Lsetxattr", "Unlink", "Unlinkat", "UtimesNano", "CopyFS",
}

// linking are the functions that create links. In a function that calls one, no literal may be a
// path of the machine, independent of its use.
var linking = []string{"Symlink", "Symlinkat", "Link", "Linkat"}

// Victims lists the test functions that create links and use a file of the machine for another
// purpose, as "file.go: function", each with its reason.
var Victims = map[string]string{
	"internal/exec/sandbox/bubblewrap/limits_linux_test.go: TestRefusals": "a program that is not there is refused",
	"test/attack/catalogue_files_test.go: fileRows":                       "FS-02 opens the file of passwords for reading and closes it",
}

// CheckVictims finds tests that could write a file of the machine. Such a file is the target of
// a link, an argument of a call that changes files, or a file that a script writes. Tests run
// as root: a test that links to the password file and then writes to the link would overwrite
// it. A test MUST create the files that it changes.
func CheckVictims(t *Tree) []Finding { return victims(t, Victims) }

func victims(t *Tree, allowed map[string]string) []Finding {
	var out []Finding
	used, here := make(map[string]bool), make(map[string]bool)
	t.forEachFile(true, func(p *Package, f *File) {
		if p.Dir == "internal/archtest" || !f.Test && !testSupport(p.Dir) && !within(p.Dir, "test") {
			return // the tests of this rule violate it
		}
		here[f.Path] = true
		for _, d := range f.Syntax.Decls {
			out = append(out, t.scripted(d)...)
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			key := f.Path + ": " + fn.Name.Name
			found := t.named(fn)
			if len(found) > 0 && allowed[key] != "" {
				used[key] = true
				continue
			}
			out = append(out, found...)
		}
	})
	for key := range allowed {
		file, _, _ := strings.Cut(key, ": ")
		if !used[key] && here[file] {
			out = append(out, Finding{key, "is excepted from the rule about victims but needs it no more; remove the exception"})
		}
	}
	return out
}

// scripted finds literals with a script that writes to the machine.
func (t *Tree) scripted(d ast.Decl) []Finding {
	var out []Finding
	ast.Inspect(d, func(n ast.Node) bool {
		text, ok := literal(n)
		if !ok {
			return true
		}
		for _, path := range ScriptVictims(text) {
			out = append(out, Finding{t.at(n), fmt.Sprintf("a script writes to %s of the machine; give it a canary that the test made", path)})
		}
		return true
	})
	return out
}

// ScriptVictims lists the paths of the machine that a script would write.
func ScriptVictims(script string) []string {
	script = openedOnly.ReplaceAllString(script, "")
	var named []string
	add := func(matches [][]string) {
		for _, m := range matches {
			named = append(named, m[1:]...)
		}
	}
	add(redirects.FindAllStringSubmatch(script, -1))
	add(copiers.FindAllStringSubmatch(script, -1))
	add(code.FindAllStringSubmatch(script, -1))
	for _, m := range changers.FindAllStringSubmatch(script, -1) {
		add(arguments.FindAllStringSubmatch(m[1], -1))
	}
	return slices.DeleteFunc(named, func(path string) bool { return !ofMachine(path) })
}

// named finds paths of the machine that a test function passes to functions that change files, and
// all such paths in a function that creates links.
func (t *Tree) named(fn *ast.FuncDecl) []Finding {
	var out []Finding
	links := false
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := called(call)
		links = links || slices.Contains(linking, name)
		if changes := slices.Contains(changing, name) || name == "OpenFile" && opensToWrite(call); !changes {
			return true
		}
		for _, arg := range call.Args {
			if text, ok := literal(arg); ok && ofMachine(text) {
				out = append(out, Finding{t.at(arg), fmt.Sprintf("%s is given %s of the machine; give it a canary that the test made", name, text)})
			}
		}
		return true
	})
	if !links {
		return out
	}
	joined := make(map[ast.Node]bool) // paths below a directory of the test
	ast.Inspect(fn, func(n ast.Node) bool {
		if sum, ok := n.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
			joined[sum.Y] = true
		}
		// A single "/" is usually a separator of names.
		if text, ok := literal(n); ok && !joined[n] && text != "/" && ofMachine(text) {
			out = append(out, Finding{t.at(n), fmt.Sprintf("%s of the machine is named where links are made; let them lead to a canary that the test made", text)})
		}
		return true
	})
	return out
}

// ofMachine reports whether a path, absolute or through parents, is in a directory that a test must
// not change.
func ofMachine(path string) bool {
	rest, absolute := strings.CutPrefix(path, "/")
	for !absolute {
		var up bool
		if rest, up = strings.CutPrefix(rest, "../"); !up {
			break
		}
		path = "/" + rest
	}
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\n ") || harmless.MatchString(path) {
		return false
	}
	top, _, _ := strings.Cut(rest, "/")
	return rest == "" && absolute || slices.Contains(machine, top)
}

// opensToWrite reports whether the flags of an OpenFile permit writing.
func opensToWrite(call *ast.CallExpr) bool {
	if len(call.Args) < 2 {
		return false
	}
	reads := true
	ast.Inspect(call.Args[1], func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			switch id.Name {
			case "O_WRONLY", "O_RDWR", "O_CREATE", "O_CREAT", "O_TRUNC", "O_APPEND":
				reads = false
			}
		}
		return true
	})
	return !reads
}

// called returns the last name of the called function: Symlink of os.Symlink.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// literal returns the text of a string literal.
func literal(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
