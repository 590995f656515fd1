package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/wasm/guest"
)

// Error results of the functions of the handle interface.
const (
	notGranted = -1
	refused    = -2
	failed     = -3
	badInput   = -4
	overBudget = -5
	nothing    = -6
)

// Limits of the requests of one call.
const (
	// defaultUses is the maximum number of uses of grants in a call whose manifest has no quota.
	defaultUses = 1000
	// mostAsked is the maximum number of requests of a call, so that a guest in a loop ends.
	mostAsked = 1_000_000
	// mostLogged is the maximum size of the kept log, in bytes.
	mostLogged = 64 << 10
	// mostKey and mostValue are the maximum sizes in the storage, in bytes.
	mostKey, mostValue = 512, 4 << 20
	// mostNoted is the maximum number of recorded names that a call requested without a grant.
	mostNoted = 16
)

// host answers the guest of one call. It is used by one goroutine at a time.
type host struct {
	use    Config
	tool   Tool
	call   tool.Call
	grants grants
	space  Space
	uses   int64
	asked  int
	sent   int64
	noted  []tool.GrantUse
	log    []byte
	// connections are the connections of the guest's requests.
	connections []tool.Connection
	missed      int
	// values are the secrets that the guest has read, by name; ends end their leases.
	values map[string][]byte
	ends   []func()
}

func newHost(t Tool, c tool.Call, g grants) *host {
	return &host{use: t.use, tool: t, call: c, grants: g, space: spaceOf(t.skill.ID, c.Proposal.Caller), values: map[string][]byte{}}
}

// close clears the secret values and ends their leases.
func (h *host) close() {
	for _, value := range h.values {
		clear(value)
	}
	for _, end := range h.ends {
		end()
	}
}

// Answer implements guest.Host. The parameters are untrusted.
func (h *host) Answer(ctx context.Context, function string, n []int32, first, second []byte) (guest.Answer, error) {
	if h.asked++; h.asked > mostAsked {
		return guest.Answer{}, reason.Errorf(reason.QuotaExceeded, "the guest sent more than %d requests", mostAsked).
			WithRemedy("Fix the skill: it sends requests in a loop.")
	}
	if takes, there := numbers[function]; !there || len(n) != takes {
		return guest.Answer{Value: notGranted}, nil
	}
	switch function {
	case "grant_open":
		return plain(h.open(n[0], string(first))), nil
	case "grant_count":
		return plain(int32(len(h.of(n[0])))), nil
	case "grant_at":
		if list := h.of(n[0]); n[1] >= 0 && int(n[1]) < len(list) {
			return plain(list[n[1]]), nil
		}
		return plain(notGranted), nil
	case "grant_name":
		if one := h.grant(n[0], ""); one != nil {
			return sized([]byte(one.name)), nil
		}
		return plain(notGranted), nil
	case "log":
		h.write(n[0], first)
		return plain(0), nil
	}
	return h.useOf(ctx, function, n[0], first, second)
}

// numbers is the number of numeric parameters of each function, except the functions that the
// worker itself answers.
var numbers = map[string]int{
	"grant_open": 1, "grant_count": 1, "grant_at": 2, "grant_name": 1, "log": 1,
	"http_request": 1, "secret_read": 1, "channel_send": 1, "storage_get": 1, "storage_put": 1, "storage_delete": 1, "storage_list": 1,
}

func plain(value int32) guest.Answer { return guest.Answer{Value: value} }

func sized(text []byte) guest.Answer { return guest.Answer{Value: int32(len(text)), Result: text} }

// open returns the handle of a grant: its position in the list, counted from 1. A handle is
// valid only in its own call, because each call has its own list.

func (h *host) open(kind int32, name string) int32 {
	word, there := kinds[kind]
	if !there {
		return notGranted
	}
	for i, one := range h.grants.list {
		if one.kind == word && one.name == name {
			return int32(i) + 1
		}
	}
	h.note(word, name, 0, 1)
	return notGranted
}

func (h *host) of(kind int32) (handles []int32) {
	for i, one := range h.grants.list {
		if one.kind == kinds[kind] {
			handles = append(handles, int32(i)+1)
		}
	}
	return handles
}

