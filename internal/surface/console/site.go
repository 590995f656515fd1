package console

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

const (
	// SecretHeader carries the half of a session that the page stores.
	SecretHeader = "Palyra-Console-Secret" //nolint:gosec // its name
	// BackgroundHeader marks an automatic request of the page: it does not extend an idle session.
	BackgroundHeader = "Palyra-Console-Background"

	// cookieName has a prefix with which browsers accept the cookie from this host alone. Some
	// browsers refuse such a cookie over plain HTTP. A browser that does not return the probe gets
	// plainCookieName.
	cookieName, plainCookieName = "__Host-palyra", "palyra-session"
	probeName                   = "__Host-palyra-probe"

	// apiPrefix is the path prefix of the API.
	apiPrefix = "/palyra.v1."
	// maxBody bounds the body of a login in bytes.
	maxBody = 4 << 10
)

// The routes of the console.
const (
	LoginRoute  = "POST /console/v1/login"
	LogoutRoute = "POST /console/v1/logout"
	PagesRoute  = "GET /"
)

// policy is the Content-Security-Policy of console pages: they load their own scripts and styles,
// connect to their own origin, and cannot be framed.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"worker-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'"

// workerPolicy is the Content-Security-Policy of the Workers that verify the journal. No
// document has it.
const workerPolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'"

// headers are set on every response.
var headers = map[string]string{
	"Content-Security-Policy":      policy,
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Embedder-Policy": "require-corp",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=(), publickey-credentials-get=(self), publickey-credentials-create=(self)",
	"Cache-Control":                "no-store",
}

// Handlers returns the handlers of the console's routes.
func (c *Console) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		LoginRoute: http.HandlerFunc(c.login), AboutRoute: http.HandlerFunc(c.about), ProviderRoute: http.HandlerFunc(c.toProvider), CallbackRoute: http.HandlerFunc(c.callback), LogoutRoute: http.HandlerFunc(c.logout), PagesRoute: http.HandlerFunc(c.show),
	}
}

// Site serves the console: its routes by the handler routes, and the API to sessions. Page
// requests to other names of the gateway are redirected to the console's origin. All other
// requests are refused.
func (c *Console) Site(routes, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		toAPI := strings.HasPrefix(r.URL.Path, apiPrefix)
		switch {
		case r.Host == c.host() && toAPI:
			api.ServeHTTP(w, r.WithContext(WithVisit(r.Context(), c.sessionOf(r))))
		case r.Host == c.host():
			routes.ServeHTTP(w, r)
		case c.ownName(r) && !toAPI && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			http.Redirect(w, r, c.Origin+r.URL.EscapedPath(), http.StatusTemporaryRedirect)
		default:
			// A name that resolves to this address proves nothing about the page (DNS rebinding).
			c.refuse(w, r, reason.Errorf(reason.PermissionDenied, "the host name %q is not the console's", r.Host).
				WithRemedy("Use the console at %s.", c.Origin))
		}
	})
}

// sessionOf finds the session of an API request after verifying that a console page sent it.
func (c *Console) sessionOf(r *http.Request) Visit {
	ctx := r.Context()
	refused := func(err error) Visit {
		return Visit{Look: func() (access.Caller, time.Time, error) { return access.Caller{}, time.Time{}, err }}
	}
	if err := c.fromHere(r); err != nil {
		// The error contains no hint about valid credentials.
		return refused(reason.Errorf(reason.Unauthenticated, "%w", err))
	}
	if r.Header.Get("Authorization") != "" {
		return refused(reason.Errorf(reason.Unauthenticated, "the console accepts only sessions, not tokens").
			WithRemedy("Use the API at its own address for programs."))
	}
	s, err := c.Sessions.find(ctx, cookie(r), r.Header.Get(SecretHeader))
	if err != nil {
		return refused(err)
	}
	if r.Header.Get(BackgroundHeader) == "" {
		c.Sessions.use(cookie(r))
	}
	return Visit{Session: s.ID, Look: func() (access.Caller, time.Time, error) { return c.Sessions.caller(ctx, s.ID) }}
}

// cookie returns the session cookie, "" for none.
func cookie(r *http.Request) string {
	for _, name := range []string{cookieName, plainCookieName} {
		if found, err := r.Cookie(name); err == nil {
			return found.Value
		}
	}
	return ""
}

