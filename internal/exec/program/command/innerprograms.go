package command

import (
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
)

// readers parse the arguments of programs with a special way of naming the started commands.
var readers = map[string]func(args []string) Inner{
	"find": innerOfFind, "fd": innerOfFd, "git": innerOfGit, "sed": innerOfSed, "make": innerOfMake, "nix": innerOfNix, "nix-shell": innerOfNixShell, "ip": innerOfIP,
	"zip": innerOfZip, "gcc": innerOfGCC, "rustc": innerOfRustc, "cargo": innerOfCargo, "go": innerOfGo, "openssl": innerOfOpenSSL, "sqlite3": innerOfSQLite, "cmake": innerOfCMake,
	"mvn": innerOfMaven, "task": innerOfStdin, "ctest": innerOfStdin, "rake": innerOfStdin,
}

// commandUntil returns the command in words up to one of the ends.
func commandUntil(words []string, ends ...string) Inner {
	if end := slices.IndexFunc(words, func(word string) bool { return slices.Contains(ends, word) }); end >= 0 {
		words = words[:end]
	}
	if len(words) == 0 || !operand(words[0]) || strings.Contains(words[0], "{") {
		return Inner{Unknown: true}
	}
	return Inner{Commands: [][]string{words}}
}

// mostInner is the maximum number of commands of one program that are parsed.
const mostInner = 16

// innerOfFind parses -exec and similar actions.
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

// innerOfFd parses -x, -X, --exec and --exec-batch.
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

// innerOfNix parses `nix develop` and `nix shell`, which start a shell without -c.
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

// innerOfNixShell parses the text of --run, or of --command.
func innerOfNixShell(args []string) Inner {
	inner := commandOptions{long: []string{"--run", "--command"}}.inner(args)
	inner.Unknown = true
	return inner
}

// innerOfIP parses `ip netns exec NAME` and `ip vrf exec NAME`, which may be abbreviated.
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

// plainSetting matches values of make variables that name no program.
var plainSetting = lazyregexp.New(`^([0-9]{0,6}|yes|no|true|false|on|off)$`)

// innerOfMake parses the variables of the command line: recipes use SHELL, CC and others as
// commands. A makefile from standard input is not a file of the project.
func innerOfMake(args []string) Inner {
	inner := innerOfStdin(args)
	for _, word := range args {
		name, value, set := strings.Cut(word, "=")
		if set && !strings.HasPrefix(word, "-") && (strings.HasSuffix(name, "!") || !plainSetting.MatchString(value)) {
			inner.add(Inner{Texts: []string{value}})
		}
	}
	return inner
}

// innerOfStdin checks whether a program takes its instructions from standard input.
func innerOfStdin(args []string) Inner {
	return Inner{Unknown: slices.ContainsFunc(args, func(word string) bool {
		short := strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--")
		return short && strings.HasSuffix(word, "-") || inNoFile(word)
	})}
}

// innerOfZip parses -TT, also at the end of other letters and with its value.
func innerOfZip(args []string) Inner {
	return Inner{Unknown: slices.ContainsFunc(args, func(word string) bool { return strings.HasPrefix(word, "-") && strings.Contains(word, "TT") })}
}

// innerOfGCC parses the arguments that the compiler passes on to the linker.
func innerOfGCC(args []string) Inner {
	var linker []string
	for i, word := range args {
		if text, ok := strings.CutPrefix(word, "-Wl,"); ok {
			linker = append(linker, strings.Split(text, ",")...)
		}
		if word == "-Xlinker" && i+1 < len(args) {
			linker = append(linker, args[i+1])
		}
	}
	inner := binutils.inner(linker)
	inner.add(innerOfNames("ld", linker))
	return inner
}

// harmlessCodegen are code generation options of rustc that start nothing.
const harmlessCodegen commaList = "opt-level,debuginfo,codegen-units,target-cpu,target-feature,panic,lto,incremental,overflow-checks,debug-assertions,strip,metadata,extra-filename,relocation-model,code-model," +
	"embed-bitcode,inline-threshold,prefer-dynamic,instrument-coverage,split-debuginfo,force-frame-pointers,rpath,no-redzone"

// innerOfRustc parses -C, whose values name the linker and its options, and the options that load
// other code into the compiler.
func innerOfRustc(args []string) Inner {
	for i, word := range args {
		value, codegen := strings.CutPrefix(word, "-C")
		if long, ok := strings.CutPrefix(word, "--codegen"); ok {
			value, codegen = strings.TrimPrefix(long, "="), true
		}
		if codegen && value == "" && i+1 < len(args) {
			value = args[i+1]
		}
		key, _, _ := strings.Cut(value, "=")
		if codegen && !harmlessCodegen.has(strings.ReplaceAll(key, "_", "-")) || strings.HasPrefix(word, "-Z") || strings.HasPrefix(word, "--extern") || strings.HasPrefix(word, "--sysroot") {
			return Inner{Unknown: true}
		}
	}
	return Inner{}
}

