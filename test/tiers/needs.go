package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// need is a prerequisite of a tier.
type need struct {
	name string
	// install is the argument of scripts/deps.sh that installs it: command=package or /file=package
	// of Debian.
	install string
	// make is the target of the Makefile that provides it.
	make string
	// check returns an error that names the step to meet the need, or nil. A need without it is met
	// if the command or file of install exists.
	check func() error
}

// Needs by Debian package.
var (
	gitCommand    = need{name: "git", install: "git=git"}
	cCompiler     = need{name: "a C compiler", install: "gcc=gcc /usr/include/stdio.h=libc6-dev"}
	bubblewrap    = need{name: "bubblewrap", install: "bwrap=bubblewrap"}
	python        = need{name: "Python", install: "python3=python3 /usr/bin/python3=python3"}
	systemNode    = need{name: "the system's Node", install: "node=nodejs npm=npm"}
	pip           = need{name: "pip", install: "/usr/bin/pip3=python3-pip"}
	strace        = need{name: "strace", install: "strace=strace"}
	arm64         = need{name: "an emulator and a compiler for arm64", install: "qemu-aarch64-static=qemu-user-static aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu /usr/aarch64-linux-gnu/include/stdio.h=libc6-dev-arm64-cross"}
	seccompHeader = need{name: "libseccomp's header", install: "/usr/include/seccomp.h=libseccomp-dev"}
	ipRoute       = need{name: "ip", install: "ip=iproute2"}
	mounts        = need{name: "mount", install: "mount=mount"}
	utilLinux     = need{name: "util-linux", install: "prlimit=util-linux unshare=util-linux nsenter=util-linux setpriv=util-linux"}
	curlCommand   = need{name: "curl", install: "curl=curl"}
	wgetCommand   = need{name: "wget", install: "wget=wget"}
	openssl       = need{name: "openssl", install: "openssl=openssl"}
	dbus          = need{name: "a D-Bus daemon", install: "dbus-daemon=dbus-daemon"}
	keyring       = need{name: "a keyring", install: "gnome-keyring-daemon=gnome-keyring"}
	swtpm         = need{name: "a software TPM", install: "swtpm=swtpm"}
	oddPrograms   = need{name: "zip, Vim and awk", install: "zip=zip vim.basic=vim mawk=mawk"}
	tmux          = need{name: "tmux", install: "tmux=tmux"}
	fonts         = need{name: "fonts", install: "/usr/share/fonts/truetype/dejavu=fonts-dejavu-core"}
	quickTools    = need{name: "Ruby, Perl, make, sqlite3, jq and ripgrep", install: "make=make /usr/bin/ruby=ruby /usr/bin/perl=perl sqlite3=sqlite3 jq=jq rg=ripgrep"}
	dailyTools    = need{name: "the tools of a developer's day", install: dailyPackages}
	chromium      = need{name: "Chromium", install: chromiumPackage()}
)

// dailyPackages are the tools of the table in test/honest.
const dailyPackages = "g++=g++ cmake=cmake ninja=ninja-build /usr/bin/cargo=cargo /usr/bin/rustc=rustc gdb=gdb strace=strace valgrind=valgrind " +
	"javac=default-jdk-headless mvn=maven php=php-cli gpg=gnupg gpg-connect-agent=gpgconf ssh-keygen=openssh-client openssl=openssl rsync=rsync " +
	"xz=xz-utils zstd=zstd zip=zip unzip=unzip tmux=tmux /usr/bin/script=bsdutils expect=expect man=man-db less=less tput=ncurses-bin " +
	"fc-list=fontconfig vim=vim psql=postgresql-client /usr/lib/postgresql=postgresql redis-server=redis-server curl=curl"

// Needs that the Makefile provides, or that only the operator can meet.
var (
	goCommand      = need{name: "Go", check: hasGo}
	programs       = need{name: "the programs", make: "test-programs"}
	console        = need{name: "the console's packages", make: "deps-web"}
	history        = need{name: "the history of the repository", check: hasHistory}
	typescript     = need{name: "the MCP SDK in TypeScript", make: "deps-typescript"}
	grpcurl        = need{name: "grpcurl", make: "deps-grpcurl"}
	specification  = need{name: "the tests of the WebAssembly specification", make: "deps-spec"}
	userNamespaces = need{name: "user namespaces", check: hasNamespaces}
	diskSpace      = need{name: "disk space", check: hasSpace}
	loopback       = need{name: "a loopback port", check: hasLoopback}
)