// show serves a file.
func (c *Console) show(w http.ResponseWriter, r *http.Request) {
	if _, err := r.Cookie(probeName); err != nil {
		http.SetCookie(w, &http.Cookie{Name: probeName, Value: "1", Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	}
	c.page.ServeHTTP(w, r)
}

// loginAnswer is the response to a login with a token.
type loginAnswer struct {
	Secret    string    `json:"secret"`
	SessionID string    `json:"session_id"`
	User      string    `json:"user"`
	ExpiresAt time.Time `json:"expires_at"`
}

// login exchanges the token of a link for a session.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if err := c.fromHere(r); err != nil {
		c.refuse(w, r, err)
		return
	}
	var body struct {
		Token string `json:"token"`
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = canonical.Read(text, &body)
	}
	if err != nil {
		c.refuseStranger(w, r, reason.Errorf(reason.InvalidInput, "the body is not a JSON object with a token"))
		return
	}
	// A link's token cannot be guessed, so a valid one does not count against the limit of its
	// address.
	l, err := c.links.redeem(body.Token)
	if err != nil {
		c.refuseStranger(w, r, err)
		return
	}
	if caller, err := c.Members.SessionCaller(l.way.Device, l.way.Over); err != nil || caller.Principal != l.way.Principal {
		c.refuse(w, r, reason.Errorf(reason.LoginRefused, "the device that made the link may no longer act"))
		return
	}
	// The browser's previous session ends.
	if old, ok := c.Sessions.held(cookie(r)); ok {
		c.Sessions.end(ctx, old.ID, l.way.Principal, "another login in the same browser")
	}
	s, cookie, secret, err := c.Sessions.begin(ctx, l.way, l.id, address(r), r.UserAgent())
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	http.SetCookie(w, c.cookie(r, cookie, int(c.Life/time.Second)))
	answer(w, http.StatusOK, loginAnswer{Secret: secret, SessionID: s.ID, User: s.Principal.String(), ExpiresAt: s.EndsAt})
}

// refuseStranger refuses an unauthenticated request and counts the refusal.
func (c *Console) refuseStranger(w http.ResponseWriter, r *http.Request, err error) {
	if ok, wait := c.Allow(address(r)); !ok {
		err = reason.Errorf(reason.RateLimited, "too many logins; try again in %s", wait.Round(time.Millisecond))
	}
	c.refuse(w, r, err)
}

// cookie returns the cookie of a session; a negative age deletes it.
func (c *Console) cookie(r *http.Request, value string, age int) *http.Cookie {
	cookie := &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if _, err := r.Cookie(probeName); err != nil && !strings.HasPrefix(c.Origin, "https:") {
		cookie.Name, cookie.Secure = plainCookieName, false
	}
	return cookie
}

// logout ends the session of a browser.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if err := c.fromHere(r); err != nil {
		c.refuse(w, r, err)
		return
	}
	s, err := c.Sessions.find(r.Context(), cookie(r), r.Header.Get(SecretHeader))
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	c.Sessions.end(r.Context(), s.ID, s.Principal, "logged out")
	if s.Provider && c.LogOut != nil {
		if err := c.LogOut(r.Context(), s.Device); err != nil {
			c.Log.WarnContext(r.Context(), "ending the login of a console session", slog.String("session", s.ID), slog.String("error", err.Error()))
		}
	}
	http.SetCookie(w, c.cookie(r, "", -1))
	// Other stored data of the page, such as pinned keys, is kept.
	w.Header().Set("Clear-Site-Data", `"cache"`)
	w.WriteHeader(http.StatusNoContent)
}

// refuse writes an error in the format of the API (Connect's unary errors).
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, err error) {
	code := reason.Of(err)
	c.Refused(r.Context(), address(r), r.URL.Path, code)
	status, word := http.StatusForbidden, "permission_denied"
	switch code {
	case reason.InvalidInput:
		status, word = http.StatusBadRequest, "invalid_argument"
	case reason.LoginRefused, reason.Unauthenticated:
		status, word = http.StatusUnauthorized, "unauthenticated"
	case reason.RateLimited:
		status, word = http.StatusTooManyRequests, "resource_exhausted"
	case reason.JournalUnavailable, reason.LoginUnavailable:
		status, word = http.StatusServiceUnavailable, "unavailable"
	case reason.Internal:
		c.Log.ErrorContext(r.Context(), "serving the console", slog.String("route", r.URL.Path), slog.String("error", err.Error()))
		status, word, err = http.StatusInternalServerError, "internal", reason.Errorf(reason.Internal, "internal error; the gateway's log has the cause")
	}
	known := reason.Known(err, reason.Internal)
	answer(w, status, map[string]string{"code": word, "reason": string(code), "message": known.Message, "remedy": known.Remedy})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The browser may have disconnected.
	_ = json.NewEncoder(w).Encode(body)
}

// address returns the source address of a request.
func address(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