// grant returns the grant of a handle, nil for an unknown handle or another kind.
func (h *host) grant(handle int32, kind string) *grant {
	if handle < 1 || int(handle) > len(h.grants.list) {
		return nil
	}
	one := &h.grants.list[handle-1]
	if kind != "" && one.kind != kind {
		return nil
	}
	return one
}

// kindOf is the kind of grant that a function uses.
var kindOf = map[string]string{
	"http_request": kindHTTP, "secret_read": kindSecret, "channel_send": kindChannel,
	"storage_get": kindStorage, "storage_put": kindStorage, "storage_delete": kindStorage, "storage_list": kindStorage,
}

// useOf uses a grant. Every use is counted, whether it succeeds or fails.
func (h *host) useOf(ctx context.Context, function string, handle int32, first, second []byte) (guest.Answer, error) {
	kind := kindOf[function]
	one := h.grant(handle, kind)
	if one == nil {
		h.note(kind, "", 0, 1)
		return plain(notGranted), nil
	}
	if h.uses++; h.uses > h.mostUses() {
		h.note(kind, one.name, 0, 1)
		return problem(reason.Errorf(reason.QuotaExceeded, "the call has reached its limit of %d uses of grants", h.mostUses())), nil
	}
	a, err := h.do(ctx, function, one, first, second)
	if err != nil && ctx.Err() != nil {
		return guest.Answer{}, context.Cause(ctx)
	}
	if err != nil {
		h.note(kind, one.name, 0, 1)
		var known *reason.Error
		if !errors.As(err, &known) {
			h.use.Log.ErrorContext(ctx, "a use of a grant failed", slog.String("tool", h.tool.name()), slog.String("proposal", h.call.Proposal.ID), slog.Any("error", err))
			known = reason.Errorf(reason.ToolFailed, "the gateway failed")
		}
		return problem(known), nil
	}
	h.note(kind, one.name, 1, 0)
	return a, nil
}

func (h *host) do(ctx context.Context, function string, one *grant, first, second []byte) (guest.Answer, error) {
	switch function {
	case "http_request":
		return h.request(ctx, one, first)
	case "secret_read":
		return h.secret(ctx, one)
	case "channel_send":
		return plain(0), reason.Errorf(reason.ConfigInvalid, "the channel %s is not configured: this gateway has no messaging channels", one.name)
	}
	if len(first) > mostKey || !utf8.Valid(first) || len(first) == 0 && function != "storage_list" {
		return plain(0), reason.Errorf(reason.InvalidInput, "a key must be UTF-8 of 1 to %d bytes", mostKey)
	}
	switch function {
	case "storage_get":
		value, err := h.use.Storage.Get(ctx, h.space, string(first))
		return sized(value), err
	case "storage_put":
		if len(second) > mostValue {
			return plain(0), reason.Errorf(reason.InvalidInput, "a value may have at most %d bytes", mostValue)
		}
		return plain(0), h.use.Storage.Put(ctx, h.space, string(first), second, h.grants.storage)
	case "storage_delete":
		return plain(0), h.use.Storage.Delete(ctx, h.space, string(first))
	}
	keys, err := h.use.Storage.List(ctx, h.space, string(first))
	if err != nil {
		return plain(0), err
	}
	if keys == nil {
		keys = []string{}
	}
	text, err := json.Marshal(keys)
	if err == nil && len(text) > mostValue {
		err = reason.Errorf(reason.QuotaExceeded, "the names of %d keys have more than %d bytes; list them by prefixes", len(keys), mostValue)
	}
	return sized(text), err
}

func (h *host) mostUses() int64 {
	if most := h.tool.skill.Quotas.Uses; most > 0 {
		return most
	}
	return defaultUses
}

// problem encodes an error for the guest.
func problem(known *reason.Error) guest.Answer {
	value := int32(failed)
	switch known.Code {
	case reason.EgressDenied, reason.PermissionDenied, reason.PolicyDenied, reason.ConfigInvalid, reason.VaultLocked:
		value = refused
	case reason.InvalidInput, reason.HostInvalid, reason.InputTooLarge:
		value = badInput
	case reason.QuotaExceeded, reason.BudgetExceeded:
		value = overBudget
	case reason.NotFound:
		value = nothing
	}
	return guest.Answer{Value: value, Result: []byte(text.Ellipsis(known.Message, 1000))}
}

