// Package browser shows pages to the person at this machine, by a link that no other user
// learns: it is in no argument of a program. It also waits for the browser that a login sends
// back (RFC 8252, section 7.3).
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

// Page is a file for the person alone, which leads a browser to a link.
type Page struct{ path string }

// Dir is where pages are: a directory of the person's session where there is one, which
// ends with it.
func Dir(a *client.App) string {
	if dir := a.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "palyra")
	}
	return filepath.Join(a.Xdg("XDG_STATE_HOME", ".local/state"), "palyra", "pages")
}

// Write writes a page, which no other user can read. It is to be removed.
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

// Open starts the person's browser with the page.
func (p Page) Open(ctx context.Context) error {
	name, args := "xdg-open", []string{p.path}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", p.path}
	}
	if _, err := exec.LookPath(name); err != nil {
		return reason.Errorf(reason.NotFound, "there is no %s", name)
	}
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return reason.Errorf(reason.NotFound, "%s: %s", name, strings.TrimSpace(string(out)))
	}
	return nil
}