// innerOfCargo parses the options of rustc after "--".
func innerOfCargo(args []string) Inner {
	at := slices.Index(args, "--")
	if at < 0 || !slices.ContainsFunc(args[:at], func(word string) bool { return slices.Contains([]string{"rustc", "rustdoc", "clippy"}, word) }) {
		return Inner{}
	}
	return innerOfRustc(args[at+1:])
}

// plainLinking matches options of Go's linker that name no other linker.
var plainLinking = lazyregexp.New(`^('?-[swX]|-X=.*|-(buildid|compressdwarf|linkmode)=[a-z]*|[^-].*)$`)

// innerOfGo parses -ldflags, which can name another linker and its options.
func innerOfGo(args []string) Inner {
	for i, word := range args {
		name, value, stuck := strings.Cut(word, "=")
		if strings.TrimLeft(name, "-") != "ldflags" || name == "ldflags" {
			continue
		}
		if !stuck && i+1 < len(args) {
			value = args[i+1]
		}
		if at := strings.Index(value, "=-"); at >= 0 && !strings.HasPrefix(value, "-") {
			value = value[at+1:] // all=-s
		}
		if slices.ContainsFunc(strings.Fields(value), func(flag string) bool { return !plainLinking.MatchString(strings.Trim(flag, `"'`)) }) {
			return Inner{Unknown: true}
		}
	}
	return Inner{}
}

// innerOfOpenSSL parses `openssl engine`, an engine as the source of a key, and configuration
// that loads either. Without arguments openssl reads commands.
func innerOfOpenSSL(args []string) Inner {
	return Inner{Unknown: len(args) == 0 || args[0] == "engine" || slices.ContainsFunc(args, func(word string) bool {
		return strings.Contains(word, "engine:") || strings.TrimLeft(word, "-") == "config" && word != "config"
	})}
}

// quietSQLite are the options of sqlite3 that start nothing; valuedSQLite take a value.
const (
	quietSQLite  commaList = "header,noheader,csv,json,line,list,column,table,box,markdown,html,quote,ascii,tabs,readonly,batch,bail,version,help,stats,echo"
	valuedSQLite commaList = "separator,nullvalue,newline,mmap"
)

// sqliteCommand matches SQL with a command of the sqlite3 shell, or a function that loads code or
// starts an editor.
var sqliteCommand = lazyregexp.New(`(?im)^\s*\.|load_extension|fts3_tokenizer|\bedit\s*\(`)

// innerOfSQLite parses the statements. Without a statement sqlite3 reads commands from its input.
func innerOfSQLite(args []string) Inner {
	operands := 0
	for i := 0; i < len(args); i++ {
		name, dash := strings.CutPrefix(args[i], "-")
		name = strings.TrimPrefix(name, "-")
		switch {
		case dash && valuedSQLite.has(name):
			i++
		case dash && name == "safe":
			return Inner{} // sqlite3 refuses such commands
		case dash && !quietSQLite.has(name), !dash && operands > 0 && sqliteCommand.MatchString(args[i]):
			return Inner{Unknown: true}
		case !dash:
			operands++
		}
	}
	return Inner{Unknown: operands < 2}
}

// plainDefinition matches names of CMake variables whose value names no command.
var plainDefinition = lazyregexp.New(`^[A-Za-z0-9_.+-]*(_PREFIX|_DIR|_PATH|_ROOT|_TYPE|_TYPES|_VERSION|_STANDARD|_STANDARD_REQUIRED|_EXTENSIONS|_COMMANDS|_TARGET|_ARCHITECTURES|_FILE|_LIBS|_NAME|_SUFFIX)(:[A-Z]+)?$`)

// plainValue matches values that are not a command for any variable: switches, build types and
// versions.
var plainValue = lazyregexp.New(`(?i)^(on|off|yes|no|true|false|release|debug|relwithdebinfo|minsizerel|[0-9.]*)$`)

// innerOfCMake parses definitions, and arguments that are passed on to make.
func innerOfCMake(args []string) Inner {
	inner := innerOfStdin(args)
	if at := slices.Index(args, "--"); at >= 0 {
		inner.add(innerOfMake(args[at+1:]))
		args = args[:at]
	}
	for i, word := range args {
		text, ok := strings.CutPrefix(word, "-D")
		if text == "" && i+1 < len(args) {
			text = args[i+1]
		}
		name, value, _ := strings.Cut(text, "=")
		switch {
		case word == "-E":
			inner.Unknown = true
		case !ok, plainValue.MatchString(value), plainDefinition.MatchString(name):
		case strings.Contains(name, "FLAGS"):
			inner.add(optionsOf["gcc"].inner(strings.Fields(value)))
			inner.add(innerOfGCC(strings.Fields(value)))
		default:
			inner.Unknown = true
		}
	}
	return inner
}

// innerOfMaven parses goals of plugins, which may be at any position.
func innerOfMaven(args []string) Inner {
	return Inner{Unknown: slices.ContainsFunc(args, func(word string) bool {
		return operand(word) && strings.Contains(word, ":") && !families["mvn"].harmless.has(word)
	})}
}
