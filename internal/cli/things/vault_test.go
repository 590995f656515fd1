package things_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
	"palyra/internal/vault"
)

// TestGoldenVault compares the output of every listing and page in every format.
func TestGoldenVault(t *testing.T) {
	t.Parallel()
	clitest.Golden(t, map[string][]string{
		"vault_list":    {"vault", "list"},
		"vault_show":    {"vault", "show", clitest.SecretRef},
		"vault_get":     {"vault", "get", clitest.SecretRef},
		"vault_reveal":  {"vault", "get", clitest.SecretRef, "--reveal"},
		"vault_history": {"vault", "history", clitest.SecretRef},
		"vault_edit":    {"vault", "edit", clitest.SecretRef, "--note", "x"},
		"vault_rm":      {"vault", "rm", clitest.SecretRef, "--yes"},
		"vault_rekey":   {"vault", "rekey"},
		"vault_status":  {"vault", "status"},
	})
}

// piped runs a command with a stdin that is not a terminal.
func piped(w *clitest.World, in string, args ...string) clitest.Result {
	return w.With(printer.Streams{In: strings.NewReader(in)}, append([]string{"vault"}, args...)...)
}

// TestPut: the value that was read is sent unchanged and never displayed.
func TestPut(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	exact := w.Write("value", "in a file\n")
	for _, test := range []struct {
		name string
		in   string
		args []string
		code int
		want string
	}{
		{"stdin without its last line end", "the-value\n", nil, 0, "the-value"},
		{"stdin with one line end of two", "the-value\n\n", nil, 0, "the-value\n"},
		{"stdin of Windows", "the-value\r\n", nil, 0, "the-value"},
		{"stdin as it is", "the\x00value ", nil, 0, "the\x00value "},
		{"several lines of stdin", "-----BEGIN KEY-----\nx\n-----END KEY-----\n", nil, 0, "-----BEGIN KEY-----\nx\n-----END KEY-----\n"},
		{"stdin that becomes a file", "the-value\n", []string{"--as-file", "key"}, 0, "the-value\n"},
		{"stdin that becomes no file any more", "the-value\n", []string{"--as-file", ""}, 0, "the-value"},
		{"a file byte for byte", "", []string{"--file", exact}, 0, "in a file\n"},
		{"nothing", "", nil, 2, ""},
		{"nothing but a line end", "\n", nil, 2, ""},
		{"no such file", "", []string{"--file", exact + "x"}, 2, ""},
		{"too much", strings.Repeat("x", vault.MaxValue+1), nil, 2, ""},
		{"the most", strings.Repeat("x", vault.MaxValue) + "\n", nil, 0, strings.Repeat("x", vault.MaxValue)},
		{"an argument", "", []string{"the-value"}, 2, ""},
		{"an argument and stdin", "x", []string{"the-value"}, 2, ""},
		{"an end that is none", "x", []string{"--expires", "soon"}, 2, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := len(clitest.Requests[*palyrav1.PutSecretRequest](w))
			r := piped(w, test.in, append([]string{"put", "vault://global/x"}, test.args...)...)
			if strings.Contains(r.Out+r.Err, "the-value") {
				t.Errorf("it repeats the value:\n%s%s", r.Out, r.Err)
			}
			if r.Code != test.code || test.want != "" && strings.Contains(r.Out+r.Err, strings.TrimSpace(test.want)) {
				t.Errorf("exit %d, want %d:\n%s%s", r.Code, test.code, r.Out, r.Err)
			}
			sent := clitest.Requests[*palyrav1.PutSecretRequest](w)[before:]
			if (len(sent) == 1) != (test.code == 0) || len(sent) == 1 && string(sent[0].GetValue()) != test.want {
				t.Errorf("sent %v", sent)
			}
		})
	}
}

func TestPutMetadata(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Want(piped(w, "value", "put", "global/x", "--note", "n", "--expires", "90d", "--host", "a.example:443", "--host", "b.example:443", "--header", "X-Key", "--env", "KEY", "--as-file", "key"), 0)
	w.Want(piped(w, "", "edit", "global/x", "--host", "", "--expires", "never"), 0)
	w.Want(piped(w, "", "edit", "global/x"), 2)
	w.Want(piped(w, "", "edit", "global/x", "-o", "json"), 2) // changes nothing of the secret
	put, edit := clitest.Requests[*palyrav1.PutSecretRequest](w)[0], clitest.Requests[*palyrav1.PutSecretRequest](w)[1]
	if put.GetNote() != "n" || !put.GetExpiresAt().AsTime().Equal(clitest.Now.Add(90*24*time.Hour)) || len(put.GetHosts().GetHosts()) != 2 || put.GetHeader() != "X-Key" || put.GetEnv() != "KEY" || put.GetFile() != "key" {
		t.Errorf("put %v", put)
	}
	if edit.Value != nil || edit.Note != nil || edit.GetHosts() == nil || len(edit.GetHosts().GetHosts()) != 0 || !edit.GetNeverExpires() {
		t.Errorf("edit %v", edit)
	}
}

