package dispatch

import (
	"context"
	"log/slog"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// logFault logs the cause of a tool failure that is not returned to its client: the client is
// referred to the log.
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
