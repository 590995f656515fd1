// Package browser opens pages for the user at this machine by a link that other users cannot
// see, because it is not an argument of a program. It also receives the redirect of a login
// (RFC 8252, section 7.3).
package browser

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"palyra/internal/cli/client"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
)

// Page is a private file that redirects a browser to a link.
type Page struct{ path string }

// Dir returns the directory of pages: the runtime directory of the user's session if there is one,
// which ends with the session.
func Dir(a *client.App) string {
	if dir := a.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "palyra")
	}
	return filepath.Join(a.Xdg("XDG_STATE_HOME", ".local/state"), "palyra", "pages")
}

// Write writes a page that only this user can read. The caller must remove it.
func Write(dir, link string) (Page, error) {
	if err := keyfile.MakeDir(dir); err != nil {
		return Page{}, err
	}
	f, err := os.CreateTemp(dir, "open-*.html") // mode 0600
	if err != nil {
		return Page{}, fmt.Errorf("writing the page that leads a browser to its link: %w", err)
	}
	_, err = f.WriteString("<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>Palyra</title>\n" +
		"<meta http-equiv=\"refresh\" content=\"0;url=" + html.EscapeString(link) + "\">\n<p><a href=\"" + html.EscapeString(link) + "\">Open Palyra</a></p>\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return Page{}, errors.Join(fmt.Errorf("writing the page that leads a browser to its link: %w", err), os.Remove(f.Name()))
	}
	return Page{f.Name()}, nil
}

// Remove removes the page.
func (p Page) Remove() { _ = os.Remove(p.path) }

// Open opens the page in the user's browser.
func (p Page) Open(ctx context.Context) error {
	name, args := "xdg-open", []string{p.path}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", p.path}
	}
	if _, err := exec.LookPath(name); err != nil {
		return reason.Errorf(reason.NotFound, "%s does not exist", name)
	}
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return reason.Errorf(reason.NotFound, "%s: %s", name, strings.TrimSpace(string(out)))
	}
	return nil
}
