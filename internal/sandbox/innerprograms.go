package sandbox

import (
	"slices"
	"strings"

	"palyra/internal/lazyregexp"
)

// readers read the arguments of programs that name what they start in a way of their own.
var readers = map[string]func(args []string) Inner{
	"find": innerOfFind, "fd": innerOfFd, "git": innerOfGit, "sed": innerOfSed, "make": innerOfMake, "nix": innerOfNix, "nix-shell": innerOfNixShell, "ip": innerOfIP,
	"cross-env": alwaysUnknown, "concurrently": alwaysUnknown, "watchexec": alwaysUnknown, "dotenv": alwaysUnknown,
}

// alwaysUnknown is of programs that start others whatever their arguments are.
func alwaysUnknown([]string) Inner { return Inner{Unknown: true} }

// commandUntil is the command in words up to one of the ends.
func commandUntil(words []string, ends ...string) Inner {
	if end := slices.IndexFunc(words, func(word string) bool { return slices.Contains(ends, word) }); end >= 0 {
		words = words[:end]
	}
	if len(words) == 0 || !operand(words[0]) || strings.Contains(words[0], "{") {
		return Inner{Unknown: true}
	}
	return Inner{Commands: [][]string{words}}
}

// mostInner bounds the commands of one program that are read.
const mostInner = 16

// innerOfFind reads -exec and its siblings.
func innerOfFind(args []string) Inner {
	var inner Inner
	for i, word := range args {
		switch {
		case len(inner.Commands) == mostInner:
			inner.Unknown = true
			return inner
		case slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, word):
			inner.add(commandUntil(args[i+1:], ";", "+"))
		case strings.HasPrefix(word, "-exec"), strings.HasPrefix(word, "-ok"):
			inner.Unknown = true
		}
	}
	return inner
}

// innerOfFd reads -x, -X, --exec and --exec-batch.
func innerOfFd(args []string) Inner {
	var inner Inner
	for i, word := range args {
		switch {
		case len(inner.Commands) == mostInner:
			inner.Unknown = true
			return inner
		case slices.Contains([]string{"-x", "-X", "--exec", "--exec-batch"}, word):
			inner.add(commandUntil(args[i+1:], ";"))
		case strings.HasPrefix(word, "--exec"), strings.HasPrefix(word, "-exec"):
			inner.Unknown = true
			_, value, _ := strings.Cut(word, "=")
			inner.Texts = append(inner.Texts, value)
		case strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.ContainsAny(word, "xX"):
			inner.Unknown = true
			inner.Texts = append(inner.Texts, word[strings.IndexAny(word, "xX")+1:])
		}
	}
	return inner
}

// innerOfNix reads `nix develop` and `nix shell`, which start a shell without -c.
func innerOfNix(args []string) Inner {
	if !slices.ContainsFunc(args, func(word string) bool { return slices.Contains([]string{"develop", "shell"}, word) }) {
		return Inner{}
	}
	at := slices.IndexFunc(args, func(word string) bool { return word == "-c" || word == "--command" })
	if at < 0 {
		return Inner{Unknown: true}
	}
	return commandUntil(args[at+1:])
}

// innerOfNixShell reads the text of --run, or of --command.
func innerOfNixShell(args []string) Inner {
	inner := commandOptions{long: []string{"--run", "--command"}}.inner(args)
	inner.Unknown = true
	return inner
}

// innerOfIP reads `ip netns exec NAME` and `ip vrf exec NAME`, which may be shortened.
func innerOfIP(args []string) Inner {
	exec := slices.IndexFunc(args, func(word string) bool { return word != "" && strings.HasPrefix("exec", word) })
	switch {
	case exec < 1:
		return Inner{}
	case exec == 1 && len(args) > 2 && slices.Contains([]string{"netns", "vrf"}, args[0]):
		return commandUntil(args[3:])
	}
	return Inner{Unknown: true}
}

// plainSetting matches values of make's variables that name no program.
var plainSetting = lazyregexp.New(`^([0-9]{0,6}|yes|no|true|false|on|off)$`)

// innerOfMake reads the variables of the command line: recipes use SHELL, CC and others
// as commands.
func innerOfMake(args []string) Inner {
	var inner Inner
	for _, word := range args {
		name, value, set := strings.Cut(word, "=")
		if set && !strings.HasPrefix(word, "-") && (strings.HasSuffix(name, "!") || !plainSetting.MatchString(value)) {
			inner.Unknown = true
			inner.Texts = append(inner.Texts, value)
		}
	}
	return inner
}

