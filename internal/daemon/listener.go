package daemon

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"time"
)

// acceptor is a listener that tells the operator why nobody gets in. The HTTP
// server tries again by itself; it accepts from one goroutine.
type acceptor struct {
	net.Listener
	log  *slog.Logger
	told time.Time
}

// Accept implements net.Listener.
func (a *acceptor) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err != nil && outOfDescriptors(err) && (a.told.IsZero() || time.Since(a.told) > time.Minute) {
		a.told = time.Now()
		a.log.Warn("new connections have to wait: raise the limit of open files (ulimit -n, or LimitNOFILE in a systemd unit), or see who opens so many connections",
			slog.String("api", a.Addr().String()), slog.String("error", err.Error()))
	}
	return conn, err
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
