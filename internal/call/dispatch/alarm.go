package dispatch

import (
	"context"
	"log/slog"
	"net"
	"strconv"

	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// mostAlarms bounds the log entries of one call.
const mostAlarms = 8

// alarm logs connections that look like an attempt to send a secret to the wrong place. The
// record of the call has every connection; the log is for the operator who must act now. Each
// target and reason is logged once.
func (r *Router) alarm(ctx context.Context, p *tool.Proposal, observed []tool.Connection) {
	type connection struct {
		host, why string
	}
	if len(observed) == 0 {
		return
	}
	seen := make(map[connection]bool)
	for _, c := range observed {
		one := connection{net.JoinHostPort(c.Host, strconv.Itoa(c.Port)), c.Reason}
		if !egress.Alarming(c.Reason) || seen[one] || len(seen) == mostAlarms {
			continue
		}
		seen[one] = true
		r.log.WarnContext(ctx, "a call tried to send a secret where it does not belong; nothing was sent",
			slog.String("alarm", one.why), slog.String("host", one.host), slog.String("run", p.Run),
			slog.String("proposal", p.ID), slog.String("tool", p.Tool.Name))
	}
}
