package dispatch

import (
	"context"
	"log/slog"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// logFault logs what a tool met that it cannot tell its client: a client that
// is told to look at the log finds the cause there.
func (r *Router) logFault(ctx context.Context, p *tool.Proposal, report *tool.Report) {
	if report.Reason != string(reason.Internal) {
		return
	}
	cause := report.Message
	if report.Cause != nil {
		cause = report.Cause.Error()
	}
	r.log.ErrorContext(ctx, "a tool met a fault of the gateway", slog.String("tool", p.Tool.Name),
		slog.String("proposal", p.ID), slog.String("error", cause))
}
