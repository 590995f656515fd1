package command

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// harmlessConfig are git settings that start nothing; entries with a dot at the end are sections.
var harmlessConfig = []string{"color.", "advice.", "column.", "user.name", "user.email", "core.quotepath", "core.abbrev", "init.defaultbranch", "log.date"}

// gitOptions are the options of git's subcommands whose value is a command, or names a directory
// with hooks.
var gitOptions = map[string]commandOptions{
	"rebase":     {long: []string{"--exec"}, short: "x", abbreviated: true},
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
	"submodule":  {long: []string{"--upload-pack"}},
}

// gitHarmless are the subcommands that start only programs from the repository's configuration
// and hooks. gitStarters are other subcommands of git itself. Any other name may be an alias,
// or a program of the search path.
const (
	gitHarmless commaList = "add,am,annotate,apply,archive,bisect,blame,branch,bundle,cat-file,check-attr,check-ignore,check-mailmap,check-ref-format,checkout,checkout-index,cherry,cherry-pick,clean,clone,column,commit,commit-graph,commit-tree,config,count-objects," +
		"describe,diff,diff-files,diff-index,diff-tree,fast-export,fast-import,fetch,fetch-pack,fmt-merge-msg,for-each-ref,format-patch,fsck,gc,get-tar-commit-id,grep,hash-object,help,index-pack,init,init-db,interpret-trailers,lfs,log,ls-files,ls-remote,ls-tree," +
		"mailinfo,mailsplit,merge,merge-base,merge-file,merge-tree,mktag,mktree,multi-pack-index,mv,name-rev,notes,pack-objects,pack-redundant,pack-refs,patch-id,prune,prune-packed,pull,push,range-diff,read-tree,rebase,receive-pack,reflog,remote,repack,replace,request-pull,rerere,reset,restore," +
		"rev-list,rev-parse,revert,rm,send-pack,shortlog,show,show-branch,show-index,show-ref,sparse-checkout,stage,stash,status,stripspace,submodule,switch,symbolic-ref,tag,unpack-file,unpack-objects,update-index,update-ref,update-server-info,upload-archive,upload-pack,var,verify-commit,verify-pack,verify-tag,version,whatchanged,worktree,write-tree"
	gitStarters commaList = "citool,cvsserver,daemon,difftool,difftool--helper,filter-branch,for-each-repo,gui,http-backend,imap-send,instaweb,maintenance,merge-index,merge-octopus,merge-one-file,mergetool,p4,quiltimport,remote-ext,remote-fd,send-email,shell,svn,web--browse"
)

func gitKnows(subcommand string) bool {
	return gitHarmless.has(subcommand) || gitStarters.has(subcommand)
}

// innerOfGit parses settings that name commands, and the subcommands that start programs.
func innerOfGit(args []string) Inner {
	var inner Inner
	for len(args) > 0 && !operand(args[0]) {
		rest := before["git"].skip(args)
		switch {
		case len(rest) < len(args):
			inner.Unknown = inner.Unknown || choosesRepository(args[:len(args)-len(rest)])
			args = rest
		case args[0] == "-c" && len(args) > 1:
			inner.add(innerOfSetting(args[1]))
			args = args[2:]
		case slices.Contains([]string{"--version", "-v", "--help", "-h", "--html-path", "--man-path", "--info-path"}, args[0]):
			args = args[1:]
		default:
			// --exec-path, --config-env, and unknown options, which may take the next word as
			// their value.
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
	case !gitHarmless.has(name):
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

// choosesRepository reports whether options before the subcommand name the directory of the
// repository, whose configuration can start programs. A directory named .git is protected like
// the repository of the workspace. ObeysRepository checks DIR of -C on the disk.
func choosesRepository(words []string) bool {
	for i, word := range words {
		value, is := strings.CutPrefix(word, "--git-dir=")
		if word == "--git-dir" && i+1 < len(words) {
			value, is = words[i+1], true
		}
		if word == "--bare" || is && path.Base(value) != ".git" {
			return true
		}
	}
	return false
}

// ObeysRepository reports whether one of the programs is git and may use a workspace directory
// with unprotected configuration as its repository: a directory with HEAD and objects that is
// not named .git. Such a directory may be part of a project, and its configuration can name
// programs. Git finds it from its working directory, from -C, or by an argument.
func ObeysRepository(root, cwd string, started ...Started) bool {
	const mostDirectories = 16
	if resolved, err := filepath.EvalSymlinks(root); err == nil {
		root = resolved
	}
	root = filepath.ToSlash(root)
	directories := []string{root + "/" + cwd}
	for _, s := range started {
		family := wrapperFamily(s.Basename)
		switch {
		case len(directories) > mostDirectories:
			return true
		case family == "git" || strings.HasPrefix(family, "git-"):
			if slices.ContainsFunc(directories, func(dir string) bool { return mayObey(root, dir, s.Argv) }) {
				return true
			}
		case s.Basename == "cd" && len(s.Argv) > 1: // in a shell line, which may or may not run it
			for _, dir := range slices.Clone(directories) {
				directories = append(directories, enter(root, dir, s.Argv[len(s.Argv)-1]))
			}
		}
	}
	return false
}

// mayObey is ObeysRepository for one command line in one directory.
func mayObey(root, dir string, argv []string) bool {
	for i, word := range argv[:max(len(argv)-1, 0)] {
		if word == "-C" {
			dir = enter(root, dir, argv[i+1])
		}
	}
	if inside, bare := bareRepository(root, dir); !inside || bare {
		return true
	}
	return slices.ContainsFunc(argv[1:], func(word string) bool {
		if _, value, stuck := strings.Cut(word, "="); stuck {
			word = value
		}
		word = strings.TrimPrefix(word, "file://")
		inside, bare := false, false
		if operand(word) {
			inside, bare = bareRepository(root, enter(root, dir, word))
		}
		return inside && bare
	})
}

// enter returns the path on this machine of a name in a directory. It does not clean the path:
// ".." leads out of the target of a link.
func enter(root, dir, name string) string {
	switch inside, ok := strings.CutPrefix(name, WorkspaceMount); {
	case ok && (inside == "" || inside[0] == '/'):
		return root + inside
	case path.IsAbs(name), filepath.IsAbs(name):
		return filepath.ToSlash(name)
	}
	return dir + "/" + name
}

// bareRepository reports whether a path is in the workspace, and whether it or a parent has the
// form of a git repository without the name .git. A link that is only valid in the sandbox
// counts as one.
func bareRepository(root, full string) (inside, bare bool) {
	resolved, err := filepath.EvalSymlinks(full)
	if err != nil {
		return true, hasLink(root, full)
	}
	for dir := filepath.ToSlash(resolved); below(dir, root); dir = path.Dir(dir) {
		inside = true
		exists := func(name string) bool { _, err := os.Lstat(path.Join(dir, name)); return err == nil }
		if !strings.Contains(dir+"/", "/.git/") && exists("HEAD") && (exists("objects") || exists("refs") || exists("commondir")) {
			return true, true
		}
	}
	return inside, false
}

// hasLink reports whether a part of a path below root is a symbolic link.
func hasLink(root, full string) bool {
	for name := full; below(name, root) && len(name) > len(root); name = path.Dir(name) {
		if info, err := os.Lstat(name); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// innerOfSetting parses name=value after git -c: an alias that begins with "!", a pager and an
// editor are shell lines.
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
