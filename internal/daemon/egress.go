package daemon

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/config"
	"palyra/internal/egress"
	"palyra/internal/policy"
	"palyra/internal/reason"
)

// reach is what programs may reach: all of it in mode strict, the rules alone in
// mode preflight.
func reach(cfg *config.Config) (egress.Reach, error) {
	p := cfg.ProcessRunner
	strict := p.EgressEnforcementMode == config.EgressStrict
	grant := egress.Reach{Budget: budget(p.EgressBudget)}
	var err error
	if grant.Rules.Allow, err = egress.ParseRules(slices.Concat(p.AllowedEgressHosts, suffixRules(p.AllowedDNSSuffixes, strict))); err != nil {
		return grant, fmt.Errorf("process_runner.allowed_egress_hosts: %w", err)
	}
	if grant.Rules.Deny, err = egress.ParseRules(p.DeniedEgressHosts); err != nil {
		return grant, fmt.Errorf("process_runner.denied_egress_hosts: %w", err)
	}
	if !strict {
		return grant, nil
	}
	if grant.Inspect, err = inspections(p.Inspect); err != nil {
		return grant, err
	}
	known, err := secrets(cfg)
	if err != nil {
		return grant, err
	}
	grant.Secrets = ofPrograms(known)
	if idle := len(grant.Inspect) - len(grant.Reachable().Inspect); idle > 0 {
		return grant, reason.Errorf(reason.ConfigInvalid, "process_runner.inspect: %d of its hosts can not be reached", idle).
			WithRemedy("Name them in process_runner.allowed_egress_hosts, too, or take them out.")
	}
	if err := holdable(grant); err != nil {
		return grant, fmt.Errorf("process_runner.allowed_egress_hosts: %w", err)
	}
	return grant, nil
}

// holdable refuses a grant that no sandbox could carry out, and one with the
// name localhost: programs know its address by themselves, and connect to that.
func holdable(grant egress.Reach) error {
	for _, rule := range grant.Rules.Allow {
		host, port, _ := strings.Cut(rule.Canonical(), ":")
		if host == "localhost" || strings.HasSuffix(host, ".localhost") {
			return reason.Errorf(reason.HostInvalid, "programs connect to the address of %s, and no rule with the name covers that", rule).
				WithRemedy("Name the address: 127.0.0.1:%s, and [::1]:%s if need be.", port, port)
		}
	}
	return grant.Check()
}

// suffixRules are rules for domains and every host below them. Programs reach
// them on the ports of the web, as a sandbox has to listen on each.
func suffixRules(suffixes []string, strict bool) []string {
	ports := []string{""}
	if strict {
		ports = []string{":443", ":80"}
	}
	var rules []string
	for _, suffix := range suffixes {
		suffix = strings.TrimPrefix(suffix, ".")
		for _, port := range ports {
			rules = append(rules, suffix+port, "*."+suffix+port)
		}
	}
	return rules
}

func budget(b config.EgressBudget) egress.Budget {
	return egress.Budget{
		Connections: b.Connections, Concurrent: b.Concurrent, BytesOut: b.BytesOut, BytesIn: b.BytesIn,
		Requests: b.Requests, Time: b.ConnectionTime(),
	}
}

// inspected is the same for the policy snapshot.
func inspected(list []config.Inspect) []policy.Inspect {
	var out []policy.Inspect
	for _, one := range list {
		out = append(out, policy.Inspect(one))
	}
	return out
}

func inspections(list []config.Inspect) ([]egress.Inspection, error) {
	var inspect []egress.Inspection
	for _, one := range list {
		host, err := egress.ParseRule(one.Host)
		if err != nil {
			return nil, fmt.Errorf("process_runner.inspect: %w", err)
		}
		inspect = append(inspect, egress.Inspection{Host: host, Methods: one.Methods, Paths: one.Paths})
	}
	return inspect, nil
}