// request makes one HTTP request, by the rules and the code of http.fetch.
func (h *host) request(ctx context.Context, one *grant, input []byte) (guest.Answer, error) {
	within := egress.Reach{Secrets: h.grants.placeholders, Budget: egress.Budget{BytesOut: h.use.BytesOut - h.sent}}
	if one.rule != nil {
		within.Rules.Allow = []egress.Rule{*one.rule}
	}
	if within.Budget.BytesOut <= 0 {
		return plain(0), reason.Errorf(reason.QuotaExceeded, "the call has reached its limit of %d sent bytes", h.sent)
	}
	r := h.use.Web.Fetch(ctx, h.call, input, within)
	h.connections, h.missed = append(h.connections, r.Egress.Observed...), h.missed+r.Egress.Missed
	if more := len(h.connections) - mostConnections; more > 0 {
		h.connections, h.missed = h.connections[:mostConnections], h.missed+more
	}
	for _, c := range r.Egress.Observed {
		h.sent += c.BytesOut
	}
	if r.Outcome != tool.Succeeded {
		if r.Reason == string(reason.Internal) {
			return plain(0), fmt.Errorf("fetching for a guest: %w", r.Cause)
		}
		return plain(0), reason.Errorf(reason.Code(r.Reason), "%s", r.Message)
	}
	if len(r.Result) > mostValue {
		return plain(0), reason.Errorf(reason.QuotaExceeded, "the response has %d bytes, but a guest may receive at most %d; set a smaller max_bytes", len(r.Result), mostValue)
	}
	return sized(r.Result), nil
}

// mostConnections is the maximum number of connections that a report lists one by one.
const mostConnections = 256

// secret returns the value of a secret to the guest. The worker is not reused after such a call.
func (h *host) secret(ctx context.Context, one *grant) (guest.Answer, error) {
	if one.read == nil {
		return plain(0), reason.Errorf(reason.EgressDenied, "the skill requested %s as a placeholder: the guest does not receive its value", one.name)
	}
	name := one.read.Secret
	if _, there := h.values[name]; !there {
		values, end, err := h.use.Lender.Inject(ctx, h.call, []tool.Injection{*one.read}, "the skill "+h.tool.skill.ID)
		h.ends = append(h.ends, end)
		if err != nil {
			return plain(0), err
		}
		h.values[name] = values[0]
	}
	a := sized(slices.Clone(h.values[name]))
	a.Spent = true
	return a, nil
}

// levels are the log levels.
var levels = []string{"debug", "info", "warning", "error"}

func (h *host) write(level int32, line []byte) {
	word := "log"
	if level >= 0 && int(level) < len(levels) {
		word = levels[level]
	}
	text := strings.ToValidUTF8(string(line[:min(len(line), 4096)]), "\uFFFD")
	h.log = fmt.Appendf(h.log, "%s: %s\n", word, strings.ReplaceAll(text, "\n", " "))
	h.log = h.log[:min(len(h.log), mostLogged)]
}

// note counts uses, by kind and name.
func (h *host) note(kind, name string, uses, no int) {
	i := slices.IndexFunc(h.noted, func(u tool.GrantUse) bool { return u.Kind == kind && u.Name == name })
	if i < 0 && uses == 0 && len(h.noted) >= mostNoted+len(h.grants.list) {
		// Further names without a grant share one entry.
		name = "(others)"
		i = slices.IndexFunc(h.noted, func(u tool.GrantUse) bool { return u.Kind == kind && u.Name == name })
	}
	if i < 0 {
		h.noted = append(h.noted, tool.GrantUse{Kind: kind, Name: text.Ellipsis(strings.ToValidUTF8(name, "\uFFFD"), 100)})
		i = len(h.noted) - 1
	}
	h.noted[i].Uses += uses
	h.noted[i].Refused += no
}

// usesOf returns all uses of a call, including the ones that the worker counted.
func (h *host) usesOf(counted []tool.GrantUse) []tool.GrantUse {
	list := slices.Concat(h.noted, counted)
	slices.SortStableFunc(list, func(a, b tool.GrantUse) int {
		if c := strings.Compare(a.Kind, b.Kind); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return list
}