// TestPrompt: on a terminal the value is prompted for without echo.
func TestPrompt(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	hidden := func(context.Context) (string, error) { return "typed-value", nil }
	w.Want(w.With(printer.Streams{InTerminal: true, ErrTerminal: true, ReadHidden: hidden}, "vault", "put", "global/x"), 0)
	w.Want(w.With(printer.Streams{InTerminal: true}, "vault", "put", "global/x"), 2)
	if sent := clitest.Requests[*palyrav1.PutSecretRequest](w); len(sent) != 1 || string(sent[0].GetValue()) != "typed-value" {
		t.Errorf("sent %v", sent)
	}
}

func TestReveal(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	if r := w.Run("vault", "get", clitest.SecretRef); r.Code != 0 || strings.Contains(r.Out+r.Err, clitest.SecretValue) || !strings.Contains(r.Out, "not shown") {
		t.Errorf("without --reveal: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if r := w.Run("vault", "get", clitest.SecretRef, "--reveal"); r.Out != clitest.SecretValue || r.Err != "" {
		t.Errorf("into a pipe: %q, %q", r.Out, r.Err)
	}
	r := w.With(printer.Streams{OutTerminal: true, ErrTerminal: true, Width: 80}, "vault", "get", clitest.SecretRef, "--reveal")
	if r.Out != clitest.SecretValue+"\n" || !strings.Contains(r.Err, "warning: ") {
		t.Errorf("on a terminal: %q, %q", r.Out, r.Err)
	}
	w.Want(w.Run("vault", "get", clitest.SecretRef, "--version", "1"), 2)
	if r := w.Run("vault", "get", "global/none", "--reveal"); r.Code != 1 || r.Out != "" {
		t.Errorf("of none: exit %d, %q", r.Code, r.Out)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Want(w.Run("vault", "rm", clitest.SecretRef), 2)
	if len(clitest.Requests[*palyrav1.RemoveSecretRequest](w)) > 0 {
		t.Error("it was removed without a yes")
	}
	w.Want(w.Run("vault", "rm", clitest.SecretRef, "--yes"), 0)
	if len(clitest.Requests[*palyrav1.RemoveSecretRequest](w)) != 1 {
		t.Error("it was not removed")
	}
}

func TestUnlock(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.VaultLocked = true
	w.Want(piped(w, "close\n", "unlock"), 2)
	w.Want(piped(w, "\n", "unlock"), 2)
	w.Want(piped(w, "", "unlock"), 2)
	nothing := must.Get(os.Open(os.DevNull))(t)
	defer nothing.Close()
	if r := w.With(printer.Streams{In: nothing}, "vault", "unlock"); r.Code != 2 || !strings.Contains(r.Err, "a passphrase is required") {
		t.Errorf("from nothing: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	// A file as stdin, as in `palyra vault unlock < FILE`, whose last line has no newline.
	file := must.Get(os.Open(w.Write("phrase", "open sesame")))(t)
	defer file.Close()
	w.Want(w.With(printer.Streams{In: file}, "vault", "unlock"), 0)
	w.Gateway.VaultLocked = true
	w.Want(piped(w, "open sesame\n", "unlock"), 0)
	if r := piped(w, "", "unlock"); r.Code != 0 || !strings.Contains(r.Err, "not locked") {
		t.Errorf("one that is open: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
}

// TestExportRecovery: the recovery key is created by the client and displayed once. No existing
// file is overwritten.
func TestExportRecovery(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	out := filepath.Join(t.TempDir(), "recovery.age")
	r := w.Run("vault", "export-recovery", "--out", out)
	if r.Code != 0 || !strings.Contains(r.Out, "AGE-SECRET-KEY-1") || !strings.Contains(r.Err, "shown only once") {
		t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	info := must.Get(os.Stat(out))(t)
	if text := string(must.Get(os.ReadFile(out))(t)); info.Mode().Perm() != 0o600 || !strings.HasPrefix(text, "-----BEGIN AGE") || strings.Contains(text, "SECRET-KEY") {
		t.Errorf("mode %v: %s", info.Mode(), text)
	}
	w.Want(w.Run("vault", "export-recovery", "--out", out), 2)
	swapped := filepath.Join(t.TempDir(), "recovery.age")
	if r := w.Run("vault", "export-recovery", "--out", swapped, "--recipient", "AGE-SECRET-KEY-1MINE"); r.Code != 2 || strings.Contains(r.Out+r.Err, "1MINE") {
		t.Errorf("a key for a recipient: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if _, err := os.Lstat(swapped); err == nil {
		t.Error("a file was left")
	}
	other := filepath.Join(t.TempDir(), "recovery.age")
	if r := w.Run("vault", "export-recovery", "--recipient", "age1recipient", "--out", other); r.Code != 0 || strings.Contains(r.Out, "SECRET-KEY") || !strings.Contains(r.Out, "age1recipient") {
		t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
}
