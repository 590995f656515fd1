package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"palyra/internal/cli/calls/desktop/desktoptest"
	"palyra/internal/cli/setup/install/installtest"
	"palyra/internal/core/access"
	"palyra/internal/core/bus/bustest"
	"palyra/internal/core/canonical"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/statedir"
	daemon "palyra/internal/gateway"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/test/leaks"
	"palyra/test/systemd"
)

var update = flag.Bool("update", false, "write what the scripts compare with")

// TestMain lets the scripts run palyra as a separate program, and the programs that it starts: a
// palyrad, and stand-ins for palyra-hook, Codex and systemctl.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"palyra": main, "palyrad": detached, "palyra-hook": installtest.Hook, "codex": installtest.Codex, "systemctl": systemd.Main,
	})
}

// detached runs palyrad as a separate process.
func detached() {
	cmd := daemon.Command(os.Stdout, os.Stderr)
	cmd.SetArgs(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestScripts runs testdata/*.txtar. In addition to the usual commands a script has:
//
//	gateway [NAME=DIR ...]   starts the daemon in this process with the
//	                         script's configuration, and waits until it responds
//	gateway stop             stops it normally
//	operator NAME ROLE       adds a second member; the bundle is $WORK/NAME
//	authority AGE            creates the gateway's authority with a clock that is AGE
//	                         behind, before the daemon's first start
//	expire NAME AGE          gives the bundle $WORK/NAME a certificate of the same key
//	                         that expired AGE ago
//	find NAME REGEXP         sets $NAME to the first group in the last stdout
//	exits CODE ARGS...       runs palyra and requires this exit code
//	asked                    waits for one pending approval; sets $ID and $DIGEST
//	listing FILE             writes the digests, modes and names of all files in the home
//	                         directory to FILE, except the gateway's state and the stored
//	                         heads of its journal
//	killed AFTER ARGS...     runs palyra and kills it if it still runs after that time
//	holds UNIT               requires that the address of a systemd unit is in use
//	registry VERSION         starts a registry on loopback with the package @probe/server, and the
//	                         wheel probe-server, in that version; sets $REGISTRY and $INDEX
//	desktop                  starts a graphical session
//	notified TITLE [BODY]    waits for the next notification in the session; without a
//	                         title, for the removal of the current one
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Defer(func() { keysAreKept(env.T(), env.WorkDir) })
			env.Defer(func() { endStarted(env.WorkDir) })
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			// Programs with the race detector would wait a second at their end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(home, ".local", "state"))
			// Skills are built with the shared Go build cache, not with one below this home.
			if cache, err := os.UserCacheDir(); err == nil {
				env.Setenv("GOCACHE", cmp.Or(os.Getenv("GOCACHE"), filepath.Join(cache, "go-build")))
			}
			for _, name := range []string{"PALYRA_CONFIG", "PALYRA_ADDRESS", "PALYRA_CREDENTIALS", "PALYRA_STATE_DIR", "NO_COLOR", "CI"} {
				env.Setenv(name, "")
			}
			env.Values[daemonKey{}], env.Values[desktopKey{}], env.Values[registryKey{}] = &running{}, &screen{}, &packageRegistry{}
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"gateway": gateway, "operator": operator, "authority": authority, "expire": expire, "find": find, "asked": asked, "exits": exits, "recovervault": recoverVault,
			"desktop": desktop, "notified": notified, "listing": listing, "killed": killed, "holds": holds, "registry": registry,
		},
	})
}

// endStarted ends processes that a failed script left running: a palyrad that was started
// detached, or by the service manager.
func endStarted(dir string) {
	pid, _ := statedir.HolderPID(filepath.Join(dir, "home", ".local", "state", "palyra"))
	pids := []int{pid}
	for _, name := range []string{"service.pid", "socket.pid"} {
		text, _ := os.ReadFile(filepath.Join(dir, "systemd", name))
		pid, _ := strconv.Atoi(string(text))
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil && pid > 1 && pid != os.Getpid() {
			_ = p.Kill()
		}
	}
}

// keysAreKept fails the script if a private key or a token occurs in any file other than the
// key's own file.
func keysAreKept(t testscript.T, dir string) {
	_, told, err := leaks.Look(dir, nil)
	if err != nil || len(told) > 0 {
		t.Fatal("keys stand where they must not: ", told, err)
	}
}

// daemonKey is the key of a script's daemon.
type daemonKey struct{}

// running is the daemon of one script.
type running struct {
	stop context.CancelFunc
	done chan error
}

func gateway(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("palyrad cannot be negated")
	}
	r := ts.Value(daemonKey{}).(*running)
	if len(args) == 1 && args[0] == "stop" {
		ts.Check(r.end())
		return
	}
	if r.stop != nil {
		ts.Fatalf("palyrad runs already")
	}
	cfg := load(ts)
	for _, w := range args {
		name, dir, ok := strings.Cut(w, "=")
		if !ok {
			ts.Fatalf("palyrad: %q is not NAME=DIR", w)
		}
		cfg.Workspaces = append(cfg.Workspaces, config.Workspace{Name: name, Path: ts.MkAbs(dir)})
	}
	address, err := r.start(cfg)
	ts.Check(err)
	ts.Setenv("PALYRA_ADDRESS", address)
	ts.Defer(func() { _ = r.end() })
}

// load reads the script's configuration as palyrad does.
func load(ts *testscript.TestScript) *config.Config {
	cfg, _, err := config.Load(config.LoadOptions{Env: ts.Getenv, Flags: map[string]string{
		"listen.api": "127.0.0.1:0", "listen.metrics": "127.0.0.1:0", "listen.console": "127.0.0.1:0", "vault.backend": "file",
	}})
	ts.Check(err)
	return cfg
}

func (r *running) start(cfg *config.Config) (address string, err error) {
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan daemon.Addresses, 1), make(chan error, 1)
	go func() {
		done <- daemon.Run(ctx, daemon.Options{
			Config: cfg, Log: slog.New(slog.DiscardHandler), Ready: func(a daemon.Addresses) { ready <- a },
		})
	}()
	select {
	case a := <-ready:
		r.stop, r.done = stop, done
		return a.API, nil
	case err := <-done:
		stop()
		return "", fmt.Errorf("palyrad did not start: %w", err)
	case <-time.After(must.Patience):
		stop()
		return "", fmt.Errorf("palyrad is not ready after %v", must.Patience)
	}
}

func (r *running) end() error {
	if r.stop == nil {
		return nil
	}
	r.stop()
	r.stop = nil
	return <-r.done
}

// operator adds a member and writes the bundle to $WORK/NAME.
func operator(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: operator NAME ROLE")
	}
	cfg := load(ts)
	cfg.Listen.API = ts.Getenv("PALYRA_ADDRESS")
	_, err := daemon.AddOperator(context.Background(), cfg, daemon.NewOperator{
		Name: args[0], Roles: []access.Role{access.Role(args[1])}, Dir: ts.MkAbs(args[0]), AcceptLoss: true,
	})
	ts.Check(err)
}

// at opens the authority with a clock that is behind.
func at(ts *testscript.TestScript, ago time.Duration) *ca.Authority {
	cfg := load(ts)
	a, _, err := ca.Open(statedir.Authority(cfg.StateDir), ca.Options{
		TrustDomain: cfg.TrustDomain, ServerHosts: cfg.Listen.ServerNames, Now: func() time.Time { return time.Now().Add(-ago) },
	})
	ts.Check(err)
	return a
}

func authority(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: authority AGE")
	}
	age, err := time.ParseDuration(args[0])
	ts.Check(err)
	ts.Check(os.MkdirAll(load(ts).StateDir, 0o700))
	at(ts, age)
}

func expire(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: expire NAME AGE")
	}
	age, err := time.ParseDuration(args[1])
	ts.Check(err)
	dir := ts.MkAbs(args[0])
	b, err := identity.ReadBundle(dir)
	ts.Check(err)
	csr, err := identity.Request(b.Key)
	ts.Check(err)
	authority := at(ts, age+ca.LeafLife)
	device, err := authority.DeviceID(b.Chain[0])
	ts.Check(err)
	issued, err := authority.IssueDevice(csr, device)
	ts.Check(err)
	b.Chain = issued.Chain
	ts.Check(identity.WriteBundle(dir, b))
}

// recoverVault restores the vault's key, as `palyrad vault recover` does.
func recoverVault(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: recovervault IDENTITY EXPORT")
	}
	// The recovery key is on the displayed page.
	key := regexp.MustCompile(`AGE-SECRET-KEY-[0-9A-Z]+`).FindString(ts.ReadFile(args[0]))
	_, err := daemon.RecoverVault(context.Background(), load(ts), strings.NewReader(ts.ReadFile(args[1])), strings.NewReader(key))
	if (err != nil) != neg {
		ts.Fatalf("recovervault: %v", err)
	}
}

// find sets a variable from the last standard output.
func find(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: find NAME REGEXP")
	}
	m := regexp.MustCompile(`(?m)` + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) < 2 {
		ts.Fatalf("the last output has no %s", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// exits runs palyra and compares its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec("palyra", args[1:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// asked waits until a call of the script waits for an approval.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: asked")
	}
	pending := must.Wait(func() bool {
		ts.Check(ts.Exec("palyra", "approvals", "list", "-o", "ndjson"))
		var v struct {
			ID     string `json:"approval_id"`
			Digest string `json:"call_digest"`
		}
		if json.Unmarshal([]byte(ts.ReadFile("stdout")), &v) != nil || v.ID == "" {
			return false
		}
		ts.Setenv("ID", v.ID)
		ts.Setenv("DIGEST", v.Digest)
		return true
	})
	if !pending {
		ts.Fatalf("no approval is pending after %v", must.Patience)
	}
}

// listing records the content of the home directory, except for the gateway's state.
func listing(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listing FILE")
	}
	home := ts.Getenv("HOME")
	var out strings.Builder
	ts.Check(filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(home, path)
		state := filepath.Join(".local", "state")
		if rel == filepath.Join(state, "palyra-cli") {
			// The CLI stores the verified part of a journal, which stays.
			list, err := os.ReadDir(path)
			if err == nil && len(list) == 1 && list[0].Name() == "gateways" {
				return filepath.SkipDir
			}
		}
		if rel == filepath.Join(state, "palyra") {
			return filepath.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		what := ""
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			what, err = os.Readlink(path)
		case e.Type().IsRegular():
			text, rerr := os.ReadFile(path)
			what, err = canonical.Digest(text), rerr
		}
		fmt.Fprintf(&out, "%v %s %s\n", info.Mode(), rel, what)
		return err
	}))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(out.String()), 0o600))
}

// killed runs palyra and kills it.
func killed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: killed AFTER ARGS...")
	}
	after, err := time.ParseDuration(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	program, err := exec.LookPath("palyra")
	ts.Check(err)
	cmd := exec.CommandContext(ctx, program, args[1:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), []string{"PATH=" + os.Getenv("PATH")}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	_ = cmd.Run() // the script checks how far it came
}

// holds checks that no other process can listen at the address of a systemd unit.
func holds(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: holds UNIT")
	}
	m := regexp.MustCompile(`ListenStream=(.+)`).FindStringSubmatch(ts.ReadFile(args[0]))
	if m == nil {
		ts.Fatalf("%s has no address", args[0])
	}
	l, err := net.Listen("tcp", m[1])
	if err == nil {
		ts.Check(l.Close())
	}
	if (err == nil) != neg {
		ts.Fatalf("listening on %s: %v", m[1], err)
	}
}

// desktopKey is the key of a script's desktop.
type desktopKey struct{}

// screen is the desktop of one script.
type screen struct{ server *desktoptest.Server }

func desktop(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: desktop")
	}
	// The path of a socket is limited in length.
	dir, err := os.MkdirTemp("", "desktop")
	ts.Check(err)
	ts.Defer(func() { _ = os.RemoveAll(dir) })
	address, stop, err := bustest.Start(dir)
	ts.Check(err)
	ts.Defer(stop)
	server, err := desktoptest.Serve(address, "body", "body-markup")
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Value(desktopKey{}).(*screen).server = server
	ts.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
	ts.Setenv("DISPLAY", ":9")
}

func notified(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 2 {
		ts.Fatalf("usage: notified TITLE [BODY]")
	}
	want := append(args, "", "")[:2]
	select {
	case n := <-ts.Value(desktopKey{}).(*screen).server.Sent:
		if n.Title != want[0] || !strings.Contains(n.Body, want[1]) {
			ts.Fatalf("the notification is %q, %q", n.Title, n.Body)
		}
	case <-time.After(must.Patience):
		ts.Fatalf("there was no notification within two minutes")
	}
}
