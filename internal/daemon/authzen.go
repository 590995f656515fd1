package daemon

import (
	"context"
	"fmt"
	"net/http"

	"palyra/internal/access"
	"palyra/internal/config"
	"palyra/internal/rpc"
	"palyra/internal/rpc/authzen"
)

// openAuthZEN makes what answers other gateways.
func openAuthZEN(_ context.Context, g *gateway, _ Options) error {
	subjects, err := evaluators(g.cfg.Evaluators)
	if err != nil {
		return err
	}
	g.authzen, err = authzen.New(authzen.Config{
		Pipeline: g.pipeline, Engine: g.engine, Members: g.registry, Journal: g.journal, Gateway: g.authority.TrustDomain(), Subjects: subjects,
		Caller: rpc.CallerOf, Origin: rpc.Origin, Count: rpc.CountAgain,
		Refuse: func(w http.ResponseWriter, r *http.Request, route string, err error) {
			rpc.WriteError(w, r, g.log, route, err)
		},
	})
	return err
}

// evaluators are the members about whom each may ask.
func evaluators(list []config.Evaluator) (map[access.Principal][]access.Principal, error) {
	subjects := make(map[access.Principal][]access.Principal)
	for n, e := range list {
		caller, err := access.ParsePrincipal(e.Caller)
		if err != nil {
			return nil, fmt.Errorf("evaluators[%d].caller: %w", n, err)
		}
		for _, s := range e.Subjects {
			p, err := access.ParsePrincipal(s)
			if err != nil {
				return nil, fmt.Errorf("evaluators[%d].subjects: %w", n, err)
			}
			subjects[caller] = append(subjects[caller], p)
		}
	}
	return subjects, nil
}
