package builtin

import (
	"context"
	"encoding/json"
	"fmt"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// Fetcher makes requests for calls of other tools than http.fetch, such as calls of WebAssembly
// guests. It applies the rules, the input and the result of http.fetch, within the grant of the
// call.
type Fetcher struct {
	fetch  fetch
	schema *tool.Schema
}

// NewFetcher returns a fetcher.
func NewFetcher(cfg Config) (Fetcher, error) {
	t := newFetch(withDefaults(cfg))
	// The operator's own secrets are for calls of http.fetch: a guest names its secrets
	// explicitly.
	t.policy.Secrets = nil
	schema, err := tool.CompileSchema(t.Descriptor().InputSchema)
	if err != nil {
		return Fetcher{}, fmt.Errorf("the schema of %s: %w", fetchName, err)
	}
	return Fetcher{t, schema}, nil
}

// Fetch makes one request for a decided call. The host must be allowed by the gateway's rules
// and, if within names hosts, be one of them. The request may carry the secrets of within, each
// only to its hosts, and must not send more bytes than the remaining budget.
func (f Fetcher) Fetch(ctx context.Context, c tool.Call, input json.RawMessage, within egress.Reach) tool.Report {
	t := f.fetch
	t.within = within.Rules.Allow
	if t.lender != nil {
		t.lender = narrowed{t.lender, within.Secrets}
	}
	report := begin(t.version)
	checked, err := f.schema.Check(input)
	if err != nil {
		return report.Fail(ctx, err)
	}
	p := c.Proposal
	p.Input = checked
	r, err := t.check(ctx, p)
	if err != nil {
		return report.Fail(ctx, err)
	}
	if most := within.Budget.BytesOut; r.maySend() > most {
		return report.Fail(ctx, reason.Errorf(reason.QuotaExceeded, "the request may send %d bytes, but the call has %d left", r.maySend(), most))
	}
	return t.run(ctx, c, r)
}

// narrowed is a lender that offers only the secrets granted to a call.
type narrowed struct {
	Lender
	offers []egress.Secret
}

// Offers implements Lender.
func (n narrowed) Offers(_ context.Context, _ tool.Proposal, limit int, wanted func(egress.Secret) bool) (list []egress.Secret, more bool, err error) {
	for _, s := range n.offers {
		if !wanted(s) {
			continue
		}
		if len(list) == limit {
			return list, true, nil
		}
		list = append(list, s)
	}
	return list, false, nil
}