// chromiumPackage is Debian's package, unless PALYRA_CHROMIUM names another browser.
func chromiumPackage() string {
	if os.Getenv("PALYRA_CHROMIUM") != "" {
		return ""
	}
	return "chromium=chromium"
}

// missing returns the packages of install that are not installed.
func (n need) missing() []string {
	var packages []string
	for _, pair := range strings.Fields(n.install) {
		name, debian, _ := strings.Cut(pair, "=")
		var err error
		if strings.HasPrefix(name, "/") {
			_, err = os.Stat(name)
		} else {
			_, err = exec.LookPath(name)
		}
		if err != nil {
			packages = append(packages, debian)
		}
	}
	return packages
}

// problem returns the missing prerequisite and the next step, or "" if the need is met.
func (n need) problem() string {
	if missing := n.missing(); len(missing) > 0 {
		return fmt.Sprintf("%s is missing: install %s (Debian: apt-get install %[2]s)", n.name, strings.Join(missing, " "))
	}
	if n.check != nil {
		if err := n.check(); err != nil {
			return err.Error()
		}
	}
	return ""
}

func hasGo() error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("the go command is missing: install Go 1.26 or later and put it on PATH")
	}
	return nil
}

// hasHistory returns an error in a clone without the commit of the older release.
func hasHistory() error {
	out, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output()
	if err != nil || strings.TrimSpace(string(out)) == "true" {
		return errors.New("this copy has no history from which an older release can be built: run git fetch --unshallow")
	}
	return nil
}

// hasLoopback returns an error if no program can listen on loopback.
func hasLoopback() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("no port of 127.0.0.1 can be opened (%w): set the loopback interface up (ip link set lo up), or end a program that holds too many ports", err)
	}
	return l.Close()
}

// leastSpace is the free space in bytes that a run needs for compiled packages, test
// programs and temporary files.
const leastSpace = 4 << 30

// hasSpace returns an error if the space for temporary files or for the build cache is too small.
func hasSpace() error {
	cache, err := os.UserCacheDir()
	if given := os.Getenv("GOCACHE"); given != "" {
		cache, err = given, nil
	}
	if err != nil {
		return err
	}
	for _, dir := range []string{os.TempDir(), cache} {
		free, err := freeSpace(existing(dir))
		if err != nil {
			return fmt.Errorf("reading the free space of %s: %w", dir, err)
		}
		if free < leastSpace {
			return fmt.Errorf("%s has %d MiB free and the tests need %d: free some, or set TMPDIR and GOCACHE to another disk", dir, free>>20, leastSpace>>20)
		}
	}
	return nil
}

// existing returns the deepest folder of a path that exists.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// provide installs missing needs of tiers, and returns the reason for each need that it could
// not meet. It calls the package manager once for all of them. If packages or tests are
// selected, it provides only the programs that they drive. Most tests need little of their
// tier's needs, and report a missing need themselves.
func (s *session) provide(ctx context.Context, chosen []tier) map[string]string {
	needs := s.needsOf(chosen)
	var pairs []string
	for _, n := range needs {
		if len(n.missing()) > 0 {
			pairs = append(pairs, strings.Fields(n.install)...)
		}
	}
	if s.install && len(pairs) > 0 {
		// The check below reports packages that could not be installed.
		_ = stream(ctx, s.out, "scripts/deps.sh", pairs...)
	}
	problems := map[string]string{}
	for _, n := range needs {
		problem := n.problem()
		if problem == "" && n.make != "" {
			var log bytes.Buffer
			if err := stream(ctx, &log, "make", "--no-print-directory", "GO="+s.goTool, n.make); err != nil {
				fmt.Fprint(s.out, log.String())
				problem = fmt.Sprintf("%s: make %s failed: %s", n.name, n.make, lastLine(log.String()))
			}
		}
		if problem != "" {
			problems[n.name] = problem
		}
	}
	return problems
}

// needsOf returns the needs of tiers that are provided and checked, without duplicates.
func (s *session) needsOf(chosen []tier) []need {
	var needs []need
	seen := map[string]bool{}
	for _, t := range chosen {
		for _, n := range t.needs {
			driven := n.name == programs.name && slices.ContainsFunc(t.packages, func(p pkg) bool { return p.within("test") })
			if !seen[n.name] && (s.everything() || driven) {
				seen[n.name] = true
				needs = append(needs, n)
			}
		}
	}
	return needs
}

func stream(ctx context.Context, out io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
