package people

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
)

// Ceilings keeps the principals and channels that policies may admit.
type Ceilings interface {
	// Ceilings returns the ceilings of the configuration, followed by the ceilings that commands
	// set.
	Ceilings() []policyadmin.Ceiling
	SetCeiling(ctx context.Context, by access.Caller, c policyadmin.Ceiling) (policyadmin.Ceiling, error)
}

// ListCeilings lists the principals and channels that the gateway admits or excludes, independent
// of policies.
func (s *ReviewService) ListCeilings(context.Context, *palyrav1.ListCeilingsRequest) (*palyrav1.ListCeilingsResponse, error) {
	res := &palyrav1.ListCeilingsResponse{}
	for _, c := range s.Ceilings.Ceilings() {
		res.Ceilings = append(res.Ceilings, ceilingMessage(c))
	}
	return res, nil
}

// SetCeiling admits a principal or a channel, or excludes it.
func (s *ReviewService) SetCeiling(ctx context.Context, req *palyrav1.SetCeilingRequest) (*palyrav1.SetCeilingResponse, error) {
	c, err := s.Ceilings.SetCeiling(ctx, s.Caller(ctx), policyadmin.Ceiling{Name: req.GetName(), Allowed: req.GetAllowed(), Reason: req.GetReason()})
	if err != nil {
		return nil, err
	}
	return &palyrav1.SetCeilingResponse{Ceiling: ceilingMessage(c)}, nil
}

func ceilingMessage(c policyadmin.Ceiling) *palyrav1.Ceiling {
	m := &palyrav1.Ceiling{Name: c.Name, Allowed: c.Allowed, SetBy: c.By.String(), Reason: c.Reason}
	if !c.At.IsZero() {
		m.At = timestamppb.New(c.At)
	}
	return m
}
