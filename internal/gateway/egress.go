package gateway

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// reach returns the hosts that programs may reach: the full reach in mode strict, only the rules in
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
			WithRemedy("Add them to process_runner.allowed_egress_hosts, or remove them here.")
	}
	if err := grant.Enforceable(); err != nil {
		return grant, fmt.Errorf("process_runner.allowed_egress_hosts: %w", err)
	}
	return grant, nil
}

// suffixRules returns rules for domains and every host below them. If strict is true, they
// cover only the ports of the web, because a sandbox must listen on each port.
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