// harmlessConfig are settings of git that start nothing; those with a dot at the end are
// sections.
var harmlessConfig = []string{"color.", "advice.", "column.", "user.name", "user.email", "core.quotepath", "core.abbrev", "init.defaultbranch", "log.date"}

// gitOptions are the options of git's subcommands whose value is a command, or names a
// directory with hooks.
var gitOptions = map[string]commandOptions{
	"rebase":     {long: []string{"--exec"}, short: "x", abbreviated: true},
	"difftool":   {long: []string{"--extcmd"}, short: "x", abbreviated: true},
	"grep":       {long: []string{"--open-files-in-pager"}, short: "O", abbreviated: true},
	"clone":      {long: []string{"--upload-pack", "--config", "--template"}, short: "uc", abbreviated: true},
	"init":       {long: []string{"--template"}, abbreviated: true},
	"fetch":      {long: []string{"--upload-pack"}, abbreviated: true},
	"pull":       {long: []string{"--upload-pack"}, abbreviated: true},
	"fetch-pack": {long: []string{"--upload-pack", "--exec"}, abbreviated: true},
	"ls-remote":  {long: []string{"--upload-pack", "--exec"}, abbreviated: true},
	"push":       {long: []string{"--receive-pack", "--exec"}, abbreviated: true},
	"send-pack":  {long: []string{"--receive-pack", "--exec"}, abbreviated: true},
	"archive":    {long: []string{"--exec"}, abbreviated: true},
	"send-email": {long: []string{"--sendmail-cmd", "--smtp-server", "--to-cmd", "--cc-cmd", "--header-cmd"}, abbreviated: true},
	"instaweb":   {long: []string{"--browser", "--httpd"}, short: "bd", abbreviated: true},
	"submodule":  {long: []string{"--upload-pack"}},
}

// innerOfGit reads settings that name commands, and the subcommands that start some.
func innerOfGit(args []string) Inner {
	var inner Inner
	for len(args) > 0 && !operand(args[0]) {
		rest := before["git"].skip(args)
		switch {
		case len(rest) < len(args):
			args = rest
		case args[0] == "-c" && len(args) > 1:
			inner.add(innerOfSetting(args[1]))
			args = args[2:]
		case slices.Contains([]string{"--version", "-v", "--help", "-h", "--html-path", "--man-path", "--info-path"}, args[0]):
			args = args[1:]
		default:
			// --exec-path, --config-env, and what is not known, which may take the next
			// word as its value.
			inner.Unknown = true
			args = args[1:]
		}
	}
	for _, word := range args {
		if text, ok := strings.CutPrefix(word, "ext::"); ok { // of a remote
			inner.add(Inner{Texts: []string{text}})
		}
	}
	if len(args) == 0 {
		return inner
	}
	name, rest := args[0], args[1:]
	switch {
	case slices.Contains([]string{"filter-branch", "remote-ext", "for-each-repo", "shell", "mergetool"}, name):
		inner.Unknown = true
	case name == "bisect" && slices.Contains(rest, "run"):
		inner.add(commandUntil(rest[slices.Index(rest, "run")+1:]))
	case name == "submodule" && slices.Contains(rest, "foreach"):
		words := rest[slices.Index(rest, "foreach")+1:]
		for len(words) > 0 && slices.Contains([]string{"--recursive", "--quiet", "-q"}, words[0]) {
			words = words[1:]
		}
		inner.add(Inner{Unknown: true, Texts: []string{strings.Join(words, " ")}})
	}
	if options, ok := gitOptions[name]; ok {
		inner.add(options.inner(rest))
	}
	return inner
}

// innerOfSetting reads name=value after git -c: an alias that begins with "!", a pager
// and an editor are lines for a shell.
func innerOfSetting(setting string) Inner {
	name, value, _ := strings.Cut(setting, "=")
	name = strings.ToLower(name)
	if slices.ContainsFunc(harmlessConfig, func(known string) bool {
		return name == known || strings.HasSuffix(known, ".") && strings.HasPrefix(name, known)
	}) {
		return Inner{}
	}
	return Inner{Unknown: true, Texts: []string{strings.TrimPrefix(value, "!")}}
}
